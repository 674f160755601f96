//! The pages of `memory`, `fragmentation` and `snapshot`, of what real programs did on an H100.

use std::path::{Path, PathBuf};

use analyzer::text::bytes;
use browser::{Browser, Colours};
use serde_json::Value;
use tempfile::TempDir;

use crate::{assert_quiet, document, page_of};

fn fixture(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    tests.join("fixtures/h100").join(name)
}

/// Makes a page and looks at it: on a wide screen, a narrow one, and in the dark.
fn look(
    command: &str,
    input: &str,
    more: &[&str],
    check: impl FnOnce(&Value, &mut browser::Page<'_>),
) {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("page.html");
    let json = page_of(command, &fixture(input), &file, more);
    let mut browser = Browser::start();
    let mut page = browser.file(&file, 1400, 1000, Colours::Dark);
    assert_eq!(document(&mut page, "report"), json);
    check(&json, &mut page);
    page.assert_fits(360);
    page.choose(Colours::Light);
    assert_quiet(&mut page);
}

fn first_line(page: &mut browser::Page<'_>, fact: &str) -> String {
    let text = page.text(&format!("#fact-{fact}"));
    text.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn memory_shows_who_holds_it() {
    for input in ["oom.arrows", "snapshot.arrows"] {
        look("memory", input, &["--at", "1"], |json, page| {
            let processes = json["processes"].as_array().expect("processes").iter();
            let devices =
                processes.flat_map(|process| process["devices"].as_array().expect("devices"));
            let peaks = devices.filter_map(|device| device["peak_bytes"].as_u64());
            let highest = peaks.max().map_or_else(|| "-".to_owned(), bytes);
            assert_eq!(first_line(page, "peak"), highest);
        });
        look("memory", input, &[], |json, page| {
            let processes = json["processes"].as_array().expect("processes").iter();
            let holders: usize = processes
                .flat_map(|process| process["devices"].as_array().expect("devices"))
                .map(|device| device["holders"].as_array().expect("holders").len())
                .sum();
            let rows = page.evaluate("document.querySelectorAll('#holders tbody tr').length");
            assert_eq!(rows.as_u64(), Some(holders.min(25) as u64));
        });
    }
}

#[test]
fn fragmentation_shows_segments_with_their_blocks() {
    look(
        "fragmentation",
        "snapshot.arrows",
        &["--fit", "1GiB"],
        |json, page| {
            let devices =
                |process: &Value| process["devices"].as_array().cloned().unwrap_or_default();
            let processes = json["processes"].as_array().expect("processes").iter();
            let torch = processes
                .flat_map(devices)
                .map(|device| device["torch"].clone())
                .find(|torch| !torch.is_null())
                .expect("PyTorch");
            assert_eq!(
                first_line(page, "reserved"),
                bytes(torch["reserved"].as_u64().expect("bytes"))
            );
            // Block by block, the map is the report's.
            let supplement = document(page, "supplement");
            let bars = supplement["maps"][0]["bars"].as_array().expect("bars");
            for segment in torch["segments"].as_array().expect("segments") {
                let bar = bars.iter().find(|bar| bar["address"] == segment["address"]);
                let bar = bar.unwrap_or_else(|| panic!("no bar for {segment}"));
                assert_eq!(bar["size"], segment["size"]);
                assert_eq!(bar["segment"]["allocated"], segment["allocated"]);
                let blocks = segment["blocks"].as_array().expect("blocks");
                assert_eq!(bar["segment"]["blocks"], blocks.len());
                let sizes = |list: &Value| -> Vec<Value> {
                    let list = list.as_array().expect("a list").iter();
                    list.map(|each| each["size"].clone()).collect()
                };
                assert_eq!(sizes(&bar["segment"]["cells"]), sizes(&segment["blocks"]));
                let ages = |list: &Value| -> Vec<Value> {
                    let list = list.as_array().expect("a list").iter();
                    list.map(|each| each["age_ns"].clone()).collect()
                };
                assert_eq!(ages(&bar["segment"]["cells"]), ages(&segment["blocks"]));
            }
        },
    );
}

#[test]
fn a_snapshot_shows_its_history_and_who_holds_each_block() {
    for input in [
        "after-out-of-memory.pickle",
        "expandable-graph-pool.pickle",
        "history.pickle",
        "two-streams.pickle",
    ] {
        look("snapshot", input, &[], |json, page| {
            let devices = json["devices"].as_array().expect("devices").iter();
            let host = json.get("host").filter(|host| !host.is_null());
            let reserved: u64 = devices
                .chain(host)
                .filter_map(|device| device["reserved"].as_u64())
                .sum();
            assert_eq!(first_line(page, "reserved"), bytes(reserved), "{input}");
            let supplement = document(page, "supplement");
            let maps = supplement["maps"].as_array().expect("maps").iter();
            let mapped: u64 = maps
                .flat_map(|map| map["bars"].as_array().expect("bars"))
                .filter_map(|bar| bar["size"].as_u64())
                .sum();
            assert_eq!(mapped, reserved, "{input}");
        });
    }
}

#[test]
fn a_snapshot_beside_its_recording_says_whether_they_are_equal() {
    let recording = fixture("snapshot.arrows");
    let recording = recording.to_str().expect("letters");
    look(
        "snapshot",
        "after-out-of-memory.pickle",
        &["--recording", recording],
        |json, page| {
            let equal = json["recording"]["equal"].as_bool().expect("an answer");
            let said = page.text("#recording header .faint");
            assert_eq!(said == "every block and segment is equal", equal, "{said}");
        },
    );
}
