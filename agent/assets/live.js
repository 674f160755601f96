// The live page: asks the API again and again, and keeps what it answered for as long as it is open.

const PERIOD = 2000;

// Most samples that are kept; then two become one.
const SAMPLES = 1200;

// Holders that have a colour of their own.
const LAYERS = ["kind-device", "kind-pool", "kind-vmm", "kind-managed", "kind-pinned_host", "kind-graph", "kind-ipc"];

const ALL = "all";

let samples = [];
let merged = 1;
let pending = [];
let first_ns = null;
let before = null;

async function ask(what) {
  const answer = await fetch(`api/v1/${what}`, { cache: "no-store", signal: AbortSignal.timeout(10000) });
  if (!answer.ok) throw new Error(`${what}: ${answer.status} ${(await answer.text()).trim()}`);
  return answer.json();
}

// The values of a metric's series that have these labels, in one; null: it has none.
function sum(metrics, name, labels = {}) {
  const is_wanted = (series) => Object.entries(labels).every(([label, value]) => series.labels[label] === value);
  const series = metrics.metrics.find((metric) => metric.name === name)?.series.filter(is_wanted) ?? [];
  return series.length ? series.reduce((all, each) => all + each.value, 0) : null;
}

// Exact counters, and those of windows beside them: {value, estimated}; null: neither is there.
function total(metrics, name, labels) {
  const exact = sum(metrics, name, labels);
  const parts = name.match(/^(.*?)((?:_bytes|_seconds)?_total)$/);
  const estimate = sum(metrics, `${parts[1]}_estimated${parts[2]}`, labels);
  return exact == null && estimate == null ? null : { value: (exact ?? 0) + (estimate ?? 0), estimated: estimate != null };
}

// A second, from the answer before to this one; null: not known.
function rate(metrics, name, labels) {
  const now = total(metrics, name, labels);
  const then = before && total(before, name, labels);
  if (!now || !before) return null;
  const seconds = (metrics.at_ns - before.at_ns) / 1e9;
  const change = now.value - (then?.value ?? 0);
  // A label may have gone to another process: no rate then.
  return seconds > 0 && change >= 0 ? { value: change / seconds, estimated: now.estimated } : null;
}

const approximately = (rate, write) => (rate == null ? UNKNOWN : (rate.estimated ? "~" : "") + write(rate.value));
const perSecond = (rate) => approximately(rate, (value) => `${count(Math.round(value))}/s`);
const bytesPerSecond = (rate) => approximately(rate, (value) => `${bytes(Math.round(value))}/s`);
const share = (value) => (value == null ? UNKNOWN : `${(value * 100).toPrecision(3)} %`);

// Own device memory by holder, for each process and device, and by process for all of them.
function sampleOf(memory, at) {
  const by = new Map([[ALL, new Map()]]);
  for (const process of memory.processes) {
    if (process.end != null) continue;
    for (const device of process.devices) {
      const whose = { pid: process.pid, incarnation: process.incarnation, name: processTitle(process), device: device.device };
      const holders = new Map();
      for (const holder of device.holders) {
        if (!OWN_KINDS.includes(holder.kind)) continue;
        const name = fileName(holder.caller) ?? "unknown caller";
        holders.set(name, (holders.get(name) ?? 0) + holder.live_bytes);
      }
      by.set(whoseKey(whose), holders);
      const name = whoseName(whose);
      const live = device.live_bytes ?? 0;
      if (live > 0) by.get(ALL).set(name, live);
      names.set(whoseKey(whose), name);
    }
  }
  return { at, by };
}

function processTitle(process) {
  return process.title || process.exe;
}

const names = new Map([[ALL, "all processes, by process and device"]]);

const sumOf = (sample, key) => [...(sample.by.get(key) ?? new Map()).values()].reduce((all, each) => all + each, 0);

// Keeps a sample; when there are too many, two become one.
function keep(sample) {
  pending.push(sample);
  if (pending.length < merged) return;
  samples.push(highest(pending));
  pending = [];
  if (samples.length < SAMPLES) return;
  merged *= 2;
  samples = samples.flatMap((each, n) => (n % 2 ? [] : [highest(samples.slice(n, n + 2))]));
}

// One sample in place of several: of each process and device, and of all, what it had at its most.
function highest(some) {
  const by = new Map();
  for (const sample of some) {
    for (const [key, held] of sample.by) {
      if (!by.has(key) || sumOf(sample, key) > sumOf({ by }, key)) by.set(key, held);
    }
  }
  return { at: some[0].at, by };
}

function drawnOf(key) {
  const shown = [...samples, ...pending];
  const most = new Map();
  for (const sample of shown) {
    for (const [name, held] of sample.by.get(key) ?? []) most.set(name, Math.max(held, most.get(name) ?? 0));
  }
  const known = [...most].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const own = known.slice(0, LAYERS.length);
  const layers = own.map((name, n) => ({
    name: harmless(name),
    colour: LAYERS[n],
    values: shown.map((sample) => sample.by.get(key)?.get(name) ?? (sample.by.has(key) ? 0 : null)),
  }));
  if (known.length > own.length) {
    layers.push({
      name: `${known.length - own.length} others`,
      colour: "reserved",
      values: shown.map((sample) => known.slice(own.length).reduce((all, name) => all + (sample.by.get(key)?.get(name) ?? 0), 0)),
    });
  }
  const sums = shown.map((sample) => sumOf(sample, key));
  const peak = Math.max(0, ...sums);
  return {
    x: shown.map((sample) => sample.at),
    layers,
    lines: [],
    peak: peak > 0 ? { x: shown[sums.indexOf(peak)].at, value: peak, title: "highest sample" } : null,
    format: (value, is_short) => (is_short ? durationBound(value * 1e9) : `${value.toFixed(1)} s`),
    legend: "since this page was opened:",
    label: "Live device memory by holder, since this page was opened",
  };
}

// The parts of the page that change.
const facts = {};
const banners = el("div", { "aria-live": "polite" });

function fact(id, title) {
  facts[id] = el("dd", { id: "fact-" + id }, UNKNOWN);
  return el("div", {}, el("dt", {}, title), facts[id]);
}

function setFact(id, value, note, tone) {
  facts[id].className = tone ?? "";
  replace(facts[id], value, note && el("small", {}, note));
}

let is_chosen = false;
const whose = el("select", { "aria-label": "Whose memory", onchange: () => {
  is_chosen = true;
  drawCurve();
} });
const chart = el("div", { class: "panel" });
let setChart = null;

function drawCurve() {
  const drawn = drawnOf(whose.value || ALL);
  if (setChart) setChart(drawn);
  else setChart = curveChart(chart, drawn);
}

// The options of a select, of which the chosen one stays chosen.
function setOptions(select, options) {
  const chosen = select.value;
  const is_known = [...select.options].map((option) => option.value + option.text).join() === options.map(([key, name]) => key + harmless(name)).join();
  if (is_known) return;
  replace(select, options.map(([key, name]) => el("option", { value: key }, name)));
  if (options.some(([key]) => key === chosen)) select.value = chosen;
}

const pieces = el("div", { class: "panel" });
const other_maps = el("div");
const map_of = el("select", { "aria-label": "Whose map", onchange: () => drawMap(true) });
const map_view = { order: "size", shown: BAR_ROWS };
let maps = null;
// Calls of processes were seen, and not what these hold.
let is_unknown = false;

function drawMap(is_forced) {
  if (!maps) return;
  replace(other_maps, maps.maps_left_out > 0 && el("p", { class: "faint more" }, leftOut("Maps", maps.maps_left_out, "with less memory")));
  setOptions(map_of, maps.maps.map((map) => [whoseKey(map), whoseName(map)]));
  const map = maps.maps.find((each) => whoseKey(each) === map_of.value);
  // It does not change under the hand of somebody who reads it.
  if (!is_forced && pieces.matches(":hover, :focus-within")) return;
  if (!map) return replace(pieces, el("p", { class: "faint" }, is_unknown ? "What is live is not known." : "Nothing is live."));
  const scrolled = pieces.querySelector(".bars")?.scrollTop ?? 0;
  memoryMap(pieces, map, map_view);
  pieces.querySelector(".bars").scrollTop = scrolled;
}

const holders = table("Holders", [
  { title: "caller", value: (row) => fileName(row.caller), show: (row) => (row.caller ? named(fileName(row.caller)) : "unknown"), class: "name" },
  { title: "process", value: (row) => row.pid, show: (row) => [`${row.pid} `, named(row.name ?? "", 30)] },
  { title: "device", value: (row) => row.device, show: (row) => row.device ?? UNKNOWN, number: true },
  { title: "kind", value: (row) => row.kind, show: (row) => [swatch(row.kind), words(row.kind)] },
  { title: "sizes up to", value: (row) => row.size_class_bytes, show: (row) => bytes(row.size_class_bytes), number: true },
  { title: "count", value: (row) => row.live_count, show: (row) => count(row.live_count), number: true },
  { title: "live", value: (row) => row.live_bytes, show: (row) => bytes(row.live_bytes), number: true },
], [], { sort: 6, most: 15 });

const devices = table("Devices", [
  { title: "process", value: (row) => row.pid, show: (row) => [`${row.pid} `, named(row.name ?? "", 40)], class: "name" },
  { title: "device", value: (row) => row.device, show: (row) => row.device ?? UNKNOWN, number: true },
  ...[["live", "live_bytes"], ["held", "held_bytes"], ["peak", "peak_bytes"], ["unattributed", "unattributed_bytes"]].map(([title, key]) =>
    ({ title, value: (row) => row[key], show: (row) => bytes(row[key]), number: true })),
  { title: "PyTorch", value: (row) => row.torch?.allocated, show: (row) => bytes(row.torch?.allocated), number: true },
  { title: "reserved", value: (row) => row.torch?.reserved, show: (row) => bytes(row.torch?.reserved), number: true },
], [], { sort: 2 });

const calls = table("Rates", [
  { title: "function", value: (row) => row.api, class: "code name" },
  { title: "calls a second", value: (row) => row.rate?.value, show: (row) => perSecond(row.rate), number: true },
  { title: "calls", value: (row) => row.total.value, show: (row) => (row.total.estimated ? "~" : "") + count(Math.round(row.total.value)), number: true },
  { title: "failed", value: (row) => row.failed, show: (row) => (row.failed > 0 ? el("span", { class: "failed" }, count(row.failed)) : "0"), number: true },
], [], { sort: 1, most: 15 });

const losses = el("ul", { style: { margin: 0, paddingLeft: "1.2rem" } });
const own = el("div");

function callRows(metrics) {
  const of = (name) => metrics.metrics.find((metric) => metric.name === name)?.series ?? [];
  const series = [...of("cudasnoop_api_calls_total"), ...of("cudasnoop_api_calls_estimated_total")];
  return [...new Set(series.map((each) => each.labels.api))].map((api) => ({
    api,
    rate: rate(metrics, "cudasnoop_api_calls_total", { api }),
    total: total(metrics, "cudasnoop_api_calls_total", { api }),
    failed: total(metrics, "cudasnoop_api_calls_total", { api, result: "error" })?.value ?? 0,
  }));
}

const CAUSES = {
  ring_full: "the ring buffer was full",
  pairing_full: "the map of open calls was full",
  extra: "beginnings of frees and names of kernels, for which the ring buffer was full",
  tasks: "forks, execs and exits, for which the ring buffer was full",
  recursion: "the kernel did not run a probe",
};

function show(memory, metrics, map) {
  first_ns ??= metrics.at_ns;
  const at = (metrics.at_ns - first_ns) / 1e9;
  keep(sampleOf(memory, at));
  maps = map;
  const running = memory.processes.filter((process) => process.end == null);
  const rows = running.flatMap((process) => process.devices.map((device) => ({ ...device, pid: process.pid, name: processTitle(process) })));
  const live = rows.reduce((all, row) => all + (row.live_bytes ?? 0), 0);
  const reserved = rows.reduce((all, row) => all + (row.torch?.reserved ?? 0), 0);
  const peak = rows.reduce((most, row) => Math.max(most, row.peak_bytes ?? 0), 0);
  is_unknown = (rows.length > 0 || running.some((process) => process.memory_sampled)) && !rows.some((row) => row.live_bytes != null);
  setFact("live", is_unknown ? UNKNOWN : bytes(live), `highest of a process and device ${is_unknown ? "unknown" : bytes(peak)}`);
  setFact("torch", rows.some((row) => row.torch) ? bytes(reserved) : UNKNOWN, "reserved by PyTorch");
  setFact("processes", count(sum(metrics, "cudasnoop_processes") ?? 0), "are traced");
  setFact("calls", perSecond(rate(metrics, "cudasnoop_api_calls_total")), "of all functions");
  setFact("launches", perSecond(rate(metrics, "cudasnoop_kernel_launches_total")), "kernels");
  setFact("copies", bytesPerSecond(rate(metrics, "cudasnoop_memcpy_bytes_total")), "copied");
  const lost = sum(metrics, "cudasnoop_events_lost_total") ?? 0;
  setFact("lost", lost > 0 ? count(lost) : "nothing", "since tracing began", lost > 0 ? "warning" : null);
  const budget = sum(metrics, "cudasnoop_overhead_budget_ratio");
  const overhead = sum(metrics, "cudasnoop_overhead_ratio");
  setFact("overhead", overhead == null ? UNKNOWN : share(overhead), budget == null ? "no budget: all calls are traced" : `of a thread's time; the budget is ${share(budget)}`,
    budget != null && overhead > budget ? "warning" : null);

  setOptions(whose, [...names].filter(([key]) => key === ALL || samples.some((sample) => sample.by.has(key))));
  // The only one is shown by holder, until somebody chooses.
  if (!is_chosen) whose.value = whose.options.length === 2 ? whose.options[1].value : ALL;
  drawCurve();
  drawMap(false);
  holders.update(rows.flatMap((row) => row.holders.map((holder) => ({ ...holder, pid: row.pid, name: row.name, device: row.device }))));
  devices.update(rows);
  calls.update(callRows(metrics));

  const causes = (metrics.metrics.find((metric) => metric.name === "cudasnoop_events_lost_total")?.series ?? []).filter((series) => series.value > 0);
  replace(losses, causes.length === 0 ? el("li", {}, "Nothing was lost.") : causes.map((series) => el("li", {},
    `${count(series.value)} records: ${CAUSES[series.labels.cause] ?? words(series.labels.cause)}`)));
  const window_share = sum(metrics, "cudasnoop_window_ratio");
  replace(own, [
    ["ring buffer", share(sum(metrics, "cudasnoop_ring_fill_ratio")), "full"],
    ["functions with probes", count(sum(metrics, "cudasnoop_probes_attached") ?? 0), ""],
    window_share != null && ["launches, copies, waits", share(window_share), "of the last minute was traced"],
    ["cudasnoop itself", bytes(sum(metrics, "cudasnoop_agent_resident_memory_bytes")), `resident; ${cpuShare(metrics)} of a core`],
  ].filter(Boolean).map(([name, value, note]) => el("p", {}, el("span", { class: "faint" }, name, ": "), el("b", {}, value), ` ${note}`)));

  const doubts = [];
  const tracing = metrics.metrics.find((metric) => metric.name === "cudasnoop_tracing")?.series ?? [];
  for (const series of tracing.filter((series) => series.value === 0)) doubts.push(`Nothing is traced: ${words(series.labels.reason || "unknown")}.`);
  if (lost > 0) doubts.push(`${count(lost)} records were lost: counts are too low, and memory may be off.`);
  for (const process of running) {
    if (process.memory_sampled) doubts.push(`What process ${process.pid} holds is not known: its memory calls cost more than --max-overhead and come in windows.`);
    if (!process.from_start) doubts.push(`Process ${process.pid} ran before it was traced: what it held then is in no total.`);
  }
  replace(banners, doubts.length > 0 && el("div", { class: "banner", role: "note" }, el("ul", {}, doubts.slice(0, 8).map((doubt) => el("li", {}, doubt)),
    doubts.length > 8 && el("li", {}, `and ${doubts.length - 8} more`))));
  before = metrics;
  document.documentElement.dataset.at = String(metrics.at_ns);
}

function cpuShare(metrics) {
  const used = rate(metrics, "cudasnoop_agent_cpu_seconds_total");
  return used == null ? UNKNOWN : share(used.value);
}

async function poll() {
  try {
    // A map that nobody sees is not asked for: it is what costs most.
    const [memory, metrics, map] = await Promise.all([ask("memory"), ask("metrics"), document.hidden ? maps : ask("map")]);
    show(memory, metrics, map);
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    replace(banners, el("div", { class: "banner critical", role: "alert" }, el("b", {}, "No answer. "), `${error.message}. What is shown is older; asking again.`));
  }
  setTimeout(poll, PERIOD);
}

const sections = [
  section("time", "Memory by holder, over time", "kept by this page while it is open", whose, chart),
  section("map", "Memory map", "now; it stands still while it is pointed at", map_of, pieces, other_maps),
  section("holders", "Who holds the memory", null, null, el("div", { class: "panel" }, holders)),
  section("devices", "Processes and devices", null, null, el("div", { class: "panel" }, devices)),
  section("rates", "Calls", "~ is an estimate, from windows", null, el("div", { class: "panel" }, calls)),
  section("losses", "Losses and cost", null, null, el("div", { class: "panel stack" }, losses, own)),
];
append(document.getElementById("page"), [
  el("header", { class: "top" }, el("p", { class: "kicker" }, `cudasnoop serve · ${location.host} · asks every ${PERIOD / 1000} s`), el("h1", {}, "Live"),
    el("dl", { class: "facts" }, fact("live", "live memory"), fact("torch", "PyTorch"), fact("processes", "processes"), fact("calls", "calls"),
      fact("launches", "launches"), fact("copies", "copies"), fact("lost", "lost"), fact("overhead", "overhead")), banners),
  navigation(sections), sections,
  el("footer", {}, "Figures are those of /api/v1/memory, /api/v1/metrics and /api/v1/map. What is over time is known to this page alone, and gone when it is closed. Charts by uPlot."),
]);
poll();
