// Findings: the claim, its numbers, what it cannot know, and what to do.

function findingsSection(findings, start) {
  const list = findings.length
    ? findings.map((finding) => findingPanel(finding, start))
    : [el("p", { class: "panel" }, "Nothing stands out: no leak, failure or loss that a recording can show.")];
  return section("findings", "Findings", findings.length ? "the most urgent first" : null, null, el("div", { class: "stack" }, list));
}

function findingPanel(finding, start) {
  const numbers = Object.entries(finding.numbers);
  const has_more = finding.evidence.length > 0 || finding.unknowns.length > 0;
  return el("article", { class: `panel finding ${finding.severity}` },
    el("div", {}, el("span", { class: `tag ${finding.severity}` }, finding.severity),
      el("span", { class: "tag" }, `${finding.confidence} confidence`), el("span", { class: "claim isolate" }, finding.claim)),
    numbers.length > 0 && el("dl", {}, numbers.map(([name, value]) =>
      el("div", {}, el("dt", {}, numberTitle(name)), el("dd", {}, numberText(name, value))))),
    el("p", { class: "next" }, el("b", {}, "Next: "), finding.next_step),
    has_more && el("details", {}, el("summary", {}, "Evidence, and what is not known"),
      finding.evidence.length > 0 && el("ul", {}, finding.evidence.map((evidence) => el("li", {}, evidenceText(evidence, start)))),
      finding.unknowns.length > 0 && el("ul", {}, finding.unknowns.map((unknown) => el("li", {}, unknown))),
      el("p", { class: "faint code" }, finding.id)));
}

// Names of numbers end in their unit.
const UNITS = [["_bytes_per_second", (value) => bytes(value) + "/s"], ["_per_second", (value) => round(value) + "/s"],
  ["_bytes", bytes], ["_ns", duration], ["_ratio", (value) => round(value * 100) + " %"]];

function numberTitle(name) {
  const unit = UNITS.find(([ending]) => name.endsWith(ending));
  return words(unit ? name.slice(0, -unit[0].length) : name);
}

function numberText(name, value) {
  const unit = UNITS.find(([ending]) => name.endsWith(ending));
  if (unit) return unit[1](value);
  return Number.isInteger(value) ? count(value) : round(value);
}

function round(value) {
  return String(Number(value.toPrecision(3)));
}

function evidenceText(evidence, start) {
  const when = evidence.from_ns == null ? null
    : evidence.to_ns == null || evidence.to_ns === evidence.from_ns
      ? `at ${since(evidence.from_ns, start)}`
      : `from ${since(evidence.from_ns, start)} to ${since(evidence.to_ns, start)}`;
  return [evidence.what, evidence.pid != null && `process ${evidence.pid}`,
    evidence.device != null && `device ${evidence.device}`, evidence.api, evidence.caller, when]
    .filter(Boolean).join(" · ");
}
