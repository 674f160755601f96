//! The live page, in a browser, beside a workload that knows what it holds.

use std::collections::BTreeMap;

use analyzer::text::{bytes, count};
use browser::{Browser, Colours, Page};
use e2e::workload_command;
use serde_json::{Value, json};

use crate::sidecar::{Sidecar, Step, get};

/// What each of the workload's blocks that stay has.
const LEAK: u64 = 1 << 20;

/// A workload that holds what it took, and waits; and what it says it did.
fn holding() -> (Step, Sidecar, Value) {
    let mut command = workload_command("mix");
    command.args(["--iterations", "40", "--layer", "both", "--threads", "3"]);
    command.args(["--leak", "5"]);
    let mut step = Step::start(command, "call,exit");
    let sidecar = Sidecar::start(&["-p", &step.pid()]);
    sidecar.is_traced(&step.pid());
    step.go();
    let truth = step.report();
    (step, sidecar, truth)
}

/// The first line of a fact in the head.
fn fact(page: &mut Page<'_>, name: &str) -> String {
    let text = page.text(&format!("#fact-{name}"));
    text.lines().next().unwrap_or_default().to_owned()
}

/// The rows of a section's table.
fn rows(page: &mut Page<'_>, section: &str) -> Vec<Vec<String>> {
    let rows = page.evaluate(&format!(
        "[...document.querySelectorAll('#{section} tbody tr')].map((row) => \
         [...row.cells].map((cell) => cell.innerText.trim()))"
    ));
    serde_json::from_value(rows).expect("rows of texts")
}

fn devices(memory: &Value) -> Vec<&Value> {
    let processes = memory["processes"].as_array().expect("processes").iter();
    let running = processes.filter(|process| process["end"].is_null());
    running
        .flat_map(|process| process["devices"].as_array().expect("devices"))
        .collect()
}

#[test]
fn the_page_shows_what_the_api_says() {
    let (mut step, sidecar, truth) = holding();
    let mut browser = Browser::start();
    let address = format!("http://{}/", sidecar.admin);
    let mut page = browser.open(&address, 1400, 1000, Colours::Light);
    // Nothing changes any more, once all has arrived.
    let live = bytes(truth["live_bytes"].as_u64().expect("bytes"));
    page.wait_until(&format!(
        "document.querySelector('#fact-live').firstChild.data === {}",
        json!(live)
    ));
    let shown = page.evaluate("document.documentElement.dataset.at");
    page.wait_until(&format!("document.documentElement.dataset.at !== {shown}"));

    let memory = sidecar.json("/api/v1/memory");
    let devices = devices(&memory);
    let live = truth["live_bytes"].as_u64().expect("bytes");
    assert!(live > 0);
    assert_eq!(fact(&mut page, "live"), bytes(live));
    // A bar for each block, and all of them in the band.
    let pieces = page.evaluate("document.querySelectorAll('#map .piece').length");
    assert_eq!(pieces, live / LEAK);
    let band = page.evaluate("document.querySelector('#map .band').ariaLabel");
    let expected = format!("{} pieces of {} in all, to scale", live / LEAK, bytes(live));
    assert_eq!(band, expected);
    let mut holders: Vec<String> = devices
        .iter()
        .flat_map(|device| device["holders"].as_array().expect("holders"))
        .map(|holder| bytes(holder["live_bytes"].as_u64().expect("bytes")))
        .collect();
    let mut shown: Vec<String> = rows(&mut page, "holders")
        .into_iter()
        .map(|row| row.last().expect("a cell").clone())
        .collect();
    holders.sort();
    shown.sort();
    assert_eq!(shown, holders);

    let metrics = sidecar.json("/api/v1/metrics");
    let metrics = metrics["metrics"].as_array().expect("metrics");
    let calls = metrics
        .iter()
        .find(|metric| metric["name"] == "cudasnoop_api_calls_total")
        .expect("calls");
    let mut by_api: BTreeMap<&str, u64> = BTreeMap::new();
    for series in calls["series"].as_array().expect("series") {
        let api = series["labels"]["api"].as_str().expect("a name");
        *by_api.entry(api).or_default() += series["value"].as_u64().expect("a count");
    }
    page.evaluate("document.querySelector('#rates .more button')?.click()");
    let shown: BTreeMap<String, String> = rows(&mut page, "rates")
        .into_iter()
        .map(|row| (row[0].clone(), row[2].clone()))
        .collect();
    let expected: BTreeMap<String, String> = by_api
        .into_iter()
        .map(|(api, calls)| (api.to_owned(), count(calls)))
        .collect();
    assert_eq!(shown, expected);
    assert_eq!(fact(&mut page, "lost"), "nothing");

    let map = sidecar.json("/api/v1/map");
    assert_eq!(map["schema"], "cudasnoop.map/1");
    let own = ["device", "pool", "vmm"].map(Value::from);
    let mapped: u64 = map["maps"]
        .as_array()
        .expect("maps")
        .iter()
        .flat_map(|map| map["bars"].as_array().expect("bars"))
        .filter(|bar| own.contains(&bar["kind"]))
        .filter_map(|bar| bar["size"].as_u64())
        .sum();
    assert_eq!(mapped, live);
    assert_eq!(
        page.evaluate("document.querySelectorAll('.chart canvas').length"),
        1
    );

    for colours in [Colours::Dark, Colours::Light] {
        page.choose(colours);
        page.assert_fits(360);
    }
    let own = page.requests();
    let others: Vec<&String> = own
        .iter()
        .filter(|asked| !asked.starts_with(&address) && !asked.starts_with("data:"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(page.console(), Vec::<String>::new());
    step.go();
    step.end();
    sidecar.ends();
}

#[test]
fn the_page_is_for_nobody_else() {
    let (mut step, sidecar, _) = holding();
    for headers in ["Host: evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        assert_eq!(get(sidecar.admin, "/", headers).0, 403, "{headers}");
    }
    assert_eq!(get(sidecar.public, "/", "").0, 404);
    let mut browser = Browser::start();
    let address = format!("http://{}/", sidecar.admin);
    let mut page = browser.open(&address, 800, 600, Colours::Light);
    let headers = page.evaluate(
        "fetch('/').then((answer) => ['cache-control', 'x-frame-options', \
         'x-content-type-options', 'referrer-policy'].map((name) => answer.headers.get(name)))",
    );
    assert_eq!(
        headers,
        json!(["no-store", "DENY", "nosniff", "no-referrer"])
    );
    let policy =
        page.evaluate("fetch('/').then((answer) => answer.headers.get('content-security-policy'))");
    let policy = policy.as_str().expect("a policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    step.go();
    step.end();
    sidecar.ends();
}

#[test]
fn a_page_without_an_answer_says_so() {
    let (mut step, sidecar, _) = holding();
    let mut browser = Browser::start();
    let address = format!("http://{}/", sidecar.admin);
    let mut page = browser.open(&address, 800, 600, Colours::Light);
    step.go();
    step.end();
    sidecar.ends();
    page.wait_until(
        "document.querySelector('.banner.critical')?.innerText.startsWith('No answer')",
    );
}
