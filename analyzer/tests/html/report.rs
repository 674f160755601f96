//! The page of `report`.

use analyzer::text::{bytes, count, duration};
use browser::{Browser, Colours, Page};
use serde_json::Value;

use crate::printed::assert_documented;
use crate::{Recording, assert_quiet, document, page_of};

/// Looks at the page of a recording with everything in it.
fn look(check: impl FnOnce(&Value, &mut Page<'_>)) {
    let recording = Recording::everything();
    let file = recording.file("page.html");
    let json = page_of("report", &recording.path, &file, &[]);
    let mut browser = Browser::start();
    let mut page = browser.file(&file, 1400, 1000, Colours::Light);
    check(&json, &mut page);
    assert_quiet(&mut page);
}

/// The texts of a column of the table in a section, as a person sees them.
fn column(page: &mut Page<'_>, section: &str, number: usize) -> Vec<String> {
    let found = page.evaluate(&format!(
        "[...document.querySelectorAll('#{section} tbody')[0].rows].map((row) => row.cells[{number}].innerText)"
    ));
    let texts = found.as_array().expect("rows").iter();
    texts
        .map(|text| text.as_str().expect("text").to_owned())
        .collect()
}

fn integers(rows: &Value, key: &str) -> Vec<u64> {
    let rows = rows.as_array().expect("rows").iter();
    rows.filter_map(|row| row[key].as_u64()).collect()
}

#[test]
fn its_figures_are_those_of_the_json() {
    look(|json, page| {
        assert_eq!(document(page, "report"), *json);
        let highest = integers(&json["memory"], "peak_bytes").into_iter().max();
        let calls: u64 = integers(&json["calls"], "calls").iter().sum();
        let facts = [
            ("peak", bytes(highest.expect("memory"))),
            (
                "length",
                duration(json["recording"]["duration_ns"].as_u64().expect("a length")),
            ),
            ("calls", count(calls)),
            (
                "findings",
                json["findings"]
                    .as_array()
                    .expect("findings")
                    .len()
                    .to_string(),
            ),
        ];
        for (fact, expected) in facts {
            let shown = page.text(&format!("#fact-{fact}"));
            assert_eq!(shown.lines().next(), Some(expected.as_str()), "{fact}");
        }
        let claims =
            page.evaluate("[...document.querySelectorAll('.claim')].map((each) => each.innerText)");
        let findings = json["findings"].as_array().expect("findings");
        let expected: Vec<&Value> = findings.iter().map(|finding| &finding["claim"]).collect();
        assert_eq!(claims, serde_json::json!(expected));
        let mut expected: Vec<u64> = integers(&json["calls"], "calls");
        expected.sort_unstable_by_key(|calls| std::cmp::Reverse(*calls));
        let expected: Vec<String> = expected.into_iter().map(count).collect();
        assert_eq!(column(page, "calls", 3), expected);
        let mut launches = integers(&json["kernels"], "launches");
        launches.sort_unstable_by_key(|launches| std::cmp::Reverse(*launches));
        let expected: Vec<String> = launches.into_iter().map(count).collect();
        let shown = column(page, "kernels", 1);
        let shown: Vec<&str> = shown.iter().map(|text| text.trim()).collect();
        assert_eq!(shown, expected);
    });
}

#[test]
fn its_curve_has_the_peak_and_its_map_what_is_live() {
    look(|json, page| {
        let supplement = document(page, "supplement");
        assert_eq!(supplement["schema"], "cudasnoop.page/1");
        for memory in json["memory"].as_array().expect("memory") {
            let is_its =
                |each: &&Value| each["pid"] == memory["pid"] && each["device"] == memory["device"];
            let curve = supplement["curves"]
                .as_array()
                .expect("curves")
                .iter()
                .find(is_its);
            let most = curve.map(|curve| {
                let most = curve["live"]["most"].as_array().expect("values").iter();
                most.filter_map(Value::as_u64).max().unwrap_or(0)
            });
            assert_eq!(most, memory["peak_bytes"].as_u64(), "{memory}");
            let own = ["device", "pool", "vmm"];
            let maps = supplement["maps"].as_array().expect("maps").iter();
            let mapped: u64 = maps
                .filter(is_its)
                .filter(|map| map["ended"].is_null())
                .flat_map(|map| map["bars"].as_array().expect("bars"))
                .filter(|bar| own.iter().any(|kind| bar["kind"] == *kind))
                .filter_map(|bar| bar["size"].as_u64())
                .sum();
            assert_eq!(Some(mapped), memory["live_bytes"].as_u64(), "{memory}");
        }
        assert_eq!(
            page.evaluate("document.querySelectorAll('.chart canvas').length"),
            1
        );
    });
}

#[test]
fn light_and_dark_and_small_all_work() {
    look(|_, page| {
        let background = "getComputedStyle(document.body).backgroundColor";
        let light = page.evaluate(background);
        let canvases = "[...document.querySelectorAll('canvas')].map((each) => each.toDataURL())";
        page.settle();
        page.evaluate(&format!("window.light = {canvases}"));
        for width in [360, 768, 1920] {
            page.assert_fits(width);
        }
        page.choose(Colours::Dark);
        let dark = page.evaluate(background);
        assert_ne!(light, dark);
        page.wait_until(&format!("{canvases}.every((each, n) => each !== light[n])"));
        page.assert_fits(360);
    });
}

#[test]
fn tables_are_sorted_by_click_and_by_keyboard() {
    look(|_, page| {
        let heading = "document.querySelector('#calls th button')";
        page.evaluate(&format!("{heading}.click()"));
        let ascending = column(page, "calls", 0);
        let mut sorted = ascending.clone();
        sorted.sort_by_key(|name| name.to_lowercase());
        assert_eq!(ascending, sorted);
        assert_eq!(
            page.evaluate(&format!("{heading}.closest('th').ariaSort")),
            "ascending"
        );
        page.evaluate(&format!("{heading}.focus()"));
        page.press("Enter");
        let descending = column(page, "calls", 0);
        sorted.reverse();
        assert_eq!(descending, sorted);
        assert_eq!(
            page.evaluate("document.activeElement.closest('th').ariaSort"),
            "descending"
        );
    });
}

#[test]
fn the_chart_the_map_and_histograms_are_read_by_keyboard() {
    look(|_, page| {
        page.wait_until("document.querySelector('.chart').dataset.drawn === 'yes'");
        page.evaluate("document.querySelector('.chart').focus()");
        page.press("End");
        page.wait_until("/ s$/.test(document.querySelector('.legend .faint').innerText)");
        page.evaluate("document.querySelector('.piece canvas').focus()");
        page.press("ArrowRight");
        assert!(
            page.text("#map .readout").contains("0x7f"),
            "{}",
            page.text("#map .readout")
        );
        page.evaluate("document.querySelector('.hist svg').focus()");
        page.press("Home");
        let told = page.text(".hist .here:not(rect)");
        assert!(told.contains("512 B to 1 KiB: 1"), "{told}");
    });
}

#[test]
fn every_key_of_its_own_document_is_described() {
    look(|_, page| {
        let supplement = document(page, "supplement");
        let pages = [
            "html.md",
            "hist.md",
            "launches.md",
            "report.md",
            "memory.md",
        ];
        assert_documented(&supplement, &pages);
    });
}
