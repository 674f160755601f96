//! The chart, as somebody enlarges it while there is more and more to draw.

use std::fs;

use analyzer::html::assets;
use browser::{Browser, Colours, Page};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A chart of `drawn(length, name)`; `plots` are those of uPlot, `set` draws another.
const SCRIPT: &str = "
    const drawn = (length, name) => {
      const x = Array.from({ length }, (_, n) => n);
      return { x, layers: [{ name, colour: 'accent', values: x }], lines: [], format: String, label: 'A chart' };
    };
    const host = el('div');
    document.body.append(host);
    window.set = curveChart(host, drawn(10, 'one'));
    document.documentElement.dataset.ready = 'yes';
";

/// How many plots were made, and what the last one shows: from where to where, of how many values.
fn shown(page: &mut Page<'_>) -> Value {
    page.settle();
    page.evaluate(
        "[plots.length, ...((plot) => [plot.scales.x.min, plot.scales.x.max, plot.data[0].length])(plots.at(-1))]",
    )
}

#[test]
fn what_was_enlarged_stays_until_escape_and_what_is_gone_is_not_drawn() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("chart.html");
    let text = format!(
        "<!doctype html><meta charset=utf-8><style>{}</style><body><script>{}\n\
         window.plots = []; const Made = uPlot; uPlot = function (...of) {{ \
         const plot = new Made(...of); plots.push(plot); return plot; }}; \
         uPlot.paths = Made.paths;</script><script>{}{SCRIPT}</script>",
        assets::STYLE,
        assets::UPLOT,
        assets::PARTS,
    );
    fs::write(&file, text).expect("the page can be written");
    let mut browser = Browser::start();
    let mut page = browser.file(&file, 800, 600, Colours::Light);
    page.wait_until("plots.length === 1");
    assert_eq!(shown(&mut page), json!([1, 0, 9, 10]));
    page.evaluate("plots[0].setScale('x', { min: 2, max: 5 })");
    assert_eq!(shown(&mut page), json!([1, 2, 5, 10]));
    // More of the same, and other layers.
    page.evaluate("set(drawn(12, 'one'))");
    assert_eq!(shown(&mut page), json!([1, 2, 5, 12]));
    page.evaluate("set(drawn(14, 'two'))");
    assert_eq!(shown(&mut page), json!([2, 2, 5, 14]));
    page.choose(Colours::Dark);
    page.wait_until("plots.length === 3");
    assert_eq!(shown(&mut page), json!([3, 2, 5, 14]));
    page.evaluate("document.querySelector('.chart').focus()");
    page.press("Escape");
    assert_eq!(shown(&mut page), json!([3, 0, 13, 14]));
    page.evaluate("set(drawn(15, 'two'))");
    assert_eq!(shown(&mut page), json!([3, 0, 14, 15]));
    page.evaluate("host.remove()");
    page.choose(Colours::Light);
    page.wait_until("!matchMedia('(prefers-color-scheme: dark)').matches");
    assert_eq!(shown(&mut page), json!([3, 0, 14, 15]));
    assert_eq!(page.console(), Vec::<String>::new());
}
