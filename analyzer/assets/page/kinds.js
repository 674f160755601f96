// Kinds of memory, in the order in which they are stacked: first a process's own on its device.
const KINDS = ["device", "vmm", "pool", "managed", "graph", "ipc", "pinned_host", "registered_host"];
const OWN_KINDS = ["device", "vmm", "pool"];

function swatch(kind) {
  return el("span", { class: "swatch", style: { background: `var(--kind-${kind})` } });
}

// Of whom a curve or a map is.
function whoseKey(whose) {
  return `${whose.pid}:${whose.incarnation}:${whose.device}`;
}

function whoseName(whose) {
  const device = whose.device == null ? "host memory, or a device that is not known" : `device ${whose.device}`;
  if (whose.pid == null) return device;
  const again = whose.incarnation > 0 ? `, program ${whose.incarnation + 1}` : "";
  return `${device} · process ${whose.pid}${again}${whose.name ? ` (${harmless(whose.name).slice(0, 60)})` : ""}`;
}

// What is not shown of curves or maps, as there is too much of it.
function leftOut(what, number, which) {
  return `${what} of ${count(number)} other${number === 1 ? "" : "s"} ${which} were left out: one is of a process on one device.`;
}
