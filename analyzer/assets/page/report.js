// Puts the page of a report together, from the documents in it.

function read(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

function reportPage(report, supplement) {
  const { recording, processes, memory, findings } = report;
  const with_calls = processes.filter((process) => process.has_calls);
  const shown = with_calls.length ? with_calls : processes;
  const highest = memory.reduce((most, each) => (each.peak_bytes > (most?.peak_bytes ?? -1) ? each : most), null);
  const known = memory.filter((each) => each.peak_bytes != null);
  const calls = report.calls.reduce((sum, row) => sum + row.calls, 0);
  const live = known.reduce((sum, each) => sum + each.live_bytes, 0);
  const at_exit = known.reduce((sum, each) => sum + (each.ended_bytes ?? 0), 0);
  const largest = report.memory.reduce((most, each) => (each.torch?.reserved > (most?.reserved ?? -1) ? each.torch : most), null);
  const whose = with_calls.length === processes.length ? counted(processes.length, "process").replace("processs", "processes")
    : `${count(with_calls.length)} of ${count(processes.length)} processes called CUDA`;
  const selected = selectionText(report.window, recording.start_ns);
  const top = headline(
    ["cudasnoop report", recording.settings?.host, recording.started && recording.started.replace("T", " ").replace(/\.\d+Z$/, " UTC"), whose].filter(Boolean).join(" · "),
    commandText(recording.settings?.command) ?? titleOf(shown), [
      ["length", duration(recording.duration_ns), `${count(recording.events)} events`, null, "length"],
      ["peak memory", highest ? bytes(highest.peak_bytes) : UNKNOWN, highest ? `process ${highest.pid}, device ${highest.device ?? "unknown"}` : "no device memory was seen", null, "peak"],
      ["live at the end", known.length ? bytes(live) : UNKNOWN, at_exit > 0 ? `${bytes(at_exit)} went at exit` : null, null, "live"],
      largest && ["PyTorch", bytes(largest.allocated), `of ${bytes(largest.reserved)} reserved`, null, "torch"],
      ["calls", count(calls), counted(report.calls.length, "function"), null, "calls"],
      findingsFact(findings),
      wholeFact(report, supplement),
    ], [selected && banner("", "A part was selected:", [selected]), wholenessBanners(report, supplement)]);
  return [top, [
    findingsSection(findings, recording.start_ns),
    ...memorySections(supplement),
    memory.length > 0 && section("memory", "Device memory", null, null, el("div", { class: "panel" }, reportMemoryTable(memory))),
    histogramsSection(supplement.hist),
    kernelsSection(report, supplement),
    callsSection(report.calls),
    copiesSection(report.copies, report.waits),
    processesSection(processes, recording.start_ns),
    wholeSection(report),
  ]];
}

// What was recorded, by the names of its files.
function commandText(command) {
  return command?.map((word) => (word.startsWith("/") ? fileName(word) : word)).join(" ");
}

function selectionText(window, start) {
  const { from_ns, to_ns, pids, devices } = window;
  if (from_ns == null && to_ns == null && !pids.length && !devices.length) return null;
  return `from ${from_ns == null ? "the start" : since(from_ns, start)} to ${to_ns == null ? "the end" : since(to_ns, start)}`
    + (pids.length ? `, pid ${pids.join(", ")}` : "") + (devices.length ? `, device ${devices.join(", ")}` : "");
}

function processesSection(processes, start) {
  if (!processes.length) return null;
  const has_calls = processes.some((process) => process.has_calls);
  const rows = has_calls ? processes.filter((process) => process.has_calls) : processes;
  return section("processes", "Processes", rows.length < processes.length ? `and ${count(processes.length - rows.length)} without a CUDA call` : null, null,
    el("div", { class: "panel" }, table("Processes", [
      { title: "pid", value: (row) => row.pid, number: true },
      { title: "program", value: (row) => processName(row), show: (row) => named(processName(row)), class: "name" },
      { title: "executable", value: (row) => row.exe, show: (row) => (row.exe ? named(row.exe, 50) : UNKNOWN) },
      { title: "traced", value: (row) => (row.from_start == null ? null : Number(row.from_start)), show: (row) => ({ true: "from its start", false: "later" })[row.from_start] ?? UNKNOWN },
      { title: "ended", value: (row) => row.ended_ns, show: (row) => since(row.ended_ns, start), number: true },
      amount("unknown frees", (row) => row.unknown_frees, "of blocks whose allocation was not recorded"),
      amount("lost frees", (row) => row.lost_frees, "not recorded: the address was allocated again"),
    ], rows, { sort: 0, descending: false, most: 12 })));
}

function memoryFacts(report) {
  const devices = report.processes.flatMap((process) => process.devices.map((device) => ({ ...device, process })));
  const known = devices.filter((device) => device.peak_bytes != null);
  const highest = known.reduce((most, each) => (each.peak_bytes > (most?.peak_bytes ?? -1) ? each : most), null);
  return [
    ["peak memory", highest ? bytes(highest.peak_bytes) : UNKNOWN, highest ? `process ${highest.process.pid}, device ${highest.device ?? "unknown"}${highest.peak_ns == null ? "" : `, at ${since(highest.peak_ns, report.recording.start_ns)}`}` : "no device memory was seen", null, "peak"],
    ["live", known.length ? bytes(known.reduce((sum, each) => sum + each.live_bytes, 0)) : UNKNOWN, "at the moment shown", null, "live"],
    ["held in pages", known.length ? bytes(known.reduce((sum, each) => sum + each.held_bytes, 0)) : UNKNOWN, null, null, "held"],
  ];
}

function kickerOf(command, report) {
  const { events, start_ns, end_ns } = report.recording;
  return [`cudasnoop ${command}`, `${count(events)} events`, start_ns != null && end_ns != null && duration(end_ns - start_ns),
    report.at_ns == null ? null : `at ${since(report.at_ns, start_ns)}`].filter(Boolean).join(" · ");
}

function memoryPage(report, supplement) {
  const top = headline(kickerOf("memory", report), titleOf(report.processes), [...memoryFacts(report), wholeFact(report, supplement)], wholenessBanners(report, supplement));
  const doubts = report.processes.flatMap((process) => doubtsOf(process).map((doubt) => `process ${process.pid}: ${doubt}`));
  return [top, [
    ...memorySections(supplement),
    section("holders", "Who holds the memory", null, null, el("div", { class: "panel" }, holdersTable(report.processes))),
    section("kinds", "By kind", null, null, el("div", { class: "panel" }, kindsTable(report.processes))),
    section("devices", "By process and device", null, null, el("div", { class: "panel" }, devicesTable(report.processes, report.recording.start_ns))),
    doubts.length > 0 && section("doubts", "What makes totals doubtful", null, null, el("ul", { class: "panel", style: { paddingLeft: "1.8rem" } }, doubts.map((doubt) => el("li", {}, doubt)))),
  ]];
}

function doubtsOf(process) {
  const counts = [
    [process.unknown_frees, "frees of what was not seen allocated"],
    [process.failed_allocations.count, "allocations that failed"],
    [process.failed_frees, "frees that failed"],
    [process.unread_allocations.count, "allocations whose address or size could not be read: in no total"],
    [process.unsized_allocations, "allocations of a size that is not known: 0 in all totals"],
    [process.unknown_mappings, "mappings of memory that was not seen created: in no total"],
    [process.untracked.count, "allocations that found no place in the ledger: in no total"],
    [process.ended.lost_free.count, "blocks freed unseen: their addresses were handed out again"],
    [process.gaps, "stretches in which calls may have been missed"],
  ];
  const doubts = counts.filter(([number]) => number > 0).map(([number, what]) => `${count(number)} ${what}`);
  if (process.memory_sampled) doubts.unshift("its memory calls come in windows, for the sake of an overhead budget: what it holds is not known");
  if (!process.from_start) doubts.unshift("it ran before it was traced: what it held then is in no total");
  return doubts;
}

function fragmentationPage(report, supplement) {
  const torches = report.processes.flatMap((process) => process.devices.filter((device) => device.torch)
    .map((device) => ({ ...device.torch, pid: process.pid, device: device.device })));
  const drivers = report.processes.flatMap((process) => process.devices.filter((device) => device.driver)
    .map((device) => ({ ...device.driver, pid: process.pid, device: device.device })));
  const sum = (rows, of) => rows.reduce((all, row) => all + of(row), 0);
  const top = headline(kickerOf("fragmentation", report), titleOf(report.processes), [
    torches.length > 0 && ["PyTorch holds", bytes(sum(torches, (row) => row.reserved)), `${bytes(sum(torches, (row) => row.allocated))} handed out`, null, "reserved"],
    torches.length > 0 && ["unused", bytes(sum(torches, (row) => row.unused)), `largest free block ${bytes(Math.max(...torches.map((row) => row.largest_free)))}`, null, "unused"],
    torches.length > 0 && ["in empty segments", bytes(sum(torches, (row) => row.releasable)), "PyTorch gives these back", null, "releasable"],
    ["from the driver", bytes(sum(drivers, (row) => row.live_bytes)), `${bytes(sum(drivers, (row) => row.waste_bytes))} wasted in pages`, null, "driver"],
    findingsFact(report.findings),
    wholeFact(report, supplement),
  ], wholenessBanners(report, supplement));
  const at = (title, of) => size(title, of);
  const place = [{ title: "pid", value: (row) => row.pid, number: true }, { title: "device", value: (row) => row.device, show: (row) => row.device ?? UNKNOWN, number: true }];
  const pools = torches.flatMap((torch) => torch.pools.map((pool) => ({ ...pool, pid: torch.pid, device: torch.device })));
  const waste = drivers.flatMap((driver) => driver.held_by.map((held) => ({ ...held, pid: driver.pid, device: driver.device })));
  const fits = torches.filter((torch) => torch.fit);
  const sizes = torches.flatMap((torch) => torch.free_sizes.map((free) => ({ ...free, pid: torch.pid, device: torch.device })));
  return [top, [
    findingsSection(report.findings, report.recording.start_ns),
    ...memorySections(supplement).reverse(),
    fits.length > 0 && section("fit", "Would a request fit", null, null, el("div", { class: "stack" }, fits.map((torch) => el("div", { class: "panel" },
      el("b", {}, `${bytes(torch.fit.requested)} on device ${torch.device} of process ${torch.pid}`),
      el("p", {}, `From a free block: ${yes(torch.fit.cached.fits)}. ${torch.fit.cached.reason}`),
      el("p", {}, `From a new segment: ${yes(torch.fit.new_segment.fits)}. ${torch.fit.new_segment.reason}`))))),
    torches.length > 0 && section("pools", "PyTorch's pools", null, null, el("div", { class: "panel stack" },
      table("Pools", [...place, { title: "pool", value: (row) => row.pool }, amount("segments", (row) => row.segments), at("reserved", (row) => row.reserved),
        at("allocated", (row) => row.allocated), at("free", (row) => row.free), at("largest free", (row) => row.largest_free)], pools, { sort: 4 }),
      sizes.length > 0 && el("h3", {}, "Free blocks by size"),
      sizes.length > 0 && table("Free blocks by size", [...place, at("size", (row) => row.size), amount("blocks", (row) => row.count), at("in all", (row) => row.total)], sizes, { sort: 4, most: 12 }))),
    waste.length > 0 && section("pages", "Waste in the device's pages", null, null, el("div", { class: "panel" }, table("Waste", [
      { title: "caller", value: (row) => fileName(row.caller), show: (row) => (row.caller ? named(fileName(row.caller)) : "unknown"), class: "name" },
      ...place, at("sizes up to", (row) => row.size_class_bytes), amount("blocks", (row) => row.blocks), at("live", (row) => row.live_bytes), at("wasted", (row) => row.waste_bytes)], waste, { sort: 6 }))),
  ]];
}

function yes(fits) {
  return fits == null ? "not known" : fits ? "yes" : "no";
}

const report = read("report");
const supplement = read("supplement");
const pages = { report: reportPage, memory: memoryPage, fragmentation: fragmentationPage, snapshot: snapshotPage };
const [top, sections] = pages[document.body.dataset.command](report, supplement);
const present = sections.flat().filter(Boolean);
append(document.getElementById("page"), [top, navigation(present), present,
  el("footer", {}, `${report.schema} and ${supplement.schema} are inside of this page: the figures are those that --json prints. Charts by uPlot.`)]);
document.documentElement.dataset.ready = "yes";
