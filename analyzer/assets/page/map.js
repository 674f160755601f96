// The memory map: every piece of memory as a bar, segments with the blocks in them.

const BAR_ROWS = 40;

// `map` is one of the supplement's; `view` keeps what was chosen when another is drawn in its place.
function memoryMap(host, map, view = { order: "size", shown: BAR_ROWS }) {
  const bars = map.bars;
  const of = (holder) => (holder == null ? null : map.holders[holder]);
  const rest = map.rest.reduce((sum, each) => sum + each.bytes, 0);
  const total = bars.reduce((sum, bar) => sum + (bar.size ?? 0), 0) + rest;
  const readout = el("div", { class: "readout", "aria-live": "polite" });
  const rows = el("div", { class: "bars" });
  const order_by = el("select", { "aria-label": "Order of the pieces", onchange: (event) => {
    view.order = event.target.value;
    list();
  } }, el("option", { value: "size" }, "largest first"), el("option", { value: "address" }, "by address"),
  el("option", { value: "free" }, "most free bytes first"), el("option", { value: "age" }, "oldest first"));
  order_by.value = view.order;

  function about(bar) {
    const what = bar.segment
      ? `${bar.segment.pool ? bar.segment.pool + " " : ""}${bar.segment.expandable ? "expandable " : ""}segment`
      : words(bar.kind);
    const holder = fileName(of(bar.holder));
    return [what, holder].filter(Boolean).join(" · ");
  }

  function whole(bar) {
    const parts = [
      `${bytes(bar.size)} at ${bar.address ?? "an address that is not known"}`,
      about(bar),
      bar.segment && `${counted(bar.segment.blocks, "block")}, ${bytes(bar.segment.allocated)} live`,
      of(bar.holder) ? `taken by ${of(bar.holder)}` : "who took it is not known",
      bar.api && `with ${bar.api}`,
      bar.age_ns != null && `${duration(bar.age_ns)} old`,
    ];
    return parts.filter(Boolean).join(" · ");
  }

  // Blocks and the holes between them, by address.
  function pieces(bar) {
    if (!bar.segment) return [{ offset: 0, size: bar.size ?? 0, live: bar.size ?? 0, whole: true }];
    const all = [];
    let at = 0;
    for (const cell of bar.segment.cells) {
      if (cell.offset > at) all.push({ offset: at, size: cell.offset - at, live: 0 });
      all.push(cell);
      at = Math.max(at, cell.offset + cell.size);
    }
    if (at < bar.size) all.push({ offset: at, size: bar.size - at, live: 0 });
    return all;
  }

  function tellPiece(bar, piece) {
    if (!piece) return replace(readout, el("span", { class: "faint" }, map.bars.length ? "Point at a bar, or focus one and use the arrow keys." : ""));
    if (piece.whole) return replace(readout, whole(bar));
    const where = bar.address == null ? "" : ` at 0x${(BigInt(bar.address) + BigInt(piece.offset)).toString(16)}`;
    const block = piece.live === 0
      ? `free: ${bytes(piece.size)}${where}`
      : [
        piece.blocks > 1
          ? `${count(piece.blocks)} blocks, ${bytes(piece.live)} live in ${bytes(piece.size)}${where}`
          : `${piece.pending ? "block that waits for another stream" : "block"}: ${bytes(piece.size)}${where}`,
        piece.holder != null ? `held by ${of(piece.holder)}` : "held by PyTorch's allocator; who asked it is not reported",
        piece.age_ns != null && `${piece.blocks > 1 ? "the oldest " : ""}${duration(piece.age_ns)} old`,
      ].filter(Boolean).join(" · ");
    replace(readout, el("div", {}, el("b", {}, block)), el("div", { class: "faint" }, "in: ", whole(bar)));
  }

  function row(bar) {
    const inside = pieces(bar);
    const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": whole(bar) });
    let here = null;
    const scale = () => canvas.clientWidth / Math.max(1, bar.size ?? 1);

    function draw() {
      const ctx = emptied(canvas);
      if (!ctx) return;
      const height = canvas.clientHeight;
      const fill = colour("kind-" + bar.kind);
      for (const piece of inside) {
        if (piece.live === 0) continue;
        const left = piece.offset * scale();
        const wide = Math.max(piece.size * scale(), 0.6);
        ctx.fillStyle = fill;
        // Several blocks that are one here are as dense as they are live.
        ctx.globalAlpha = 0.35 + 0.65 * (piece.live / Math.max(1, piece.size));
        ctx.fillRect(left, 0, wide > 3 ? wide - 0.6 : wide, height);
        ctx.globalAlpha = 1;
        if (piece.pending) {
          ctx.fillStyle = colour("warning");
          ctx.fillRect(left, height - 4, wide, 4);
        }
      }
      if (here != null && inside[here]) {
        ctx.strokeStyle = colour("ink");
        ctx.lineWidth = 2;
        ctx.strokeRect(inside[here].offset * scale() + 1, 1, Math.max(inside[here].size * scale() - 2, 2), height - 2);
      }
    }

    steps(canvas, {
      length: () => inside.length,
      at: (event) => {
        const offset = event.offsetX / scale();
        let found = null;
        inside.forEach((piece, place) => {
          if (offset >= piece.offset) found = place;
        });
        return found;
      },
      show: (place) => {
        here = place;
        draw();
        tellPiece(bar, place == null ? null : inside[place]);
      },
    });
    canvas.addEventListener("focus", () => here == null && tellPiece(bar, { whole: true }));
    onWidth(canvas, draw);
    onColours(canvas, draw);
    return el("div", { class: "piece" }, el("span", { class: "size" }, bytes(bar.size)), canvas,
      el("span", { class: "live" }, bar.segment ? percent(bar.segment.allocated, bar.size) : ""),
      el("span", { class: "about", title: whole(bar) }, about(bar)));
  }

  function list() {
    const by = {
      size: (bar) => bar.size ?? 0,
      free: (bar) => (bar.segment ? bar.size - bar.segment.allocated : 0),
      age: (bar) => bar.age_ns ?? 0,
    }[view.order];
    const sorted = by ? [...bars].sort((a, b) => by(b) - by(a)) : bars;
    const hidden = bars.length - view.shown;
    replace(rows, sorted.slice(0, view.shown).map(row), hidden > 0 && el("div", {}, el("button", {
      type: "button",
      class: "small",
      onclick: () => {
        view.shown = bars.length;
        list();
      },
    }, `Show ${count(hidden)} more`)));
  }

  const band = scaleBand(bars, rest, total, (bar) => tellPiece(bar, bar && { whole: true }));

  const kinds = [...new Set(bars.map((bar) => bar.kind))];
  replace(host,
    el("div", { class: "legend" },
      KINDS.filter((kind) => kinds.includes(kind)).map((kind) => el("span", { class: "key" }, swatch(kind), words(kind))),
      bars.some((bar) => bar.segment) && el("span", { class: "key" }, el("span", { class: "swatch", style: { background: "var(--free)", outline: "1px solid var(--line)" } }), "free in a segment"),
      bars.some((bar) => bar.segment?.cells.some((cell) => cell.pending)) && el("span", { class: "key" }, el("span", { class: "swatch", style: { background: "var(--warning)" } }), "waits for another stream"),
      el("span", { class: "tools", style: { marginLeft: "auto" } }, order_by)),
    band,
    el("p", { class: "faint note" }, "The band is to scale. Below, each bar is one piece from its first byte to its last, whatever its size."),
    rows,
    map.rest.length > 0 && el("p", { class: "faint more" },
      `Not shown one by one: ${map.rest.slice(0, 4).map((each) => `${counted(each.pieces, `smaller ${words(each.kind)} piece`)} of ${fileName(of(each.holder)) ?? "an unknown holder"} (${bytes(each.bytes)})`).join("; ")}${map.rest.length > 4 ? `; and ${counted(map.rest.length - 4, "more group")}` : ""}.`),
    readout);
  list();
  tellPiece(null, null);
}

// To draw on a canvas, as large as it is seen and free all over; null: it is not seen.
function emptied(canvas) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width) return null;
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  const ctx = canvas.getContext("2d");
  ctx.scale(devicePixelRatio, devicePixelRatio);
  ctx.fillStyle = colour("free");
  ctx.fillRect(0, 0, width, height);
  return ctx;
}

// All pieces on one scale, the largest first; what is free in a segment stays empty.
function scaleBand(bars, rest, total, tell) {
  const largest = [...bars].sort((a, b) => (b.size ?? 0) - (a.size ?? 0));
  const canvas = el("canvas", { class: "band", tabindex: 0, role: "img", "aria-label": `${counted(bars.length, "piece")} of ${bytes(total)} in all, to scale` });
  const scale = () => canvas.clientWidth / Math.max(1, total);
  const draw = () => {
    const ctx = emptied(canvas);
    if (!ctx) return;
    const height = canvas.clientHeight;
    let at = 0;
    for (const bar of largest) {
      const live = bar.segment ? bar.segment.allocated : bar.size ?? 0;
      ctx.fillStyle = colour("kind-" + bar.kind);
      ctx.fillRect(at * scale(), 0, live * scale(), height);
      at += bar.size ?? 0;
      if ((bar.size ?? 0) * scale() > 4) {
        ctx.fillStyle = colour("panel");
        ctx.fillRect(at * scale() - 1, 0, 1, height);
      }
    }
    ctx.fillStyle = colour("reserved");
    ctx.fillRect(at * scale(), 0, rest * scale(), height);
  };
  steps(canvas, {
    length: () => largest.length,
    at: (event) => {
      let offset = event.offsetX / scale();
      const found = largest.findIndex((bar) => (offset -= bar.size ?? 0) < 0);
      return found < 0 ? null : found;
    },
    show: (place) => tell(place == null ? null : largest[place]),
  });
  onWidth(canvas, draw);
  onColours(canvas, draw);
  return canvas;
}
