// What a person wants to know first: who, how long, how much, and what is wrong.

function headline(kicker, title, facts, banners) {
  document.title = `${harmless(title)} · ${document.title}`;
  return el("header", { class: "top" },
    el("p", { class: "kicker" }, kicker),
    el("h1", {}, named(title, 110)),
    el("dl", { class: "facts" }, facts.filter(Boolean).map(([name, value, note, tone, id]) =>
      el("div", {}, el("dt", {}, name),
        el("dd", { class: tone, id: id && "fact-" + id }, value, note && el("small", {}, note))))),
    banners);
}

// `parts` of a page that are missing something, in words.
function banner(tone, title, lines) {
  return el("div", { class: `banner ${tone}`, role: "note" }, el("b", {}, title),
    lines.length === 1 ? [" ", lines[0]] : el("ul", {}, lines.map((line) => el("li", {}, line))));
}

function processName(process) {
  return process.title || process.exe || `process ${process.pid}`;
}

function titleOf(processes) {
  const names = [...new Set(processes.map(processName))];
  if (names.length === 0) return "No process";
  return names.length < 3 ? names.join(" and ") : `${names[0]} and ${names.length - 1} others`;
}

function severityCounts(findings) {
  const of = (severity) => findings.filter((finding) => finding.severity === severity).length;
  return { critical: of("critical"), warning: of("warning"), info: of("info") };
}

function findingsFact(findings) {
  const { critical, warning, info } = severityCounts(findings);
  const note = findings.length === 0
    ? "nothing stands out"
    : [critical && `${critical} critical`, warning && counted(warning, "warning"), info && `${info} to know`].filter(Boolean).join(", ");
  return ["findings", count(findings.length), note, critical ? "critical" : warning ? "warning" : null, "findings"];
}
