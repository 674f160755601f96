// The page of a PyTorch snapshot.

function historyChart(history) {
  const points = history.curve;
  if (points.length < 2) return null;
  const host = el("div");
  const has_time = points.every((point) => point.time_us != null);
  const first = points[0].time_us;
  // Points may share a moment: the next ones stand a little later, so that all are seen.
  let last = -1;
  const x = points.map((point) => {
    last = Math.max(last + 1e-9, has_time ? (point.time_us - first) / 1e6 : point.entries);
    return last;
  });
  const at = (time_us) => (has_time && time_us != null ? (time_us - first) / 1e6 : null);
  const peak = history.peak_requested;
  const marks = history.out_of_memory.filter((each) => at(each.time_us) != null).map((each) => ({
    x: at(each.time_us),
    what: "out_of_memory",
    text: `no memory for ${bytes(each.asked)}${each.at ? `, asked for at ${each.at}` : ""}`,
  }));
  const format = (value, is_short) => (has_time
    ? is_short ? durationBound(value * 1e9) : `${value.toFixed(6)} s`
    : `${count(Math.round(value))} entries`);
  curveChart(host, {
    x,
    layers: [{ name: "handed out, as asked for", colour: "kind-device", values: points.map((point) => point.requested) }],
    lines: [{ name: "reserved", colour: "reserved", values: points.map((point) => point.reserved) }],
    peak: peak && at(peak.time_us) != null ? { x: at(peak.time_us), value: peak.bytes } : null,
    marks,
    format,
    legend: has_time ? "since the first entry of the history" : "by entries of the history",
    label: "Memory over the history of the snapshot",
  });
  return [host, markList(marks, format)];
}

function snapshotDevices(report) {
  return [...report.devices, ...(report.host ? [report.host] : [])];
}

function snapshotPage(report, supplement) {
  const devices = snapshotDevices(report);
  const sum = (of) => devices.reduce((all, device) => all + of(device), 0);
  const banners = [];
  for (const device of devices) {
    const name = device.device == null ? "Host memory" : `Device ${device.device}`;
    if (device.inconsistent_segments) banners.push(banner("critical", `${name}:`, [`${counted(device.inconsistent_segments, "segment")} whose blocks do not add up: the file is damaged.`]));
    if (device.history && !device.history.complete) banners.push(banner("warning", `${name}: its history is not whole.`, device.history.incomplete_because));
    if (device.history?.out_of_memory_count > 0) banners.push(banner("critical", `${name}:`, [`memory ran out ${counted(device.history.out_of_memory_count, "time")}.`]));
  }
  const top = headline(`cudasnoop snapshot · pickle protocol ${report.file.protocol}, ${bytes(report.file.bytes)}, ${counted(report.file.stacks, "call stack")}`,
    "PyTorch memory snapshot", [
      ["reserved", bytes(sum((device) => device.reserved)), counted(sum((device) => device.segments), "segment"), null, "reserved"],
      ["handed out", bytes(sum((device) => device.allocated)), counted(sum((device) => device.allocated_blocks), "block"), null, "allocated"],
      ["free in segments", bytes(sum((device) => device.free_external)), `largest ${bytes(Math.max(0, ...devices.map((device) => device.largest_free)))}`, null, "free"],
      ["lost to rounding", bytes(sum((device) => device.free_internal))],
      ["could be given back", bytes(sum((device) => device.releasable)), "empty_cache()"],
    ], banners);
  const histories = devices.filter((device) => device.history?.curve.length > 1).map((device) =>
    el("div", { class: "panel" }, el("h3", {}, device.device == null ? "Host memory" : `Device ${device.device}`), historyChart(device.history)));
  const column = (title, key) => size(title, (row) => row[key]);
  const named_devices = devices.map((device) => ({ ...device, name: device.device == null ? "host" : String(device.device) }));
  const holders = devices.flatMap((device) => device.holders.map((holder) => ({ ...holder, device: device.device })));
  const pools = devices.flatMap((device) => device.pools.map((pool) => ({ ...pool, device: device.device })));
  return [top, [
    histories.length > 0 && section("time", "Memory over time", "the highest values between points", null, el("div", { class: "stack" }, histories)),
    ...memorySections(supplement).filter((each) => each.id === "map"),
    section("holders", "Who holds the blocks", "by the innermost frame outside of PyTorch", null, el("div", { class: "panel" }, table("Holders", [
      { title: "at", value: (row) => row.at, show: (row) => (row.at ? el("details", {}, el("summary", { class: "code" }, named(row.at, 70)), el("ul", { class: "code" }, row.frames.map((frame) => el("li", {}, frame)))) : "no stack"), class: "name" },
      { title: "device", value: (row) => row.device, show: (row) => row.device ?? "host", number: true },
      amount("blocks", (row) => row.blocks),
      size("bytes", (row) => row.bytes),
    ], holders, { sort: 3 }))),
    section("devices", "Devices and pools", null, null, el("div", { class: "panel stack" },
      table("Devices", [{ title: "device", value: (row) => row.name }, amount("segments", (row) => row.segments), column("reserved", "reserved"),
        column("handed out", "allocated"), column("asked for", "requested"), column("pending", "pending_free"), column("free", "free_external"),
        column("rounding", "free_internal"), column("largest free", "largest_free"), column("releasable", "releasable")], named_devices, { sort: 2 }),
      table("Pools", [{ title: "pool", value: (row) => (row.pool_id ? row.pool_id.join(",") : null), show: (row) => (row.pool_id ? row.pool_id.join(",") : UNKNOWN) },
        { title: "kind", value: (row) => row.kind, show: (row) => row.kind ?? UNKNOWN }, { title: "device", value: (row) => row.device, show: (row) => row.device ?? "host", number: true },
        { title: "stream", value: (row) => row.stream, show: (row) => String(row.stream), number: true },
        amount("segments", (row) => row.segments), column("reserved", "reserved"), column("handed out", "allocated"), column("free", "free_external"), column("largest free", "largest_free")], pools, { sort: 5 }))),
    report.recording && joinSection(report.recording),
  ]];
}

// The snapshot beside a recording.
function joinSection(join) {
  return section("recording", "Beside the recording", join.equal ? "every block and segment is equal" : "they differ", null,
    el("div", { class: "panel" }, table("Devices of the snapshot and of the recording", [
      { title: "device", value: (row) => row.device, number: true },
      { title: "pid", value: (row) => row.pid, show: (row) => row.pid ?? "none", number: true },
      { title: "equal", value: (row) => Number(row.equal), show: (row) => (row.equal ? "yes" : el("span", { class: "failed" }, "NO")), number: true },
      amount("blocks equal", (row) => row.blocks_equal),
      amount("only in snapshot", (row) => row.blocks_only_in_snapshot),
      amount("only in recording", (row) => row.blocks_only_in_recording),
      amount("segments equal", (row) => row.segments_equal),
    ], join.devices, { sort: 0, descending: false })));
}
