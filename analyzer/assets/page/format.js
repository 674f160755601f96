// Numbers as people read them: as the text reports have them, digit for digit.

// Three significant digits, in the largest unit that `value` reaches when rounded to the unit
// below. By whole numbers: doubles would round the last digit the other way now and then.
function scaled(value, units) {
  const whole = BigInt(Math.max(0, Math.round(Number(value))));
  let place = 0;
  for (let unit = 1; unit < units.length; unit++) {
    if (whole + units[unit - 1][1] / 2n >= units[unit][1]) place = unit;
  }
  const [name, size] = units[place];
  const rounded = (parts) => (whole * parts + size / 2n) / size;
  const decimals = (value, digits) => {
    const text = value.toString().padStart(digits + 1, "0");
    return text.slice(0, -digits) + "." + text.slice(-digits);
  };
  if (size > 1n && rounded(100n) < 1000n) return decimals(rounded(100n), 2) + " " + name;
  if (size > 1n && rounded(10n) < 1000n) return decimals(rounded(10n), 1) + " " + name;
  return rounded(1n) + " " + name;
}

const BYTE_UNITS = [["B", 1n], ["KiB", 1n << 10n], ["MiB", 1n << 20n], ["GiB", 1n << 30n], ["TiB", 1n << 40n]];
const TIME_UNITS = [["ns", 1n], ["µs", 1000n], ["ms", 1000000n], ["s", 1000000000n]];

const UNKNOWN = "-";

function bytes(value) {
  return value == null ? UNKNOWN : scaled(value, BYTE_UNITS);
}

function bytesBound(value) {
  return bytes(value).replace(".00 ", " ").replace(".0 ", " ");
}

function duration(value) {
  if (value == null) return UNKNOWN;
  const seconds = Math.floor(value / 1e9);
  const two = (a, unit, b, other) => `${a} ${unit} ${String(b).padStart(2, "0")} ${other}`;
  if (seconds < 60) return scaled(value, TIME_UNITS);
  if (seconds < 3600) return two(Math.floor(seconds / 60), "m", seconds % 60, "s");
  if (seconds < 86400) return two(Math.floor(seconds / 3600), "h", Math.floor(seconds / 60) % 60, "m");
  if (seconds < 8640000) return two(Math.floor(seconds / 86400), "d", Math.floor(seconds / 3600) % 24, "h");
  return `${Math.floor(seconds / 86400)} d`;
}

// A duration without needless digits, for axes and bounds.
function durationBound(value) {
  return value <= 0 ? "0 s" : duration(value).replace(/\.0+ /, " ");
}

function count(value) {
  return value == null ? UNKNOWN : String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

function counted(value, thing) {
  return `${count(value)} ${thing}${value === 1 ? "" : "s"}`;
}

// A moment, since the start of the recording.
function since(moment, start) {
  if (moment == null) return UNKNOWN;
  if (start == null) return "@" + moment;
  const sign = moment < start ? "-" : "";
  const distance = Math.abs(moment - start);
  const micros = String(Math.floor(distance / 1000) % 1000000).padStart(6, "0");
  return `${sign}${Math.floor(distance / 1e9)}.${micros} s`;
}

function percent(part, whole) {
  return whole > 0 ? `${Math.floor((part * 100) / whole)} %` : "0 %";
}

function words(name) {
  return name.replace(/_/g, " ");
}

// The end of a path.
function fileName(path) {
  return path == null ? null : path.slice(path.lastIndexOf("/") + 1) || path;
}

// A name that somebody else chose: without characters that move, hide or turn text.
function harmless(text) {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, "\ufffd");
}
