// Tables, sorted by a click on a heading, or by Enter or the space bar.

// `columns`: {title, value(row), show(row), number, hint}. What is null sorts last.
function table(name, columns, rows, { most = 25, sort = null, descending = true } = {}) {
  let by = sort;
  let down = descending;
  let shown = most;
  const body = el("tbody");
  const more = el("div", { class: "more" });
  const headings = columns.map((column, place) => {
    const press = () => {
      down = by === place ? !down : !!column.number;
      by = place;
      fill();
    };
    const title = el("button", { type: "button", onclick: press, title: column.hint }, column.title);
    return el("th", { scope: "col", class: column.number ? "number" : null }, title);
  });

  function sorted() {
    if (by == null) return rows;
    const of = columns[by].value;
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
    return [...rows].sort((one, other) => {
      const [a, b] = [of(one), of(other)];
      if (a == null || b == null) return (a == null) - (b == null);
      return down ? compare(b, a) : compare(a, b);
    });
  }

  function fill() {
    headings.forEach((heading, place) => {
      if (place === by) heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    });
    replace(body, sorted().slice(0, shown).map((row) => el("tr", {}, columns.map((column) =>
      el("td", { class: [column.number && "number", column.class].filter(Boolean).join(" ") || null },
        column.show ? column.show(row) : column.value(row))))));
    const hidden = rows.length - shown;
    replace(more, hidden > 0 && el("button", {
      type: "button",
      class: "small",
      onclick: () => {
        shown = shown + Math.max(200, most);
        fill();
      },
    }, `Show ${count(Math.min(hidden, Math.max(200, most)))} more of ${count(hidden)}`));
  }

  fill();
  const made = el("div", {}, el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name },
    el("table", {}, el("caption", { class: "sr" }, name), el("thead", {}, el("tr", {}, headings)), body)), more);
  // Other rows, in the order that was chosen.
  made.update = (next) => {
    rows = next;
    fill();
  };
  return made;
}
