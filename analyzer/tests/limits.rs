//! What is more than is kept: counted, and told.

mod printed;
mod sample;

use std::collections::BTreeMap;

use analyzer::report::{Collector, Kept, Report};
use analyzer::selection::Selection;
use analyzer::text::{self, Colour};
use ledger::{Ledger, Limits};
use printed::assert_documented;
use sample::{ENGINE, SECOND, START, Sample, at, process};
use trace::fact::{Caller, Kernel};
use trace::{Event, Fact, Kind, Reader};

fn report(sample: &Sample) -> Report {
    let file = sample.file();
    let mut reader = Reader::new(&file[..]).expect("a recording");
    let mut collector = Collector::new(Selection::default());
    for batch in &mut reader {
        collector.batch(&batch.expect("memory can be read"));
    }
    collector.finish(reader.end().expect("all batches were read"))
}

/// What is left out; panics unless text, finding and documentation tell of it.
fn left_out(mut sample: Sample) -> BTreeMap<Kept, (u64, u64)> {
    sample.end(START + 10_000 * SECOND, |_| {});
    let report = report(&sample);
    let found = report.recording.left_out.iter();
    let found: BTreeMap<_, _> = found
        .map(|left_out| (left_out.what, (left_out.limit, left_out.left_out)))
        .collect();
    let mut findings = report.findings.iter();
    let finding = findings.find(|finding| finding.id == "recording.left_out");
    let told: Vec<u64> = finding.map_or_else(Vec::new, |finding| {
        assert_eq!(finding.evidence.len(), found.len());
        let numbers = finding.numbers.values();
        numbers.filter_map(serde_json::Number::as_u64).collect()
    });
    let mut counts: Vec<u64> = found.values().map(|(_, count)| *count).collect();
    let mut told_counts = told;
    counts.sort_unstable();
    told_counts.sort_unstable();
    assert_eq!(told_counts, counts);
    let mut page = Vec::new();
    text::write(&report, Colour::Off, &mut page).expect("memory takes all");
    let page = String::from_utf8(page).expect("text");
    assert_eq!(
        page.contains("Figures leave something out"),
        !found.is_empty()
    );
    assert_documented(&report, &["report.md", "findings.md"]);
    found
}

fn engine() -> Sample {
    let mut sample = Sample::new();
    sample.fact(START, ENGINE, &process(ENGINE, "engine", true));
    sample
}

/// A block of its own for each `n`.
fn malloc(sample: &mut Sample, pid: u32, n: u64, size: u64, caller: Option<u32>) {
    let event = Event {
        address: Some(0x7f00_0000_0000 + (n << 32)),
        size: Some(size.cast_signed()),
        device: Some(0),
        caller,
        ..at(pid, 1 + n)
    };
    sample.call("cudaMalloc", 0, 1000, event);
}

#[test]
fn nothing_is_left_out_of_a_small_recording() {
    assert_eq!(left_out(sample::everything()), BTreeMap::new());
}

#[test]
fn changes_of_lines_that_are_not_followed() {
    let mut sample = engine();
    // Each call site has a line for all its sizes, and one for a size.
    for site in 0..4096 + 3 {
        malloc(&mut sample, ENGINE, site.into(), 2 << 20, Some(site));
    }
    let expected = BTreeMap::from([(Kept::GrowthLines, (8192, 6))]);
    assert_eq!(left_out(sample), expected);
}

#[test]
fn lines_of_processes_that_ended() {
    let mut sample = Sample::new();
    // Each process leaves a line for all sizes, and one for each of eight.
    for n in 0..911 {
        let pid = 5000 + n;
        sample.fact(START, pid, &process(pid, "worker", true));
        for size in 0..8 {
            malloc(&mut sample, pid, size, 1 << (21 + size), None);
        }
        sample.fact(START + SECOND, pid, &Fact::Exit);
    }
    let expected = BTreeMap::from([(Kept::EndedGrowthLines, (8192, 911 * 9 - 8192))]);
    assert_eq!(left_out(sample), expected);
}

#[test]
fn call_sites_without_a_name() {
    let mut sample = engine();
    for id in 0..65_536 + 5 {
        let module = Some("/opt/lib.so".to_owned());
        sample.fact(START, ENGINE, &Fact::Caller(Caller { id, module }));
    }
    // One that is told again is none more.
    let module = Some("/opt/lib.so".to_owned());
    sample.fact(START, ENGINE, &Fact::Caller(Caller { id: 7, module }));
    let expected = BTreeMap::from([(Kept::GrowthCallers, (65_536, 5))]);
    assert_eq!(left_out(sample), expected);
}

#[test]
fn sleeps_beyond_the_limit() {
    let mut sample = engine();
    for n in 0..1024 + 2 {
        let event = Event {
            address: Some(0x7000_0000_0000),
            size: Some(512 << 20),
            ..at(ENGINE, n * 6000)
        };
        sample.call("cuMemUnmap", 0, 1000, event);
    }
    let expected = BTreeMap::from([(Kept::Sleeps, (1024, 2))]);
    assert_eq!(left_out(sample), expected);
}

#[test]
fn processes_whose_calls_are_not_looked_at() {
    let mut sample = Sample::new();
    for n in 0..4096 + 7 {
        sample.call("cudaSetDevice", 101, 1000, at(5000 + n, 1));
    }
    let found = left_out(sample);
    assert_eq!(found.get(&Kept::FailingProcesses), Some(&(4096, 7)));
}

#[test]
fn codes_that_are_not_told_apart() {
    let mut sample = engine();
    for code in 1..=32 + 4 {
        sample.call("cudaSetDevice", code, 1000, at(ENGINE, 1));
    }
    let expected = BTreeMap::from([(Kept::ErrorCodes, (32, 4))]);
    assert_eq!(left_out(sample), expected);
}

#[test]
fn refusals_that_wait_for_an_answer() {
    let mut sample = engine();
    for tid in 0..64 + 9 {
        let event = Event {
            tid: 6000 + tid,
            size: Some(1 << 30),
            ..at(ENGINE, 1)
        };
        sample.call("cudaMalloc", 2, 1000, event);
    }
    let expected = BTreeMap::from([(Kept::OpenRefusals, (64, 9))]);
    assert_eq!(left_out(sample), expected);
}

#[test]
fn processes_that_ended() {
    let mut sample = Sample::new();
    for n in 0..1024 + 6 {
        let pid = 5000 + n;
        sample.fact(START, pid, &process(pid, "worker", true));
        sample.fact(START + SECOND, pid, &Fact::Exit);
    }
    let expected = BTreeMap::from([(Kept::EndedProcesses, (1024, 6))]);
    assert_eq!(left_out(sample), expected);
}

/// PyTorch gives up `times` times.
fn runs_out(sample: &mut Sample, pid: u32, times: u64) {
    for n in 0..times {
        let event = Event {
            size: Some(1 << 30),
            device: Some(0),
            allocated: Some(1 << 20),
            reserved: Some(2 << 20),
            ..at(pid, n)
        };
        sample.row("c10::reportOutOfMemoryToProfiler", Kind::Call, event);
    }
}

#[test]
fn times_that_memory_ran_out() {
    let mut sample = Sample::new();
    for n in 0..17 {
        let pid = 5000 + n;
        sample.fact(START, pid, &process(pid, "worker", true));
        runs_out(&mut sample, pid, 250);
        sample.fact(START + SECOND, pid, &Fact::Exit);
    }
    sample.fact(START, ENGINE, &process(ENGINE, "engine", true));
    runs_out(&mut sample, ENGINE, 256 + 3);
    let expected = BTreeMap::from([
        (Kept::OutOfMemory, (256, 3)),
        (Kept::EndedOutOfMemory, (4096, 17 * 250 - 4096)),
    ]);
    assert_eq!(left_out(sample), expected);
}

#[test]
fn processes_without_a_place_in_the_ledger() {
    let mut sample = Sample::new();
    for n in 0..4096 + 2 {
        malloc(&mut sample, 5000 + n, 1, 2 << 20, None);
    }
    let found = left_out(sample);
    assert_eq!(found.get(&Kept::MemoryProcesses), Some(&(4096, 2)));
}

#[test]
fn objects_without_a_place_in_the_ledger() {
    let mut sample = engine();
    for n in 0..8192 + 5 {
        let event = Event {
            handle: Some(0x1000 + n),
            ..at(ENGINE, 1)
        };
        sample.call("cudaMemPoolCreate", 0, 1000, event);
    }
    let found = left_out(sample);
    assert_eq!(found.get(&Kept::MemoryObjects), Some(&(8192, 5)));
    assert_eq!(found.get(&Kept::MemoryBlocks), None);
}

#[test]
fn what_a_checkpoint_has_no_place_for_is_none_of_this_recording() {
    let mut before = Sample::new();
    for pid in [5000, 5001] {
        malloc(&mut before, pid, 1, 2 << 20, None);
    }
    let mut ledger = Ledger::new(Limits {
        processes: 1,
        ..Limits::default()
    });
    for event in &before.events {
        ledger.apply(event);
    }
    assert_eq!(ledger.ignored(), 1);
    let mut sample = Sample::new();
    for part in ledger.checkpoint() {
        sample.fact(START, 0, &part);
    }
    assert_eq!(left_out(sample), BTreeMap::new());
}

#[test]
fn calls_that_did_not_return() {
    let mut sample = engine();
    for n in 0..65_536 + 3 {
        sample.row("cudaStreamSynchronize", Kind::Abandoned, at(ENGINE, n));
    }
    let expected = BTreeMap::from([(Kept::AbandonedCalls, (65_536, 3))]);
    assert_eq!(left_out(sample), expected);
}

#[test]
fn kernels_and_graphs_that_are_not_told_apart() {
    let mut sample = engine();
    for n in 0..4096 + 8 {
        let capture = Event {
            handle: Some(0x1000 + n),
            ..at(ENGINE, 1)
        };
        sample.call("cudaStreamEndCapture", 0, 1000, capture);
    }
    for id in [65_535, 65_536, 70_000] {
        let kernel = Kernel {
            id,
            name: Some(format!("kernel_{id}")),
            module: None,
            handle: id.into(),
        };
        sample.fact(START, ENGINE, &Fact::Kernel(kernel));
        let launch = Event {
            kernel: Some(id),
            ..at(ENGINE, 2)
        };
        sample.row("cudaLaunchKernel", Kind::Call, launch);
    }
    let expected = BTreeMap::from([(Kept::Kernels, (65_536, 2)), (Kept::Graphs, (4096, 8))]);
    assert_eq!(left_out(sample), expected);
}
