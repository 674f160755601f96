// Histograms: buckets of powers of two, empty ones between others included.

const HIST_HEIGHT = 96;

// Fewer bars are not drawn wider than so many would be.
const HIST_SLOTS = 14;

// `distribution` as reports have it; `bound(value)` writes a bucket's bound, `value(value)` a value.
function histogram(title, distribution, bound, value, tools) {
  const buckets = allBuckets(distribution.buckets);
  const slots = Math.max(HIST_SLOTS, buckets.length);
  const most = Math.max(1, ...buckets.map((bucket) => bucket.count));
  const here = el("div", { class: "here", "aria-live": "polite" });
  const drawing = svg("svg", {
    viewBox: `0 0 ${slots * 10} ${HIST_HEIGHT}`,
    preserveAspectRatio: "none",
    tabindex: 0,
    role: "img",
    "aria-label": `${title}: ${counted(distribution.count, "value")}, median ${value(distribution.p50)}, 99 % ${value(distribution.p99)}, largest ${value(distribution.max)}`,
  });
  const rects = buckets.map((bucket, place) => {
    // Seen however small: one in a million is there.
    const tall = bucket.count === 0 ? 0 : Math.max(1.5, (bucket.count / most) * HIST_HEIGHT);
    const rect = svg("rect", { class: "bar", x: place * 10 + 0.5, y: HIST_HEIGHT - tall, width: 9, height: tall });
    drawing.append(rect);
    return rect;
  });
  drawing.append(svg("line", { x1: 0, x2: slots * 10, y1: HIST_HEIGHT, y2: HIST_HEIGHT, "vector-effect": "non-scaling-stroke" }));
  const tell = (place) => {
    rects.forEach((rect, n) => rect.classList.toggle("here", n === place));
    const bucket = place == null ? null : buckets[place];
    replace(here, bucket
      ? `${bound(bucket.from)} to ${bound(bucket.below)}: ${count(bucket.count)} (${percent(bucket.count, distribution.count)})`
      : buckets.length > 0 && el("span", { class: "faint" }, el("span", {}, bound(buckets[0].from)), el("span", {}, `to ${bound(buckets[buckets.length - 1].below)}`)));
  };
  steps(drawing, {
    length: () => buckets.length,
    at: (event) => {
      const box = drawing.getBoundingClientRect();
      const place = Math.floor(((event.clientX - box.left) / box.width) * slots);
      return place >= 0 && place < buckets.length ? place : null;
    },
    show: tell,
  });
  tell(null);
  return el("div", { class: "panel hist" }, el("h3", {}, title),
    el("div", { class: "quantiles" },
      `${count(distribution.count)} · p50 ${value(distribution.p50)} · p90 ${value(distribution.p90)} · p99 ${value(distribution.p99)} · max ${value(distribution.max)}`,
      distribution.over > 0 && ` · ${count(distribution.over)} of 2^63 and more, in no bar`),
    tools, drawing, here);
}

function allBuckets(buckets) {
  const all = [];
  for (const bucket of buckets) {
    let last = all[all.length - 1];
    while (last && last.below < bucket.from) {
      last = { from: last.below, below: last.below * 2, count: 0 };
      all.push(last);
    }
    all.push(bucket);
  }
  return all;
}

// How values of a unit are written.
function writersOf(unit) {
  return {
    bytes: [bytesBound, bytes],
    ns: [durationBound, duration],
    bytes_per_second: [(value) => bytesBound(value) + "/s", (value) => bytes(value) + "/s"],
    count: [count, count],
  }[unit];
}
