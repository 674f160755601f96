//! Made-up events into the sink, and what Prometheus' own parsers make of it.

use std::{env, fs, path::Path, process::Command, sync::Arc};

use agent_common::ApiId;
use serde_json::Value;
use trace::{Event, Fact, Kind, fact};

use super::*;
use crate::{serve::metrics::Format, session::fact_event};

const HOSTILE: &str = "bad \"quotes\" \\ back\\slash\nnew line\r\t\u{0} { a=\"b\" } # 1 é \u{fffd}";

pub(in crate::serve) fn live() -> (Arc<Live>, LiveSink) {
    let live = Arc::new(Live::new(Arc::default(), Arc::default(), false));
    let sink = live.sink();
    (live, sink)
}

pub(in crate::serve) fn feed(sink: &mut LiveSink, event: &Event) {
    sink.event(event).expect("it takes all");
}

pub(in crate::serve) fn process(pid: u32, title: &str) -> Event {
    let process = fact::Process {
        pid,
        namespace_pid: pid,
        start_time: pid.into(),
        parent: 1,
        exe: String::new(),
        title: title.to_owned(),
        command: String::new(),
        from_start: true,
        visible_devices: None,
        container: Some(format!("{pid:064x}")),
        pod_uid: None,
        entry_only: None,
    };
    fact_event(pid, pid, 0, &Fact::Process(process))
}

pub(in crate::serve) fn call(name: &str, pid: u32) -> Event {
    Event {
        api: Some(ApiId::by_name(name).expect("in the table")),
        kind: Kind::Call,
        pid,
        tid: pid,
        result: Some(0),
        duration: Some(5_000),
        device: Some(0),
        ..Event::default()
    }
}

pub(in crate::serve) fn allocation(pid: u32, address: u64, size: i64) -> Event {
    Event {
        address: Some(address),
        size: Some(size),
        ..call("cudaMalloc", pid)
    }
}

/// The series that a parser finds.
pub(in crate::serve) fn parsed(live: &Live, format: Format) -> Vec<Value> {
    let text = format.encode(live.samples()).expect("text");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("metrics");
    fs::write(&file, text).expect("written");
    let kind = match format {
        Format::OpenMetrics => "openmetrics",
        Format::Prometheus => "prometheus",
    };
    let python = env::var_os("CUDASNOOP_PYTHON")
        .expect("CUDASNOOP_PYTHON names no Python with prometheus_client: run `cargo xtask test`");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/prometheus/parse.py");
    let output = Command::new(python)
        .arg(script)
        .arg(kind)
        .arg(&file)
        .output()
        .expect("started");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn sum(series: &[Value], name: &str) -> f64 {
    let values = series.iter().filter(|series| series["name"] == name);
    values.filter_map(|series| series["value"].as_f64()).sum()
}

#[test]
#[expect(clippy::float_cmp, reason = "whole numbers, far below 2^53")]
fn ten_thousand_processes_make_no_more_than_5000_series() {
    let (live, mut sink) = live();
    let names: Vec<&str> = ApiId::all().filter_map(|id| Some(id.api()?.name)).collect();
    let mut calls = 0;
    for pid in 1..=10_000 {
        feed(&mut sink, &process(pid, &format!("{pid} {HOSTILE}")));
        let number = usize::try_from(pid).expect("small");
        for step in 0..12 {
            let name = names[(number * 7 + step * 31) % names.len()];
            let mut event = call(name, pid);
            event.result = [
                Some(0),
                None,
                Some(i32::try_from(number % 900).expect("small")),
            ][step % 3];
            event.size = Some(1 << (step * 3));
            event.address = Some(0x7000_0000_0000 + (step << 36) as u64);
            event.device = Some(i32::try_from(number % 64).expect("small"));
            event.copy_kind = Some(u8::try_from(step % 6).expect("small"));
            event.handle = Some(number as u64);
            feed(&mut sink, &event);
            calls += 1;
        }
        let kernel = fact::Kernel {
            id: pid,
            name: Some(format!("kernel {pid} {HOSTILE}")),
            module: None,
            handle: 0,
        };
        feed(&mut sink, &fact_event(pid, pid, 0, &Fact::Kernel(kernel)));
        let mut launch = call("cudaLaunchKernel", pid);
        launch.kernel = Some(pid);
        feed(&mut sink, &launch);
        calls += 1;
    }
    let rows = live.samples().series();
    assert!(rows <= 5000, "{rows} series");
    for format in [Format::OpenMetrics, Format::Prometheus] {
        let series = parsed(&live, format);
        assert_eq!(series.len(), rows);
        // Nothing is left out: what has no series of its own counts as other.
        assert_eq!(sum(&series, "cudasnoop_api_calls_total"), f64::from(calls));
        let launches = sum(&series, "cudasnoop_kernel_launches_total");
        assert!(launches >= 10_000.0, "{launches}");
        assert!(sum(&series, "cudasnoop_series_limited_total") > 0.0);
    }
}

#[test]
fn names_that_processes_choose_come_through() {
    let (live, mut sink) = live();
    feed(&mut sink, &process(1, HOSTILE));
    feed(&mut sink, &call("cudaFree", 1));
    let kernel = fact::Kernel {
        id: 0,
        name: Some(HOSTILE.to_owned()),
        module: None,
        handle: 0,
    };
    feed(&mut sink, &fact_event(1, 1, 0, &Fact::Kernel(kernel)));
    let mut launch = call("cudaLaunchKernel", 1);
    launch.kernel = Some(0);
    feed(&mut sink, &launch);
    let shown = limits::label(HOSTILE, 200);
    for format in [Format::OpenMetrics, Format::Prometheus] {
        let series = parsed(&live, format);
        let has = |label: &str| {
            series
                .iter()
                .any(|series| series["labels"][label] == *shown)
        };
        assert!(has("process") && has("kernel"), "{format:?}");
    }
}

/// The value of the only series of a metric that is about `process`.
fn value(series: &[Value], name: &str, process: &str) -> Option<f64> {
    let mut found = series
        .iter()
        .filter(|series| series["name"] == name && series["labels"]["process"] == process);
    let value = found.next()?["value"].as_f64();
    assert!(found.next().is_none(), "{name}");
    value
}

#[test]
fn memory_ends_with_its_process_and_counters_do_not() {
    let (live, mut sink) = live();
    let live_bytes = |live: &Live| {
        let series = parsed(live, Format::OpenMetrics);
        value(&series, "cudasnoop_memory_live_bytes", "worker")
    };
    let calls = |live: &Live| {
        let series = parsed(live, Format::OpenMetrics);
        value(&series, "cudasnoop_api_calls_total", "worker")
    };
    feed(&mut sink, &process(1, "worker"));
    feed(&mut sink, &allocation(1, 0x1000_0000, 3 << 20));
    assert_eq!(live_bytes(&live), Some(3_145_728.0));
    feed(&mut sink, &fact_event(1, 1, 9, &Fact::Exit));
    assert_eq!(live_bytes(&live), None);
    assert_eq!(calls(&live), Some(1.0));
    feed(&mut sink, &process(2, "worker"));
    feed(&mut sink, &allocation(2, 0x1000_0000, 1 << 20));
    assert_eq!(live_bytes(&live), Some(1_048_576.0));
    assert_eq!(calls(&live), Some(2.0));
}

#[test]
fn failures_retries_and_lifetimes() {
    let (live, mut sink) = live();
    feed(&mut sink, &process(1, "worker"));
    let failed = Event {
        result: Some(2),
        address: None,
        ..allocation(1, 0, 4096)
    };
    feed(&mut sink, &failed);
    feed(&mut sink, &allocation(1, 0x1000_0000, 4096));
    feed(&mut sink, &allocation(1, 0x2000_0000, 4096));
    for (kind, timestamp) in [(Kind::Begin, 3_000_005_000), (Kind::Call, 3_000_005_000)] {
        let free = Event {
            kind,
            timestamp,
            address: Some(0x1000_0000),
            ..call("cudaFree", 1)
        };
        feed(&mut sink, &free);
    }
    let series = parsed(&live, Format::OpenMetrics);
    for (name, expected) in [
        ("cudasnoop_memory_failed_allocations_total", 1.0),
        ("cudasnoop_memory_allocation_retries_total", 1.0),
        ("cudasnoop_api_errors_total", 1.0),
        ("cudasnoop_memory_lifetime_seconds_count", 1.0),
        ("cudasnoop_memory_lifetime_seconds_sum", 3.0),
        ("cudasnoop_memory_allocation_size_bytes_count", 2.0),
        ("cudasnoop_memory_live_bytes", 4096.0),
    ] {
        let found = sum(&series, name);
        assert!((found - expected).abs() < 1e-9, "{name}: {found}");
    }
}

/// Once memory calls come in windows, no figure is made of what those saw, and their count goes on under
/// one name, in a session after that, too.
#[test]
fn memory_calls_in_windows_are_counted_and_nothing_else() {
    let live = Arc::new(Live::new(Arc::default(), Arc::default(), true));
    let mut sink = live.sink();
    feed(&mut sink, &process(1, "worker"));
    feed(&mut sink, &allocation(1, 0x1000_0000, 4096));
    feed(&mut sink, &allocation(1, 0x2000_0000, 4096));
    let before = parsed(&live, Format::OpenMetrics);
    let calls = |series: &[Value], name| value(series, name, "worker");
    assert_eq!(calls(&before, "cudasnoop_api_calls_total"), Some(2.0));
    assert_eq!(calls(&before, "cudasnoop_memory_live_bytes"), Some(8192.0));

    feed(&mut sink, &fact_event(1, 1, 10, &Fact::MemorySampled));
    feed(&mut sink, &allocation(1, 0x3000_0000, 4096));
    let window = fact::Window {
        since: 20,
        until: 30,
        families: vec!["memory".to_owned()],
        weight: 3.0,
    };
    feed(&mut sink, &fact_event(0, 0, 40, &Fact::Window(window)));
    let assert_unknown = |series: &[Value], made: f64| {
        assert_eq!(calls(series, "cudasnoop_api_calls_total"), None);
        let estimated = calls(series, "cudasnoop_api_calls_estimated_total");
        assert_eq!(estimated, Some(made));
        for name in [
            "cudasnoop_memory_allocation_size_bytes_count",
            "cudasnoop_memory_failed_allocations_total",
        ] {
            assert!(series.iter().all(|series| series["name"] != name), "{name}");
        }
    };
    let sampled = parsed(&live, Format::OpenMetrics);
    assert_unknown(&sampled, 5.0);
    assert_eq!(calls(&sampled, "cudasnoop_memory_live_bytes"), None);

    let mut next = live.sink();
    feed(&mut next, &process(2, "worker"));
    feed(&mut next, &allocation(2, 0x1000_0000, 4096));
    let series = parsed(&live, Format::OpenMetrics);
    assert_unknown(&series, 6.0);
    assert_eq!(calls(&series, "cudasnoop_memory_live_bytes"), Some(4096.0));
}
