// Memory: over time, piece by piece, by kind and holder.

function curveOf(curve, marks, start) {
  const length = curve.live?.most.length ?? curve.reserved?.most.length ?? Object.values(curve.kinds)[0]?.length ?? 0;
  const x = Array.from({ length }, (_, n) => (curve.from + n * curve.step - (start ?? curve.from)) / 1e9);
  const own = OWN_KINDS.filter((kind) => curve.kinds[kind]);
  const others = KINDS.filter((kind) => !OWN_KINDS.includes(kind) && curve.kinds[kind]);
  const lines = others.map((kind) => ({ name: `${words(kind)} (not in live)`, colour: "kind-" + kind, dashed: true, values: curve.kinds[kind] }));
  if (curve.reserved) lines.push({ name: "PyTorch reserved", colour: "reserved", values: curve.reserved.most });
  if (curve.allocated) {
    lines.push({ name: "PyTorch allocated", colour: "allocated", values: curve.allocated.most });
    lines.push({ name: "its least in a step", colour: "allocated", dashed: true, values: curve.allocated.least });
  } else if (curve.live) {
    lines.push({ name: "least in a step", colour: "allocated", dashed: true, values: curve.live.least });
  }
  let peak = null;
  for (const [n, value] of (curve.live?.most ?? []).entries()) {
    if (value != null && value > (peak?.value ?? 0)) peak = { x: x[n], value };
  }
  const seconds = (moment) => (moment - (start ?? curve.from)) / 1e9;
  return {
    x,
    layers: own.map((kind) => ({ name: words(kind), colour: "kind-" + kind, values: curve.kinds[kind] })),
    lines,
    peak,
    marks: marks.filter((mark) => mark.pid == null || mark.pid === curve.pid)
      .map((mark) => ({ ...mark, at: since(mark.at_ns, start), x: seconds(mark.at_ns), until: mark.until_ns == null ? null : seconds(mark.until_ns) }))
      .sort((a, b) => a.x - b.x),
    format: (value, is_short) => (is_short ? durationBound(value * 1e9) : `${value.toFixed(6)} s`),
    legend: `most in each ${duration(curve.step)}:`,
    label: `Memory of ${whoseName(curve)} over time`,
  };
}

// Whose memory is shown first: where PyTorch ran out of it, or else that of the highest peak.
function first(curves, marks) {
  const ran_out = marks.find((mark) => mark.what === "out_of_memory");
  return curves.find((curve) => ran_out && curve.pid === ran_out.pid && curve.reserved) ?? curves[0];
}

// Curves and maps of one process and device, chosen by a select.
function memorySections(supplement) {
  const { curves, maps, marks, start_ns: start } = supplement;
  const all = new Map();
  for (const each of [...curves, ...maps]) {
    const key = whoseKey(each);
    if (!all.has(key)) all.set(key, { whose: each });
  }
  for (const curve of curves) all.get(whoseKey(curve)).curve = curve;
  for (const map of maps) all.get(whoseKey(map)).map = map;
  if (all.size === 0) return [];
  const over_time = el("div", { class: "panel" });
  const moments = el("div");
  const pieces = el("div", { class: "panel" });
  const title = el("span", { class: "faint" });
  const choose = (key) => {
    const { curve, map } = all.get(key);
    selects.forEach((select) => (select.value = key));
    if (curve) {
      const drawn = curveOf(curve, marks, start);
      const chart = el("div");
      replace(over_time, chart);
      curveChart(chart, drawn);
      replace(moments, markList(drawn.marks, (value) => `${value.toFixed(6)} s`),
        supplement.marks_left_out > 0 && el("p", { class: "faint" }, `and ${counted(supplement.marks_left_out, "moment")} more, of kinds that happened too often to list`));
    } else {
      replace(over_time, el("p", {}, "No change of it was recorded."));
      replace(moments);
    }
    if (map) {
      memoryMap(pieces, map);
      replace(title, map.at_ns == null ? "" : map.ended
        ? `right before its end (${map.ended}), ${since(map.at_ns, start)}`
        : `at ${since(map.at_ns, start)}, the last moment looked at`);
    } else {
      replace(pieces, el("p", {}, "Nothing was live at the end."));
      replace(title);
    }
  };
  const selects = [0, 1].map((place) => el("select", { "aria-label": place ? "Whose map" : "Whose memory", onchange: (event) => choose(event.target.value) },
    [...all].map(([key, { whose }]) => el("option", { value: key }, whoseName(whose)))));
  const tools = (place) => (all.size > 1 ? selects[place] : el("span", { class: "faint" }, named(whoseName([...all.values()][0].whose))));
  choose(curves.length ? whoseKey(first(curves, marks)) : [...all.keys()][0]);
  return [
    section("time", "Memory over time", null, tools(0), over_time, moments,
      supplement.curves_left_out > 0 && el("p", { class: "faint more" }, leftOut("Curves", supplement.curves_left_out, "that came later"))),
    section("map", "Memory map", title, tools(1), pieces,
      supplement.maps_left_out > 0 && el("p", { class: "faint more" }, leftOut("Maps", supplement.maps_left_out, "with less memory"))),
  ];
}

// Device memory by process, from a report.
function reportMemoryTable(memory) {
  const bytesColumn = (title, of, hint) => ({ title, value: of, show: (row) => bytes(of(row)), number: true, hint });
  return table("Device memory", [
    { title: "pid", value: (row) => row.pid, number: true },
    { title: "device", value: (row) => row.device, show: (row) => row.device ?? UNKNOWN, number: true },
    bytesColumn("peak", (row) => row.peak_bytes, "most that was live at once"),
    bytesColumn("live", (row) => row.live_bytes, "allocated and not freed"),
    bytesColumn("held", (row) => row.held_bytes, "of the device's pages that it touches"),
    bytesColumn("at exit", (row) => row.ended_bytes, "live when the process or a context ended: no leak"),
    { title: "blocks", value: (row) => row.live_blocks, show: (row) => count(row.live_blocks), number: true },
    bytesColumn("PyTorch", (row) => row.torch?.allocated, "handed out by PyTorch's allocator"),
    bytesColumn("reserved", (row) => row.torch?.reserved, "held by PyTorch's allocator"),
    bytesColumn("unattributed", (row) => row.unattributed_bytes, "in use on the device when the program last asked, and of no allocation here"),
  ], memory, { sort: 2 });
}

// Who holds memory, from `memory`.
function holdersTable(processes) {
  const rows = processes.flatMap((process) => process.devices.flatMap((device) =>
    device.holders.map((holder) => ({ ...holder, pid: process.pid, device: device.device }))));
  return table("Holders", [
    { title: "caller", value: (row) => fileName(row.caller), show: (row) => (row.caller ? named(fileName(row.caller)) : "unknown"), class: "name" },
    { title: "pid", value: (row) => row.pid, number: true },
    { title: "device", value: (row) => row.device, show: (row) => row.device ?? UNKNOWN, number: true },
    { title: "kind", value: (row) => row.kind, show: (row) => [swatch(row.kind), words(row.kind)] },
    { title: "sizes up to", value: (row) => row.size_class_bytes, show: (row) => bytes(row.size_class_bytes), number: true },
    { title: "count", value: (row) => row.live_count, show: (row) => count(row.live_count), number: true },
    { title: "live", value: (row) => row.live_bytes, show: (row) => bytes(row.live_bytes), number: true },
  ], rows, { sort: 6 });
}

function kindsTable(processes) {
  const rows = processes.flatMap((process) => process.devices.flatMap((device) => KINDS
    .map((kind) => ({ pid: process.pid, device: device.device, kind, now: device.by_kind?.[kind], peak: device.peak_by_kind?.[kind] }))
    .filter((row) => row.now > 0 || row.peak > 0)));
  return table("Kinds", [
    { title: "kind", value: (row) => row.kind, show: (row) => [swatch(row.kind), words(row.kind), !OWN_KINDS.includes(row.kind) && el("span", { class: "faint" }, " not in live")] },
    { title: "pid", value: (row) => row.pid, number: true },
    { title: "device", value: (row) => row.device, show: (row) => row.device ?? UNKNOWN, number: true },
    { title: "now", value: (row) => row.now, show: (row) => bytes(row.now), number: true },
    { title: "at the peak", value: (row) => row.peak, show: (row) => bytes(row.peak), number: true },
  ], rows, { sort: 3 });
}

function devicesTable(processes, start) {
  const rows = processes.flatMap((process) => process.devices.map((device) => ({ ...device, process })));
  return table("Devices", [
    { title: "process", value: (row) => row.process.pid, show: (row) => [`${row.process.pid} `, named(processName(row.process), 40)], class: "name" },
    { title: "device", value: (row) => row.device, show: (row) => row.device ?? UNKNOWN, number: true },
    { title: "live", value: (row) => row.live_bytes, show: (row) => bytes(row.live_bytes), number: true },
    { title: "held", value: (row) => row.held_bytes, show: (row) => bytes(row.held_bytes), number: true },
    { title: "peak", value: (row) => row.peak_bytes, show: (row) => bytes(row.peak_bytes), number: true },
    { title: "peak at", value: (row) => row.peak_ns, show: (row) => since(row.peak_ns, start), number: true },
    { title: "PyTorch", value: (row) => row.torch?.allocated, show: (row) => bytes(row.torch?.allocated), number: true },
    { title: "reserved", value: (row) => row.torch?.reserved, show: (row) => bytes(row.torch?.reserved), number: true },
    { title: "unattributed", value: (row) => row.unattributed_bytes, show: (row) => bytes(row.unattributed_bytes), number: true },
  ], rows, { sort: 4 });
}
