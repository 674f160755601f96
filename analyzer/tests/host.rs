//! Launches, copies and waits whose truth is known, in virtual time: each habit that costs time
//! is found, and its healthy twin raises no alarm.
//!
//! `UPDATE_GOLDEN=1 cargo test -p analyzer` writes the golden files anew.

mod printed;
mod sample;

use agent_common::launch::Dimensions;
use analyzer::findings::{Finding, Severity};
use analyzer::launches::{self, LaunchReport};
use analyzer::report::{Collector, Report};
use analyzer::selection::Selection;
use analyzer::syncs::{self, SyncReport};
use analyzer::text::Colour;
use analyzer::transfers::{self, TransferReport};
use printed::{as_json, assert_documented, golden};
use sample::{ENGINE, SECOND, START, Sample};
use trace::fact::{Caller, Settings};
use trace::{Event, Fact, Kind, Reader};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

const STREAM: u64 = 0x77;
const PINNED: u64 = 0x7e00_0000_0000;
const PAGEABLE: u64 = 0x5500_0000_0000;
const DEVICE: u64 = 0x7f00_0000_0000;

const TO_DEVICE: u8 = 1;
const TO_HOST: u8 = 2;

/// One thread of a process that is traced from its start, and its clock.
struct Thread {
    sample: Sample,
    now: u64,
}

impl Thread {
    fn new() -> Self {
        let mut sample = Sample::new();
        let settings = Settings {
            events: ["memory", "launch", "graph", "copy", "sync"]
                .map(str::to_owned)
                .to_vec(),
            ..Settings::default()
        };
        sample.fact(START, 0, &Fact::Settings(settings));
        sample.fact(
            START,
            ENGINE,
            &sample::process(ENGINE, "python train.py", true),
        );
        let caller = Caller {
            id: 3,
            module: Some("/opt/torch/lib/libtorch_cuda.so".to_owned()),
        };
        sample.fact(START, ENGINE, &Fact::Caller(caller));
        let mut thread = Self {
            sample,
            now: START + SECOND,
        };
        let pinned = Event {
            address: Some(PINNED),
            size: Some((256 * MIB).cast_signed()),
            ..Event::default()
        };
        thread.call("cudaHostAlloc", 300 * US, pinned);
        thread
    }

    fn event(&self, event: Event) -> Event {
        Event {
            timestamp: self.now,
            pid: ENGINE,
            caller: Some(3),
            ..event
        }
    }

    fn pause(&mut self, ns: u64) {
        self.now += ns;
    }

    fn call(&mut self, api: &'static str, ns: u64, event: Event) {
        let event = self.event(event);
        self.sample.call(api, 0, ns, event);
        self.now += ns;
    }

    /// A kernel launch every `ns`.
    fn launches(&mut self, count: u64, ns: u64, blocks: u32) {
        for _ in 0..count {
            let launch = self.event(Event {
                dimensions: Some(Dimensions {
                    grid: [blocks, 1, 1],
                    block: [128, 1, 1],
                }),
                stream: Some(STREAM),
                ..Event::default()
            });
            self.sample.row("cudaLaunchKernel", Kind::Call, launch);
            self.pause(ns);
        }
    }

    fn graph(&mut self) {
        let graph = Event {
            handle: Some(0x200),
            stream: Some(STREAM),
            ..Event::default()
        };
        self.call("cudaGraphLaunch", 12 * US, graph);
    }

    fn wait(&mut self, ns: u64) {
        let wait = Event {
            stream: Some(STREAM),
            ..Event::default()
        };
        self.call("cudaStreamSynchronize", ns, wait);
    }

    fn copy(&mut self, api: &'static str, kind: u8, host: u64, device: u64, size: u64, ns: u64) {
        let (address, source) = match kind {
            TO_DEVICE => (device, host),
            _ => (host, device),
        };
        let copy = Event {
            address: Some(address),
            source: Some(source),
            size: Some(size.cast_signed()),
            copy_kind: Some(kind),
            stream: Some(STREAM),
            ..Event::default()
        };
        self.call(api, ns, copy);
    }

    fn report(mut self) -> Report {
        self.sample.end(self.now, |_| {});
        report(&self.sample.file())
    }
}

fn report(file: &[u8]) -> Report {
    let mut reader = Reader::new(file).expect("a recording");
    let mut collector = Collector::new(Selection::default());
    for batch in &mut reader {
        collector.batch(&batch.expect("memory can be read"));
    }
    collector.finish(reader.end().expect("all was read"))
}

/// What kinds of critical findings and warnings there are.
fn alarms(report: &Report) -> Vec<&str> {
    let alarms = report.findings.iter();
    alarms
        .filter(|finding| finding.severity != Severity::Info)
        .map(kind)
        .collect()
}

fn kind(finding: &Finding) -> &str {
    finding.id.split(':').next().expect("an id")
}

fn notes(report: &Report) -> Vec<&str> {
    report.findings.iter().map(kind).collect()
}

fn number(report: &Report, of: &str, key: &str) -> u64 {
    let mut findings = report.findings.iter();
    let finding = findings.find(|finding| kind(finding) == of).expect(of);
    finding.numbers[key].as_u64().expect("a whole number")
}

/// 5,000 small kernels, 8 µs apart; every 500 a wait that finds the queue drained.
fn launch_bound() -> Report {
    let mut thread = Thread::new();
    for _ in 0..10 {
        thread.launches(500, 8 * US, 4);
        thread.wait(18 * US);
    }
    thread.report()
}

/// Batches of 8 MiB from pageable memory, again and again into the same place; now and then one
/// from pinned memory, which takes an eighth of the time.
fn pageable() -> Report {
    let mut thread = Thread::new();
    for step in 0..64 {
        thread.copy(
            "cudaMemcpyAsync",
            TO_DEVICE,
            PAGEABLE,
            DEVICE,
            8 * MIB,
            1_280 * US,
        );
        if step % 16 == 0 {
            thread.copy(
                "cudaMemcpy",
                TO_DEVICE,
                PINNED,
                DEVICE + (1 << 32),
                8 * MIB,
                160 * US,
            );
        }
        thread.launches(10, 20 * US, 4096);
    }
    thread.wait(10 * MS);
    thread.report()
}

/// A wait after each launch, and later a number fetched after each five.
fn sync_storm() -> Report {
    let mut thread = Thread::new();
    for _ in 0..2_000 {
        thread.launches(1, 6 * US, 4);
        thread.wait(14 * US);
    }
    for _ in 0..600 {
        thread.launches(5, 6 * US, 4);
        thread.copy("cudaMemcpyAsync", TO_HOST, PAGEABLE, DEVICE, 8, 9 * US);
        thread.wait(7 * US);
    }
    thread.report()
}

/// 2,000 copies of 4 KiB, one after the other.
fn small_copies() -> Report {
    let mut thread = Thread::new();
    for piece in 0..2_000 {
        thread.copy(
            "cudaMemcpyAsync",
            TO_DEVICE,
            PINNED,
            DEVICE + piece * 4096,
            4096,
            6 * US,
        );
        thread.pause(4 * US);
    }
    thread.wait(30 * US);
    thread.report()
}

/// Pinned batches, each waited for before anything else is done.
fn serialized() -> Report {
    let mut thread = Thread::new();
    for _ in 0..64 {
        thread.copy(
            "cudaMemcpyAsync",
            TO_DEVICE,
            PINNED,
            DEVICE,
            8 * MIB,
            10 * US,
        );
        thread.wait(150 * US);
        thread.launches(10, 20 * US, 4096);
    }
    thread.report()
}

#[test]
fn a_launch_bound_loop_is_found() {
    let report = launch_bound();
    assert_eq!(alarms(&report), ["launch.host_bound"]);
    let number = |key| number(&report, "launch.host_bound", key);
    assert_eq!(number("launches"), 5_000);
    assert_eq!(number("back_to_back_launches"), 5_000);
    assert_eq!(
        (number("waits_after_launches"), number("waits_at_once")),
        (10, 10)
    );
    assert_eq!(number("small_grid_launches"), 5_000);
    golden(
        "launch-bound.txt",
        &text(|out| launches::write(&LaunchReport::of(report.clone()), Colour::Off, out)),
    );
    golden("launch-bound.json", &as_json(&LaunchReport::of(report)));
}

#[test]
fn a_busy_device_is_no_launch_bound_loop() {
    let mut thread = Thread::new();
    for _ in 0..10 {
        thread.launches(500, 8 * US, 4096);
        thread.wait(40 * MS);
    }
    assert_eq!(alarms(&thread.report()), Vec::<&str>::new());
}

/// A full queue makes each launch as long as a kernel, and the last wait as long as 1,024.
#[test]
fn a_full_queue_is_no_launch_bound_loop() {
    let mut thread = Thread::new();
    for _ in 0..3 {
        thread.launches(20_000, 500 * US, 4096);
        thread.wait(512 * MS);
    }
    assert_eq!(alarms(&thread.report()), Vec::<&str>::new());
}

#[test]
fn graphs_are_the_cure() {
    let mut thread = Thread::new();
    for _ in 0..200 {
        thread.launches(20, 8 * US, 4);
        thread.graph();
        thread.wait(2 * MS);
    }
    assert_eq!(alarms(&thread.report()), Vec::<&str>::new());
}

#[test]
fn without_a_wait_nobody_knows() {
    let mut thread = Thread::new();
    thread.launches(5_000, 8 * US, 4);
    let report = thread.report();
    assert_eq!(alarms(&report), Vec::<&str>::new());
    assert_eq!(notes(&report), ["launch.host_bound"]);
    assert!(report.findings[0].unknowns.len() > 1);
}

#[test]
fn pageable_copies_are_found_with_what_pinning_would_change() {
    let report = pageable();
    assert_eq!(alarms(&report), ["transfer.pageable"]);
    let number = |key| number(&report, "transfer.pageable", key);
    // The first one might be loading.
    assert_eq!(number("recurring_copies"), 63);
    assert_eq!(number("copied_bytes"), 63 * 8 * MIB);
    assert_eq!(number("copying_ns"), 63 * 1_280 * US);
    let rate = 8 * MIB * SECOND / (160 * US);
    assert!(number("pinned_bytes_per_second").abs_diff(rate) <= rate / 16);
    let saved = 63 * (1_280 - 160) * US;
    assert!(number("saved_ns").abs_diff(saved) <= saved / 100);
    golden(
        "pageable.txt",
        &text(|out| transfers::write(&TransferReport::of(report.clone()), Colour::Off, out)),
    );
    golden("pageable.json", &as_json(&TransferReport::of(report)));
}

#[test]
fn what_pinning_would_change_is_unknown_without_a_pinned_copy() {
    let mut thread = Thread::new();
    for _ in 0..64 {
        thread.copy(
            "cudaMemcpyAsync",
            TO_HOST,
            PAGEABLE,
            DEVICE,
            8 * MIB,
            1_280 * US,
        );
    }
    let report = thread.report();
    assert_eq!(alarms(&report), ["transfer.pageable"]);
    let finding = &report.findings[0];
    assert!(!finding.numbers.contains_key("saved_ns"));
    assert!(finding.unknowns[0].starts_with("What pinned memory would reach"));
}

#[test]
fn pinned_copies_beside_work_are_healthy() {
    let mut thread = Thread::new();
    for _ in 0..64 {
        thread.copy(
            "cudaMemcpyAsync",
            TO_DEVICE,
            PINNED,
            DEVICE,
            8 * MIB,
            10 * US,
        );
        thread.launches(10, 20 * US, 4096);
        thread.wait(3 * MS);
    }
    assert_eq!(alarms(&thread.report()), Vec::<&str>::new());
}

#[test]
fn loading_once_is_no_habit() {
    let mut thread = Thread::new();
    for tensor in 0..200 {
        let place = DEVICE + tensor * 8 * MIB;
        thread.copy(
            "cudaMemcpyAsync",
            TO_DEVICE,
            PAGEABLE,
            place,
            8 * MIB,
            1_280 * US,
        );
    }
    let report = thread.report();
    assert_eq!(alarms(&report), Vec::<&str>::new());
    assert_eq!(notes(&report), ["transfer.pageable"]);
}

#[test]
fn memory_of_a_late_start_is_unknown_not_pageable() {
    let mut thread = Thread::new();
    thread.sample.events.retain(|event| {
        event
            .text
            .as_ref()
            .is_none_or(|text| !text.contains("train.py"))
    });
    let late = sample::process(ENGINE, "python train.py", false);
    thread.sample.fact(START, ENGINE, &late);
    for _ in 0..200 {
        thread.copy(
            "cudaMemcpyAsync",
            TO_DEVICE,
            PAGEABLE,
            DEVICE,
            8 * MIB,
            1_280 * US,
        );
    }
    let report = thread.report();
    assert_eq!(alarms(&report), Vec::<&str>::new());
    assert!(report.host.transfers[0].bulk.bytes_per_second.is_none());
}

#[test]
fn sync_storms_are_found() {
    let report = sync_storm();
    assert_eq!(alarms(&report), ["sync.each_launch", "sync.scalars"]);
    assert_eq!(number(&report, "sync.each_launch", "waits"), 2_000);
    assert_eq!(
        number(&report, "sync.each_launch", "waiting_ns"),
        2_000 * 14 * US
    );
    assert_eq!(number(&report, "sync.scalars", "waits"), 600);
    // In the copies and the waits.
    assert_eq!(number(&report, "sync.scalars", "waiting_ns"), 600 * 16 * US);
    golden(
        "sync-storm.txt",
        &text(|out| syncs::write(&SyncReport::of(report.clone()), Colour::Off, out)),
    );
    golden("sync-storm.json", &as_json(&SyncReport::of(report)));
}

/// A number after each step of 500 launches, as for a loss that is printed.
#[test]
fn a_number_each_step_is_healthy() {
    let mut thread = Thread::new();
    for _ in 0..600 {
        thread.launches(500, 6 * US, 4096);
        thread.copy("cudaMemcpyAsync", TO_HOST, PAGEABLE, DEVICE, 8, 9 * US);
        thread.wait(9 * MS);
    }
    let report = thread.report();
    assert_eq!(alarms(&report), Vec::<&str>::new());
    assert_eq!(notes(&report), ["sync.busy_device"]);
}

/// A wait for a graph each step, as a server does.
#[test]
fn a_wait_each_step_of_a_graph_is_healthy() {
    let mut thread = Thread::new();
    for _ in 0..2_000 {
        thread.launches(2, 8 * US, 4);
        thread.graph();
        thread.wait(200 * US);
    }
    assert_eq!(alarms(&thread.report()), Vec::<&str>::new());
}

#[test]
fn small_copies_in_a_row_are_found() {
    let report = small_copies();
    assert_eq!(alarms(&report), ["transfer.small_copies"]);
    let number = |key| number(&report, "transfer.small_copies", key);
    assert_eq!(number("copies_in_a_row"), 2_000);
    assert_eq!(number("copied_bytes"), 2_000 * 4096);
    assert_eq!(number("calls_ns"), 2_000 * 6 * US);
}

#[test]
fn small_copies_among_work_are_healthy() {
    let mut thread = Thread::new();
    for step in 0..2_000 {
        thread.copy(
            "cudaMemcpyAsync",
            TO_DEVICE,
            PINNED,
            DEVICE + step * 64,
            4096,
            6 * US,
        );
        thread.launches(40, 10 * US, 4096);
        thread.wait(MS);
    }
    assert_eq!(alarms(&thread.report()), Vec::<&str>::new());
}

#[test]
fn copies_that_serialize_are_found() {
    let report = serialized();
    assert_eq!(alarms(&report), ["transfer.serialized"]);
    let number = |key| number(&report, "transfer.serialized", key);
    assert_eq!(
        (number("copies"), number("copied_bytes")),
        (64, 64 * 8 * MIB)
    );
    assert_eq!(number("waiting_ns"), 64 * 160 * US);
}

/// The rate of a pinned copy that goes on after its call is known where the thread waits for it.
#[test]
fn async_hides_the_rate_unless_it_is_waited_for() {
    let rows = &serialized().host.transfers;
    assert!(rows[0].bulk.bytes_per_second.is_none());
    let rate = rows[0].bulk.waited_bytes_per_second.expect("waits").p50;
    let expected = 8 * MIB * SECOND / (160 * US);
    assert!(rate.abs_diff(expected) <= expected / 16, "{rate}");
}

fn text(write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>) -> String {
    let mut text = Vec::new();
    write(&mut text).expect("memory takes all");
    let text = String::from_utf8(text).expect("text");
    for line in text.lines() {
        let fits = line.chars().count() <= 80 && !line.ends_with(' ');
        assert!(fits, "{line:?}");
    }
    text
}

#[test]
fn each_json_key_is_documented() {
    let findings = "findings.md";
    assert_documented(
        &without_numbers(&LaunchReport::of(launch_bound())),
        &["launches.md", "report.md", findings],
    );
    assert_documented(
        &without_numbers(&TransferReport::of(pageable())),
        &["transfers.md", "report.md", findings],
    );
    assert_documented(
        &without_numbers(&SyncReport::of(sync_storm())),
        &["syncs.md", "report.md", findings],
    );
}

/// The numbers of findings have names of their own, which say what they are.
fn without_numbers(report: &impl serde::Serialize) -> serde_json::Value {
    let mut json = serde_json::to_value(report).expect("maps have string keys");
    for finding in json["findings"].as_array_mut().expect("findings") {
        finding["numbers"] = serde_json::Value::Null;
    }
    json
}
