// Elements. Text is always text: nothing here parses HTML.

// Attributes that people read or hear.
const SPOKEN = ["title", "aria-label"];

// An element with attributes and children; strings are text, null and false are left out.
function el(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value == null || value === false) continue;
    if (key === "style") Object.assign(element.style, value);
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (SPOKEN.includes(key)) element.setAttribute(key, harmless(String(value)));
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child == null || child === false) continue;
    element.append(child instanceof Node ? child : harmless(String(child)));
  }
}

function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes ?? {})) element.setAttribute(key, SPOKEN.includes(key) ? harmless(String(value)) : String(value));
  append(element, children);
  return element;
}

// A name that somebody else chose, cut in the middle where it is long; whole in its title.
function named(text, most = 90) {
  const whole = harmless(text);
  const half = Math.floor((most - 1) / 2);
  const short = whole.length > most ? whole.slice(0, half) + "…" + whole.slice(-half) : whole;
  return el("bdi", { title: short === whole ? null : whole }, short);
}

// A section with its heading; `tools` stand at its right.
function section(id, title, note, tools, ...children) {
  return el("section", { id, "aria-labelledby": id + "-title" },
    el("header", {}, el("h2", { id: id + "-title" }, title),
      note && el("span", { class: "faint" }, note),
      tools && el("div", { class: "tools" }, tools)),
    ...children);
}

// The way to each section.
function navigation(sections) {
  return el("nav", { "aria-label": "Sections" }, el("ul", {}, sections.filter(Boolean).map((each) =>
    el("li", {}, el("a", { href: "#" + each.id }, each.querySelector("h2").textContent)))));
}

// The value of a colour that the style names.
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

// A colour of the style, so much of it over the panel: one that does not shine through.
function softened(name, part) {
  const parts = (of) => [1, 3, 5].map((at) => parseInt(colour(of).slice(at, at + 2), 16));
  const below = parts("panel");
  return `rgb(${parts(name).map((value, n) => Math.round(value * part + below[n] * (1 - part))).join(", ")})`;
}

// Calls `draw` when colours change, which canvases do not notice, for as long as the element is in
// the page: it alone holds `draw`.
function onColours(element, draw) {
  element.dataset.colours = "";
  element.addEventListener("colours", draw);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const element of document.querySelectorAll("[data-colours]")) element.dispatchEvent(new Event("colours"));
});

// Calls `draw` with the element's width, now and whenever it changes.
function onWidth(element, draw) {
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(element.clientWidth);
    if (width > 0 && width !== last) {
      last = width;
      requestAnimationFrame(() => draw(width));
    }
  }).observe(element);
}
