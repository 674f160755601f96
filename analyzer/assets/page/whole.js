// Whether a recording is whole. A page never pretends that it is.

const LOSSES = {
  ring_full: "calls found the ring buffer full",
  ring_full_extra: "begins of frees, and kernel names, found the ring buffer full",
  pairing_full: "calls found no place in the map of open calls",
  recursion_miss: "probe hits ran no program",
  unwritten: "events could not be written before this segment",
  lost_memory_records: "records of memory calls were lost",
  lost_torch_reports: "of PyTorch's reports were lost",
  recursion_misses: "probe hits ran no program",
};

// What a recording lost: {name: count}; null where it does not say.
function lossesOf(recording) {
  const lost = recording.lost ?? {
    lost_memory_records: recording.lost_memory_records,
    lost_torch_reports: recording.lost_torch_reports,
    recursion_misses: recording.recursion_misses,
  };
  return Object.entries(lost);
}

function wholenessBanners(report, supplement) {
  const { live, cuts, notes } = supplement;
  const recording = report.recording;
  const lines = [];
  for (const [name, lost] of lossesOf(recording)) {
    if (lost > 0) lines.push(`${count(lost)} ${LOSSES[name]}.`);
  }
  if (lines.length) lines.push("Counts and bytes are too low, and memory may be off.");
  const is_unknown = lossesOf(recording).some(([, lost]) => lost == null);
  if (!recording.complete && !live) lines.push("The recording was cut off before its end: what came last is missing.");
  else if (recording.truncated && !live) lines.push("The file has no end marker.");
  if (is_unknown) lines.push("Whether anything was lost is not known: the recording has no accounts.");
  if (recording.damaged_checkpoints > 0) lines.push(`${counted(recording.damaged_checkpoints, "checkpoint")} could not be read.`);
  const unbalanced = (report.accounts ?? []).filter((account) => !account.balanced);
  if (unbalanced.length) lines.push(`The accounts of ${counted(unbalanced.length, "function")} do not balance: calls are missing.`);
  if (supplement.gaps > 0) lines.push(`In ${counted(supplement.gaps, "stretch")} calls may have been missed: ◇ in the chart.`.replace("stretchs", "stretches"));
  if (recording.sampled) {
    lines.push(`${recording.sampled.families.join(", ")}: traced in ${counted(recording.sampled.windows, "window")} of ${duration(recording.sampled.open_ns)} in all; counts, bytes and times are those of the windows.`);
  }
  lines.push(...cuts);
  return [
    lines.length > 0 && banner("warning", "This recording is not whole.", lines),
    live && banner("", "This recording is being written:", ["what comes later is not in this page."]),
    notes.length > 0 && banner("", "How it was read:", notes),
  ];
}

function wholeFact(report, { live }) {
  const lost = lossesOf(report.recording);
  const sum = lost.reduce((all, [, count]) => all + (count ?? 0), 0);
  const is_unknown = lost.some(([, count]) => count == null);
  const { complete } = report.recording;
  return ["lost", sum > 0 ? count(sum) : is_unknown ? "unknown" : "nothing",
    complete ? "the recording is complete" : live ? "the recording goes on" : "the recording was cut off",
    sum > 0 || is_unknown || !(complete || live) ? "warning" : null, "lost"];
}

function rows(title, list, show, most = 50) {
  if (!list?.length) return null;
  return el("details", {}, el("summary", {}, `${title} (${count(list.length)})`),
    el("ul", {}, list.slice(0, most).map((each) => el("li", {}, show(each)))),
    list.length > most && el("p", { class: "faint" }, `and ${count(list.length - most)} more: --json has them all`));
}

// What calls did not return, what was not traced, and the kernel's own counts.
function wholeSection(report) {
  const start = report.recording.start_ns;
  const open = (call) => `${call.api ?? "a function that is not known"} · process ${call.pid}, thread ${call.tid} · entered at ${since(call.entered_ns, start)}, ${duration(call.age_ns)} before`;
  const lost = lossesOf(report.recording).map(([name, value]) =>
    el("li", {}, `${value == null ? "unknown" : count(value)} ${LOSSES[name]}`));
  const accounts = report.accounts.length
    ? el("details", {}, el("summary", {}, `Accounts: made = reported + lost + in flight (${count(report.accounts.length)} functions)`),
      table("Accounts", [
        { title: "function", value: (row) => row.api, class: "code" },
        { title: "made", value: (row) => row.made, show: (row) => count(row.made), number: true },
        { title: "reported", value: (row) => row.reported, show: (row) => count(row.reported), number: true },
        { title: "folded", value: (row) => row.folded, show: (row) => count(row.folded), number: true, hint: "driver calls inside of runtime calls" },
        { title: "lost", value: (row) => row.lost_ring + row.lost_pairing, show: (row) => count(row.lost_ring + row.lost_pairing), number: true },
        { title: "in flight", value: (row) => row.in_flight, show: (row) => count(row.in_flight), number: true },
        { title: "abandoned", value: (row) => row.abandoned, show: (row) => count(row.abandoned), number: true },
        { title: "balanced", value: (row) => Number(row.balanced), show: (row) => (row.balanced ? "yes" : el("span", { class: "failed" }, "NO")), number: true },
      ], report.accounts, { sort: 1 }))
    : null;
  const settings = report.recording.settings;
  return section("recording", "The recording", null, null, el("div", { class: "panel stack" },
    el("ul", { style: { margin: 0, paddingLeft: "1.2rem" } }, lost),
    settings && el("p", {}, `Recorded by cudasnoop ${settings.version} on `, named(settings.host), ` (Linux ${settings.kernel}); traced: ${settings.events.join(", ")}.`),
    rows("Calls in flight at the end", report.in_flight, open),
    rows("Calls abandoned by their thread", report.abandoned, open),
    rows("Gaps", report.gaps, (gap) => `process ${gap.pid} at ${since(gap.at_ns, start)}: ${gap.reason}${gap.duration_ns == null ? "" : ` (${duration(gap.duration_ns)})`}`),
    rows("Stops while probes were attached", report.holds, (hold) => `process ${hold.pid} at ${since(hold.at_ns, start)}: ${duration(hold.duration_ns)}`),
    rows("Functions that could not be traced", report.untraced, (each) => `${each.symbol} in ${each.module}: ${each.reason}`),
    accounts));
}
