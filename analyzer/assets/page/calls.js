// Calls, kernels, copies and waits.

const amount = (title, of, hint) => ({ title, value: of, show: (row) => count(of(row)), number: true, hint });
const size = (title, of, hint) => ({ title, value: of, show: (row) => bytes(of(row)), number: true, hint });
const time = (title, of, hint) => ({ title, value: of, show: (row) => duration(of(row)), number: true, hint });

// Parts of a whole as a bar beside the number.
function withBar(value, most, text) {
  return [text, el("span", { class: "gauge" }, el("span", { style: { width: `${(100 * value) / Math.max(1, most)}%` } }))];
}

function failedCalls(row) {
  return row.errors == null ? null : Object.values(row.errors).reduce((sum, each) => sum + each, 0);
}

function callsSection(calls) {
  const total = calls.reduce((sum, row) => sum + row.calls, 0);
  return section("calls", "Calls", `${counted(total, "call")} of ${counted(calls.length, "function")}; times are of the host, probe cost included`, null,
    el("div", { class: "panel" }, table("Calls", [
      { title: "function", value: (row) => row.api, class: "code name" },
      { title: "layer", value: (row) => row.layer },
      { title: "family", value: (row) => row.family },
      amount("calls", (row) => row.calls),
      { title: "failed", value: failedCalls, show: (row) => (failedCalls(row) > 0 ? el("span", { class: "failed", title: Object.entries(row.errors).map(([code, n]) => `error ${code}: ${count(n)}`).join(", ") }, count(failedCalls(row))) : count(failedCalls(row))), number: true, hint: "- where only entries are probed" },
      size("bytes", (row) => row.bytes),
      time("total", (row) => row.duration_ns?.total),
      time("p50", (row) => row.duration_ns?.p50),
      time("p99", (row) => row.duration_ns?.p99),
      time("max", (row) => row.duration_ns?.max),
    ], calls, { sort: 3 })));
}

function kernelName(kernel) {
  const name = kernel.demangled ?? kernel.name;
  if (name != null) return named(name, 84);
  if (kernel.module == null && kernel.handle == null) return el("i", {}, "all other kernels");
  return el("i", {}, `unknown (${kernel.handle ?? "no handle"})`);
}

function kernelsSection(report, supplement) {
  const { kernels, launches, graph_launches: graphs } = report;
  if (kernels.length === 0 && graphs.length === 0) return null;
  const most = Math.max(1, ...kernels.map((kernel) => kernel.launches));
  const total = launches.reduce((sum, row) => sum + row.launches, 0);
  const length = selectedLength(report);
  const gaps = supplement.hist?.histograms.find((each) => each.quantity === "launch_gap_ns");
  const gap = gaps ? `; a thread launches again after ${duration(Math.round(gaps.total / gaps.count))} in the mean, ${duration(gaps.p50)} in the median` : "";
  return section("kernels", "Kernels", `${counted(total, "launch")} of ${counted(kernels.length, "kernel")}`.replace("launchs", "launches") + gap, null,
    el("div", { class: "panel stack" },
      kernels.length > 0 && table("Kernels", [
        { title: "kernel", value: (row) => row.demangled ?? row.name, show: kernelName, class: "code name" },
        { title: "launches", value: (row) => row.launches, show: (row) => withBar(row.launches, most, count(row.launches)), number: true },
        { title: "share", value: (row) => row.launches, show: (row) => percent(row.launches, total), number: true },
        { title: "mean interval", value: (row) => (length ? length / row.launches : null), show: (row) => (length ? duration(Math.round(length / row.launches)) : UNKNOWN), number: true, hint: "length of what is looked at, divided by the launches; - where they were traced in windows" },
        amount("captured", (row) => row.captured, "went into a graph: ran nothing then"),
        amount("threads p50", (row) => row.launch_threads?.p50, "threads of a launch, in the median"),
        { title: "module", value: (row) => fileName(row.module), show: (row) => (row.module ? named(fileName(row.module), 30) : UNKNOWN), class: "nowrap" },
      ], kernels, { sort: 1, most: 20 }),
      graphs.length > 0 && el("h3", {}, "Graphs"),
      graphs.length > 0 && table("Graph launches", [
        { title: "graph", value: (row) => row.exec, show: (row) => row.exec ?? "others", class: "code" },
        { title: "pid", value: (row) => row.pid, show: (row) => row.pid ?? UNKNOWN, number: true },
        amount("launches", (row) => row.launches),
        amount("nodes", (row) => row.nodes),
        amount("kernels", (row) => row.kernels, "captured into it"),
        time("p50", (row) => row.duration_ns?.p50),
        time("total", (row) => row.duration_ns?.total),
      ], graphs, { sort: 2, most: 8 }),
      supplement.threads?.length > 0 && el("h3", {}, "Threads that launch"),
      supplement.threads?.length > 0 && threadsTable(supplement.threads)));
}

// How long the part is that launches were counted in; null: they were not counted all the time.
function selectedLength({ recording, window }) {
  const { start_ns: start, duration_ns: whole, sampled } = recording;
  if (sampled || whole == null) return null;
  const from = Math.max(start, window.from_ns ?? start);
  const to = Math.min(start + whole, window.to_ns ?? Infinity);
  return Math.max(0, to - from);
}

function threadsTable(threads) {
  return table("Threads", [
    { title: "pid", value: (row) => row.pid, show: (row) => row.pid ?? "others", number: true },
    { title: "thread", value: (row) => row.tid, show: (row) => row.tid ?? UNKNOWN, number: true },
    amount("launches", (row) => row.launches),
    amount("graph launches", (row) => row.graph_launches),
    time("gap p50", (row) => row.interval_ns?.p50, "from one launch to the next"),
    time("gap p99", (row) => row.interval_ns?.p99),
  ], threads, { sort: 2, most: 6 });
}

function copiesSection(copies, waits) {
  if (copies.length === 0 && waits.length === 0) return null;
  return section("copies", "Copies and waits", null, null, el("div", { class: "panel stack" },
    copies.length > 0 && table("Copies", [
      { title: "direction", value: (row) => row.direction, show: (row) => (row.direction ? words(row.direction) : "unknown") },
      { title: "host memory", value: (row) => row.host, show: (row) => row.host ?? UNKNOWN },
      amount("copies", (row) => row.copies),
      { title: "failed", value: (row) => row.failed, show: (row) => (row.failed ? el("span", { class: "failed" }, count(row.failed)) : "0"), number: true },
      size("bytes", (row) => row.bytes),
      size("p50 size", (row) => row.sizes?.p50),
      size("max size", (row) => row.sizes?.max),
      time("time", (row) => row.duration_ns?.total, "in the calls: of all of a copy, or of its submission"),
    ], copies, { sort: 4 }),
    waits.length > 0 && el("h3", {}, "Waits for the device"),
    waits.length > 0 && table("Waits", [
      { title: "pid", value: (row) => row.pid, show: (row) => row.pid ?? "others", number: true },
      amount("waits", (row) => row.waits),
      time("total", (row) => row.duration_ns?.total),
      time("p50", (row) => row.duration_ns?.p50),
      time("p99", (row) => row.duration_ns?.p99),
      time("max", (row) => row.duration_ns?.max),
    ], waits, { sort: 2 })));
}

const HIST_TITLES = {
  allocation_bytes: "Allocation sizes, as CUDA was asked",
  failed_allocation_bytes: "Sizes of allocations that failed",
  torch_block_bytes: "PyTorch's blocks",
  lifetime_ns: "Lifetime of memory that was freed",
  torch_lifetime_ns: "Lifetime of PyTorch's blocks that were freed",
  live_age_ns: "Age of memory that is live at the end",
  torch_live_age_ns: "Age of PyTorch's blocks that are live at the end",
  call_ns: "Time in calls",
  launch_gap_ns: "From one launch of a thread to its next",
  grid_blocks: "Blocks per grid",
  block_threads: "Threads per block",
  launch_threads: "Threads per launch",
  graph_launch_ns: "Time in graph launches",
  copy_bytes: "Copy sizes",
  copy_rate: "Copy rates, of copies that the host waited for",
};

function histogramsSection(hist) {
  if (!hist?.histograms.length) return null;
  const by_quantity = new Map();
  for (const each of hist.histograms) {
    by_quantity.set(each.quantity, [...(by_quantity.get(each.quantity) ?? []), each]);
  }
  const cards = [...by_quantity].map(([quantity, groups]) => {
    const title = HIST_TITLES[quantity] ?? words(quantity);
    const card = el("div", { style: { display: "contents" } });
    const select = groups.length > 1 && el("select", { "aria-label": `${title}: of which`, onchange: (event) => draw(Number(event.target.value)) },
      groups.map((each, place) => el("option", { value: place }, `${groupName(each.group)} (${count(each.count)})`)));
    const draw = (place) => {
      const [bound, value] = writersOf(groups[place].unit);
      replace(card, histogram(groups[place].sampled ? `${title} (in windows)` : title, groups[place], bound, value, select));
    };
    draw(0);
    return card;
  });
  return section("histograms", "Histograms", "buckets are powers of two", null, el("div", { class: "grid" }, cards));
}

function groupName(group) {
  return group == null ? "all" : Object.values(group).filter((value) => value != null && value !== true).join(" ") || "others";
}
