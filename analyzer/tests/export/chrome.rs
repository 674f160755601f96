//! Trace Event JSON.

use std::fs;

use serde_json::json;
use trace::fact::Clock;
use trace::{Event, Fact, Kind};

use crate::sample::{SECOND, START, Sample};
use crate::{directory, everything, exported, python, recordings, script, write};

/// 1.7e18 ns after 1970, which a double rounds to 256 ns.
const WALL: u64 = 1_700_000_000_123_456_789;

const PID: u32 = 77;

/// A recording that knows the time of day.
fn dated() -> Sample {
    let mut sample = Sample::new();
    let clock = Clock {
        monotonic: START,
        boottime: START,
        realtime: WALL,
    };
    sample.fact(START, 0, &Fact::Clock(clock));
    sample
}

fn event(tid: u32, timestamp: u64) -> Event {
    Event {
        timestamp,
        pid: PID,
        tid,
        ..Event::default()
    }
}

#[test]
fn every_row_is_one_event_exact_to_the_nanosecond() {
    let directory = directory();
    let mut all = recordings();
    all.push(everything(&directory));
    for recording in all {
        let trace = exported(&directory, "chrome", &recording, &[]);
        script(&python(), "chrome.py", &[&recording, &trace]);
    }
}

/// Calls 1 ns apart, of no length, and overlapping: on a thread whose id two processes share.
pub(crate) fn awkward() -> Sample {
    let mut sample = dated();
    sample.call("cudaMalloc", 0, 1, event(1, START + 1));
    sample.call("cudaMalloc", 0, 0, event(1, START + 2));
    sample.call("cudaMalloc", 0, 0, event(1, START + 2));
    sample.call("cudaFree", 0, 10, event(1, START + 2));
    sample.call("cudaMemcpyAsync", 0, 500, event(2, START + 100));
    sample.call("cudaMemcpyAsync", 0, 500, event(2, START + 200));
    sample.call("cudaMemcpyAsync", 0, 500, event(2, START + 300));
    sample.call("cudaMemcpyAsync", 0, 10_000, event(2, START + 100));
    sample.row("cudaLaunchKernel", Kind::Call, event(2, START + 250));
    let escapes = Event {
        text: Some(r#"{"fact":"later","note":"tab\there \"quoted\" \\ ü \u0000"}"#.to_owned()),
        kind: Kind::Fact,
        ..event(PID, START + 400)
    };
    sample.events.push(escapes);
    sample.end(START + SECOND, |_| {});
    sample
}

#[test]
fn a_nanosecond_survives_and_slices_that_overlap_get_lanes() {
    let directory = directory();
    let recording = write(&directory, "awkward.arrows", &awkward());
    let trace = exported(&directory, "chrome", &recording, &[]);
    let printed = script(&python(), "chrome.py", &[&recording, &trace]);
    let highest: f64 = printed
        .split_whitespace()
        .nth(1)
        .and_then(|tid| tid.parse().ok())
        .expect("the highest thread id");
    assert!(
        highest > 1_020_000_000.0,
        "four copies need three lanes: {highest}"
    );
}

#[test]
fn it_goes_together_with_a_trace_of_the_pytorch_profiler() {
    let directory = directory();
    let mut sample = dated();
    sample.call("cudaMalloc", 0, 3_000, event(PID, START + 5_000));
    sample.call("cudaMemcpyAsync", 0, 8_000, event(PID, START + 20_000));
    sample.end(START + SECOND, |_| {});
    let recording = write(&directory, "run.arrows", &sample);
    let trace = exported(&directory, "chrome", &recording, &[]);
    // As libkineto writes it: seconds since 1970, rounded down to 7,889,238.
    let base = WALL / 7_889_238_000_000_000 * 7_889_238_000_000_000;
    let microseconds = |moment: u64| {
        let ns = WALL - base + moment - START;
        format!("{}.{:03}", ns / 1000, ns % 1000)
            .parse::<f64>()
            .expect("a number")
    };
    let call = |name: &str, start: u64, dur: f64| {
        json!({"ph": "X", "cat": "cuda_runtime", "name": name, "pid": PID, "tid": PID,
               "ts": microseconds(start), "dur": dur, "args": {"correlation": 1}})
    };
    let kineto = json!({
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base,
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": PID, "tid": 0, "ts": 0, "args": {"name": "python"}},
            call("cudaMalloc", START + 5_500, 2.0),
            call("cudaMemcpyAsync", START + 21_001, 6.5),
        ],
    });
    let theirs = directory.path().join("kineto.json");
    fs::write(&theirs, kineto.to_string()).expect("the file can be written");
    script(&python(), "chrome.py", &[&recording, &trace, &theirs]);
    let trace = exported(
        &directory,
        "chrome",
        &recording_named(&directory, &sample),
        &["--base-time", "1000"],
    );
    let trace: serde_json::Value =
        serde_json::from_slice(&fs::read(trace).expect("the trace")).expect("JSON");
    assert_eq!(trace["baseTimeNanoseconds"], 1000);
}

fn recording_named(directory: &tempfile::TempDir, sample: &Sample) -> std::path::PathBuf {
    write(directory, "other-base.arrows", sample)
}
