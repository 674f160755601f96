//! A page has room for so much, and says what it leaves out.

use serde_json::Value;
use trace::fact::Gap;
use trace::{Event, Fact};

use crate::sample::{ENGINE, SECOND, START, Sample, at, process};
use crate::{Recording, marks, page_of, supplement};

fn page(sample: &Sample, more: &[&str]) -> Value {
    let recording = Recording::of(sample);
    let file = recording.file("page.html");
    page_of("report", &recording.path, &file, more);
    supplement(&file)
}

#[test]
fn failures_hide_neither_gaps_nor_losses() {
    let mut sample = Sample::new();
    sample.fact(START, ENGINE, &process(ENGINE, "VLLM::EngineCore", true));
    for ms in 0..500 {
        let refused = Event {
            size: Some(64 << 30),
            device: Some(0),
            ..at(ENGINE, ms)
        };
        sample.call("cudaMalloc", 2, 1000, refused);
    }
    for n in 0..100 {
        let gap = Gap {
            pid: ENGINE,
            reason: "the recorder was stopped".to_owned(),
            duration: Some(1000),
        };
        sample.fact(START + SECOND + n, ENGINE, &Fact::Gap(gap));
    }
    sample.end(START + 2 * SECOND, |account| {
        account.lost_ring += 3;
        account.made += 3;
    });
    let page = page(&sample, &[]);
    let found = ["failed", "gap", "lost"].map(|what| marks(&page, what));
    assert_eq!(found, [80, 80, 1]);
    assert_eq!(page["marks_left_out"], 420 + 20);
    assert_eq!(page["gaps"], 100);
}

#[test]
fn processes_that_are_not_selected_take_no_room() {
    let mut sample = Sample::new();
    for n in 0..300 {
        let pid = ENGINE + n;
        sample.fact(START, pid, &process(pid, "a worker", true));
        let block = Event {
            address: Some(0x7f00_0000_0000),
            size: Some(1 << 20),
            device: Some(0),
            ..at(pid, u64::from(n) + 1)
        };
        sample.call("cudaMalloc", 0, 1000, block);
    }
    sample.end(START + SECOND, |_| {});
    let count = |page: &Value, key: &str| page[key].as_array().expect("a list").len();
    let all = page(&sample, &[]);
    assert_eq!((count(&all, "curves"), count(&all, "maps")), (256, 24));
    assert_eq!(all["curves_left_out"], 300 - 256);
    assert_eq!(all["maps_left_out"], 300 - 24);
    let last = (ENGINE + 299).to_string();
    let one = page(&sample, &["--pid", &last]);
    assert_eq!((count(&one, "curves"), count(&one, "maps")), (1, 1));
    assert_eq!(one["curves"][0]["pid"], ENGINE + 299);
    assert_eq!(one["curves_left_out"], 0);
}
