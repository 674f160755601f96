// Moving through drawn things one by one: by pointer, and by the arrow keys once focused.

// `length()`: how many; `at(event)`: which one is under the pointer, or null; `show(place)`: tells
// of one, of none for null.
function steps(element, { length, at, show }) {
  let here = null;
  const go = (place) => {
    here = place;
    show(place);
  };
  element.addEventListener("pointermove", (event) => go(at(event)));
  element.addEventListener("pointerdown", (event) => go(at(event)));
  element.addEventListener("pointerleave", () => document.activeElement !== element && go(null));
  element.addEventListener("blur", () => go(null));
  element.addEventListener("keydown", (event) => {
    const last = length() - 1;
    const next = {
      ArrowRight: here == null ? 0 : Math.min(last, here + 1),
      ArrowLeft: here == null ? last : Math.max(0, here - 1),
      Home: 0,
      End: last,
      PageDown: Math.min(last, (here ?? 0) + Math.max(1, Math.ceil(last / 10))),
      PageUp: Math.max(0, (here ?? last) - Math.max(1, Math.ceil(last / 10))),
    }[event.key];
    if (event.key === "Escape") go(null);
    if (next == null || last < 0) return;
    event.preventDefault();
    go(next);
  });
}
