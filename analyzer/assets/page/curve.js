// Memory over time: kinds stacked, PyTorch's totals as lines, the peak and other moments marked.

const MARKS = {
  out_of_memory: { symbol: "✖", title: "out of memory", colour: "critical" },
  failed: { symbol: "✖", title: "allocation failed", colour: "critical" },
  gap: { symbol: "◇", title: "calls may have been missed", colour: "warning" },
  lost: { symbol: "◆", title: "events lost", colour: "warning" },
  ended: { symbol: "■", title: "process ended", colour: "faint" },
};

// What is drawn: {x: [...], layers: [{name, colour, values}], lines: [{name, colour, dashed, values}],
// peak: {x, value, title}, marks: [{x, until, what, text}], format(x)}.
// Gives back what draws something else in its place.
function curveChart(host, drawn, { height = 300 } = {}) {
  const legend = el("div", { class: "legend", "aria-live": "polite" });
  const chart = el("div", {
    class: "chart",
    tabindex: 0,
    role: "img",
    "aria-label": `${drawn.label}. Arrow keys read values; drag to enlarge, Escape to see all.`,
  });
  replace(host, legend, chart);
  let plot = null;

  function tell(n) {
    const { x, layers, lines, format } = drawn;
    const value = (values) => (n == null ? null : bytes(values[n]));
    replace(legend,
      el("span", { class: "key faint" }, n == null ? drawn.legend ?? "" : format(x[n])),
      layers.map((layer) => el("span", { class: "key" },
        el("span", { class: "swatch", style: { background: `var(--${layer.colour})` } }), layer.name,
        n != null && [" ", el("b", {}, value(layer.values))])),
      lines.map((line) => el("span", { class: "key" },
        el("span", { class: `swatch ${line.dashed ? "dashed" : "solid"}`, style: { borderColor: `var(--${line.colour})` } }),
        line.name, n != null && [" ", el("b", {}, value(line.values))])));
  }

  function drawMarks(u) {
    const { marks = [], peak } = drawn;
    const { ctx, bbox } = u;
    const ratio = devicePixelRatio;
    const place = (value) => u.valToPos(value, "x", true);
    const inside = (value) => value >= bbox.left - 1 && value <= bbox.left + bbox.width + 1;
    ctx.save();
    ctx.font = `${12 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
    ctx.textAlign = "center";
    for (const mark of marks) {
      const look = MARKS[mark.what];
      const at = place(mark.x);
      ctx.strokeStyle = ctx.fillStyle = colour(look.colour);
      if (mark.what === "lost" && mark.until != null) {
        // Nobody knows when: along the whole of it.
        const [from, to] = [Math.max(at, bbox.left), Math.min(place(mark.until), bbox.left + bbox.width)];
        ctx.globalAlpha = 0.8;
        for (let stripe = from; stripe < to; stripe += 8 * ratio) {
          ctx.fillRect(stripe, bbox.top, Math.min(4 * ratio, to - stripe), 4 * ratio);
        }
        ctx.globalAlpha = 1;
        continue;
      }
      if (mark.until != null) {
        const [from, to] = [Math.max(at, bbox.left), Math.min(place(mark.until), bbox.left + bbox.width)];
        ctx.globalAlpha = 0.18;
        if (to > from) ctx.fillRect(from, bbox.top, Math.max(to - from, ratio), bbox.height);
        ctx.globalAlpha = 1;
      }
      if (!inside(at)) continue;
      ctx.lineWidth = ratio;
      ctx.setLineDash([4 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.fillText(look.symbol, at, bbox.top - 4 * ratio);
    }
    if (peak && inside(place(peak.x))) {
      const [left, top] = [place(peak.x), u.valToPos(peak.value, "y", true)];
      ctx.fillStyle = ctx.strokeStyle = colour("ink");
      ctx.beginPath();
      ctx.arc(left, top, 3.5 * ratio, 0, 2 * Math.PI);
      ctx.fill();
      ctx.font = `600 ${12 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
      const isLeft = left > bbox.left + bbox.width / 2;
      ctx.textAlign = isLeft ? "right" : "left";
      ctx.fillText(`${peak.title ?? "peak"} ${bytes(peak.value)}`, left + (isLeft ? -8 : 8) * ratio, top - 7 * ratio);
    }
    ctx.restore();
  }

  // Layers from the highest sum down, so that each covers what is below it; then lines.
  function data() {
    let below = drawn.x.map(() => 0);
    const sums = drawn.layers.map((layer) => {
      below = layer.values.map((value, n) => (value == null ? null : (below[n] ?? 0) + value));
      return below;
    });
    return [drawn.x, ...sums.reverse(), ...drawn.lines.map((line) => line.values)];
  }

  // The part that somebody enlarged; null: all is shown.
  function enlarged() {
    const { min, max } = plot?.scales.x ?? {};
    const { x } = drawn;
    return min != null && (min > x[0] || max < x[x.length - 1]) ? { min, max } : null;
  }

  function draw(width, part = enlarged()) {
    plot?.destroy();
    const { layers, lines, format } = drawn;
    const series = [{}];
    for (const layer of [...layers].reverse()) {
      series.push({ stroke: colour(layer.colour), fill: softened(layer.colour, 0.7), width: 1, points: { show: false }, paths: stepped });
    }
    for (const line of lines) {
      const stroke = colour(line.colour);
      series.push({ stroke, width: 1.5, dash: line.dashed ? [5, 4] : undefined, points: { show: false }, paths: stepped });
    }
    const axis = { stroke: colour("faint"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: "12px " + getComputedStyle(document.body).fontFamily };
    const options = {
      width,
      height: width < 500 ? 230 : height,
      padding: [24, 12, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false } },
      scales: {
        x: { time: false },
        y: { range: (_, low, high) => [0, (Math.max(high, 1)) * 1.1] },
      },
      axes: [
        { ...axis, values: (_, places) => places.map((place) => format(place, true)), space: 80, size: 34 },
        { ...axis, size: 78, splits: byteSplits, values: (_, places) => places.map(bytesBound) },
      ],
      series,
      hooks: {
        draw: [drawMarks],
        setCursor: [(u) => tell(u.cursor.left >= 0 ? u.cursor.idx : null)],
      },
    };
    plot = new uPlot(options, data(), chart);
    if (part) plot.setScale("x", part);
    chart.dataset.drawn = "yes";
    tell(null);
  }

  chart.addEventListener("keydown", (event) => {
    if (!plot) return;
    const { x } = drawn;
    const last = x.length - 1;
    const here = plot.cursor.left >= 0 ? plot.cursor.idx : null;
    const next = {
      ArrowRight: here == null ? 0 : Math.min(last, here + 1),
      ArrowLeft: here == null ? last : Math.max(0, here - 1),
      PageDown: Math.min(last, (here ?? 0) + Math.ceil(last / 20)),
      PageUp: Math.max(0, (here ?? last) - Math.ceil(last / 20)),
      Home: 0,
      End: last,
    }[event.key];
    if (event.key === "Escape") {
      plot.setScale("x", { min: x[0], max: x[last] });
      plot.setCursor({ left: -10, top: -10 });
    }
    if (next == null) return;
    event.preventDefault();
    plot.setCursor({ left: plot.valToPos(x[next], "x"), top: 10 });
  });
  chart.addEventListener("blur", () => plot?.setCursor({ left: -10, top: -10 }));
  onWidth(chart, draw);
  onColours(chart, () => plot && draw(chart.clientWidth));
  tell(null);
  return (next) => {
    const names = (of) => JSON.stringify([of.layers, of.lines].map((list) => list.map((each) => [each.name, each.colour])));
    const is_alike = names(next) === names(drawn);
    const part = enlarged();
    drawn = next;
    if (plot && is_alike) {
      plot.setData(data());
      if (part) plot.setScale("x", part);
    } else if (plot) {
      draw(chart.clientWidth, part);
    }
    if (!plot || plot.cursor.left < 0) tell(null);
  };
}

const stepped = uPlot.paths.stepped({ align: 1 });

// Marks of the axis at round numbers of bytes.
function byteSplits(_, __, low, high) {
  const least = (high - low) / 6;
  let step = 1;
  while (step < least) step *= 2;
  const splits = [];
  for (let at = 0; at <= high; at += step) splits.push(at);
  return splits;
}

// What happened, in words.
function markList(marks, format) {
  if (marks.length === 0) return null;
  return el("ul", { class: "marks", "aria-label": "Moments", tabindex: marks.length > 6 ? 0 : null }, marks.map((mark) => {
    const look = MARKS[mark.what];
    return el("li", {}, el("span", { class: "at" }, mark.what === "lost" && mark.until != null ? "" : mark.at ?? format(mark.x)),
      el("span", {}, el("span", { class: `symbol ${mark.what}`, title: look.title }, look.symbol), " ", mark.text));
  }));
}
