//! The overhead budget: what probes cost, and what is estimated meanwhile.

use std::{fs, path::Path, thread, time::Duration};

use agent_common::{ApiId, flags};
use e2e::{events, facts, report, workload_command};
use nix::{
    sys::signal::Signal,
    unistd::{SysconfVar, sysconf},
};
use serde_json::{Value, json};
use trace::{Event, Fact, Kind};

use crate::{
    metrics::{Format, Series},
    number,
    sidecar::{self, Sidecar, Step, until},
};

const LAUNCHES: &str = "cudasnoop_api_calls_estimated_total";

/// Seconds of processor time of a process: its own, and the kernel's for it.
fn times(pid: &str) -> (f64, f64) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = sysconf(SysconfVar::CLK_TCK).expect("known").expect("known");
    let ticks = f64::from(u32::try_from(ticks).expect("small"));
    let seconds = |field: usize| fields[field].parse::<f64>().expect("ticks") / ticks;
    // utime and stime, proc(5), counted from what follows the name.
    (seconds(11), seconds(12))
}

/// A sidecar with this budget that traces a process already, and records into a folder.
fn rolling(folder: &Path, budget: &str, pid: &str) -> Sidecar {
    let folder = folder.to_str().expect("UTF-8");
    let options = ["--rolling", folder, "--disk", "64MiB"];
    let sidecar = Sidecar::start(&[&["--max-overhead", budget, "-p", pid], &options[..]].concat());
    sidecar.is_traced(pid);
    sidecar
}

/// A tight loop of launches beside `budget`, if there is one: processor time of its own and in the
/// kernel, which is where probes are.
fn storm(budget: Option<&str>) -> (f64, f64) {
    let mut command = workload_command("storm");
    command.args(["--kind", "launch", "--rounds", "600"]);
    let mut step = Step::start(command, "call,exit");
    let sidecar = budget.map(|budget| {
        let sidecar = Sidecar::start(&["--max-overhead", budget, "-p", &step.pid()]);
        sidecar.is_traced(&step.pid());
        sidecar
    });
    let before = times(&step.pid());
    step.go();
    step.report();
    let after = times(&step.pid());
    if let Some(sidecar) = sidecar {
        let series = sidecar.metrics(Format::OpenMetrics);
        assert!(series.sum(LAUNCHES, &[]) > 0.0, "it looked at some");
        assert!(series.sum("cudasnoop_window_ratio", &[]) < 1.0);
        sidecar.end(Signal::SIGTERM);
    }
    step.go();
    step.end();
    (after.0 - before.0, after.1 - before.1)
}

/// Without a budget the kernel's part would be many times the program's own.
#[test]
fn a_tight_loop_is_slowed_within_the_budget() {
    const BUDGET: f64 = 0.05;
    // What the budget lets pass in the first seconds: 5 s worth, and what is saved up until the
    // loop begins.
    const FIRST: f64 = 15.0 * BUDGET;
    for _ in 0..2 {
        let (_, alone) = storm(None);
        let (own, kernel) = storm(Some("5%"));
        let cost = kernel - alone;
        assert!(
            cost <= 1.5 * BUDGET * (own + kernel) + FIRST,
            "{cost} s in the kernel beside {own} s of its own"
        );
    }
}

#[test]
fn a_steady_rate_is_estimated() {
    let mut command = workload_command("storm");
    // A few times what the budget has room for, and yet little of a processor's time.
    command.args(["--kind", "launch", "--rate", "20000", "--seconds", "30"]);
    let mut step = Step::start(command, "call,exit");
    let sidecar = Sidecar::start(&["--max-overhead", "1%", "-p", &step.pid()]);
    sidecar.is_traced(&step.pid());
    step.go();
    let truth = step.report();
    let made = number(&truth["calls"]["cudaLaunchKernel"]);
    let near = |count: f64| (count / made - 1.0).abs() < 0.1;
    let launches = |series: &Series| series.sum(LAUNCHES, &[("api", "cudaLaunchKernel")]);
    // Until the last window with launches is over, and told of.
    thread::sleep(Duration::from_secs(5));
    let series = sidecar.metrics(Format::OpenMetrics);
    let estimated = launches(&series);
    assert!(near(estimated), "{estimated} of {made}");
    assert!(near(
        series.sum("cudasnoop_kernel_launches_estimated_total", &[])
    ));
    // It is no more than what the windows had: each launch seen stands for some.
    assert!(series.sum("cudasnoop_events_total", &[("family", "launch")]) < made);
    // Another name, so that nobody takes it for exact.
    let exact = [("api", "cudaLaunchKernel")];
    assert_eq!(series.count("cudasnoop_api_calls_total", &exact), 0);
    assert_eq!(series.count("cudasnoop_kernel_launches_total", &[]), 0);
    step.go();
    step.end();
    sidecar.ends();
}

/// Most windows look at functions alone that were seen to be called: one that comes later is found by
/// the next that looks at all.
#[test]
fn a_function_that_is_called_later_is_found() {
    let storm = |kind, rate, seconds| {
        let mut command = workload_command("storm");
        command.args(["--kind", kind, "--rate", rate, "--seconds", seconds]);
        // As few calls in a round as make it end in time.
        command.args(["--calls", "1000"]);
        Step::start(command, "call,exit")
    };
    let (mut first, mut later) = (storm("launch", "20000", "33"), storm("copy", "500", "20"));
    let (pid, other) = (first.pid(), later.pid());
    let sidecar = Sidecar::start(&["--max-overhead", "1%", "-p", &pid, "-p", &other]);
    sidecar.is_traced(&pid);
    sidecar.is_traced(&other);
    first.go();
    // Until windows are those of a storm, and nothing new is found by them.
    thread::sleep(Duration::from_secs(10));
    later.go();
    let made = number(&later.report()["calls"]["cudaMemcpyAsync"]);
    first.report();
    thread::sleep(Duration::from_secs(5));
    let copies = [("api", "cudaMemcpyAsync")];
    let estimated = sidecar.metrics(Format::OpenMetrics).sum(LAUNCHES, &copies);
    assert!(
        (0.4..1.15).contains(&(estimated / made)),
        "{estimated} of {made}"
    );
    for mut step in [first, later] {
        step.go();
        step.end();
    }
    sidecar.ends();
}

/// What is rare is exact, whatever the budget; probes come and go, and go for good when they are
/// switched off.
#[test]
#[expect(clippy::float_cmp, reason = "whole numbers, far below 2^53")]
fn memory_is_exact_within_a_budget() {
    let mut command = workload_command("mix");
    command.args(["--iterations", "40", "--leak", "5"]);
    let mut step = Step::start(command, "call,exit");
    let sidecar = Sidecar::start(&["--max-overhead", "1%", "-p", &step.pid()]);
    sidecar.is_traced(&step.pid());
    step.go();
    let truth = step.report();
    let live = |series: &Series| {
        series.sum("cudasnoop_memory_live_bytes", &[("kind", "device")])
            == number(&truth["live_bytes"])
    };
    let mallocs = [("api", "cudaMalloc")];
    let made = |series: &Series| {
        series.sum("cudasnoop_api_calls_total", &mallocs) == number(&truth["calls"]["cudaMalloc"])
    };
    let series = until(|| {
        let series = sidecar.metrics(Format::OpenMetrics);
        let budget = series.sum("cudasnoop_overhead_budget_ratio", &[]);
        (live(&series) && made(&series) && budget == 0.01).then_some(series)
    })
    .expect("all memory is known, all calls, and the budget");
    assert_eq!(series.count(LAUNCHES, &mallocs), 0);
    let entry = series.sum("cudasnoop_probe_cost_seconds", &[("probe", "entry")]);
    assert!(entry > 0.0, "a probe costs something");
    let attached = |series: &Series| series.sum("cudasnoop_probes_attached", &[]);
    assert!(attached(&series) > 50.0);
    let put = |path| sidecar::request("PUT", sidecar.admin, path, "").0;
    assert_eq!(put("/api/v1/probes/off"), 200);
    sidecar.says("all probes are off");
    until(|| (attached(&sidecar.metrics(Format::OpenMetrics)) == 0.0).then_some(()))
        .expect("none is left");
    // No window brings them back.
    thread::sleep(Duration::from_secs(1));
    assert_eq!(attached(&sidecar.metrics(Format::OpenMetrics)), 0.0);
    assert_eq!(put("/api/v1/probes/on"), 200);
    until(|| (attached(&sidecar.metrics(Format::OpenMetrics)) > 50.0).then_some(()))
        .expect("they are back");
    sidecar.end(Signal::SIGTERM);
}

/// A program that puts events into streams again and again pays for that only while it captures:
/// those tell how a capture spreads, and nothing else. The first capture after that is in doubt,
/// and says so.
#[test]
fn events_put_into_streams_cost_nothing_outside_of_captures() {
    let folder = tempfile::tempdir().expect("a folder");
    let captures = 20;
    let mut command = workload_command("captures");
    command.args(["--captures", &captures.to_string()]);
    let mut step = Step::start(command, "call,exit");
    let sidecar = rolling(folder.path(), "0.01%", &step.pid());
    step.go();
    step.report();
    step.go();
    step.end();
    sidecar.ends();

    let mut segments: Vec<_> = fs::read_dir(folder.path())
        .expect("read")
        .map(|entry| entry.expect("read").path())
        .collect();
    segments.sort();
    let events: Vec<Event> = segments
        .iter()
        .flat_map(|segment| events(segment).0)
        .collect();
    let of = |name: &str, flag: u32| -> Vec<bool> {
        let api = ApiId::by_name(name).expect("in the table");
        let calls = events
            .iter()
            .filter(|event| event.kind == Kind::Call && event.api == Some(api));
        calls.map(|event| event.flags & flag != 0).collect()
    };
    let in_doubt = of("cudaStreamEndCapture", flags::CAPTURE_UNCLEAR);
    assert_eq!(in_doubt.len(), captures);
    assert!(in_doubt[0], "nobody saw how the first one spread");
    // The probes are back within a pause or two.
    assert!(!in_doubt[captures / 2..].contains(&true), "{in_doubt:?}");
    for (name, least) in [
        ("cudaEventRecord", captures),
        ("cudaStreamWaitEvent", 2 * captures),
    ] {
        let captured = of(name, flags::CAPTURED);
        // None of the many before the captures.
        assert!(
            (least..=2 * captures).contains(&captured.len()),
            "{name}: {captured:?}"
        );
        let last = &captured[captured.len() - captures..];
        assert!(!last.contains(&false), "{name}: {captured:?}");
    }
    let is_told = |(_, fact): &(u32, Fact)| match fact {
        Fact::Gap(gap) => gap.reason.contains("which streams joined a capture"),
        _ => false,
    };
    assert!(facts(&events).iter().any(is_told));
}

/// Reports that break the budget by themselves are sampled: no block of PyTorch's is claimed any more,
/// while the segments, which are allocations as others are, stay exact.
#[test]
#[expect(clippy::float_cmp, reason = "whole numbers, far below 2^53")]
fn reports_of_pytorch_that_break_the_budget_are_sampled() {
    let mut command = workload_command("torch");
    command.args(["--rounds", "30000"]);
    let mut step = Step::start(command, "call,exit");
    let sidecar = Sidecar::start(&["--max-overhead", "0.1%", "-p", &step.pid()]);
    sidecar.is_traced(&step.pid());
    step.go();
    sidecar.says("PyTorch's reports alone cost more than --max-overhead 0.1%");
    let truth = step.report();
    let reports = [("library", "torch")];
    let estimated = |series: &Series| series.sum(LAUNCHES, &reports);
    let seen = |series: &Series| series.sum("cudasnoop_events_total", &[("family", "torch")]);
    let series = until(|| {
        let series = sidecar.metrics(Format::OpenMetrics);
        let live = series.sum("cudasnoop_memory_live_bytes", &[("kind", "device")]);
        // What a window saw stands for some more, once the window is over.
        let is_told = estimated(&series) >= seen(&series);
        (live == number(&truth["live_bytes"]) && is_told).then_some(series)
    })
    .expect("the segments are known, and each report that was seen stands for one at least");
    assert_eq!(series.count("cudasnoop_torch_largest_free_bytes", &[]), 0);
    assert_eq!(series.count("cudasnoop_api_calls_total", &reports), 0);
    let seen = seen(&series);
    let made: f64 = truth["torch_calls"]
        .as_object()
        .expect("functions")
        .values()
        .map(number)
        .sum();
    assert!(seen > 0.0 && seen < made, "{seen} of {made}");
    step.go();
    step.end();
    sidecar.ends();
}

/// Memory calls that break the budget by themselves come in windows: what the program holds is not
/// claimed any more, neither as bytes nor as 0, and the calls are estimated under one name alone.
#[test]
fn memory_calls_that_break_the_budget_are_sampled() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = workload_command("storm");
    command.args(["--kind", "malloc", "--calls", "1000"]);
    command.args(["--rate", "3000", "--seconds", "8"]);
    let mut step = Step::start(command, "call,exit");
    let sidecar = rolling(folder.path(), "0.1%", &step.pid());
    step.go();
    sidecar.says("memory calls alone cost more than --max-overhead 0.1%");
    let made = number(&step.report()["calls"]["cudaMalloc"]);
    let series = sidecar.metrics(Format::OpenMetrics);
    assert!((series.sum("cudasnoop_sampled", &[("family", "memory")]) - 1.0).abs() < 0.1);
    let mallocs = [("api", "cudaMalloc")];
    assert_eq!(series.count("cudasnoop_api_calls_total", &mallocs), 0);
    // There is no window for most of a minute: its budget is spent.
    let known = series.sum(LAUNCHES, &mallocs);
    assert!(known > 0.0 && known < made, "{known} of {made}");
    for gone in [
        "cudasnoop_memory_live_bytes",
        "cudasnoop_memory_held_bytes",
        "cudasnoop_memory_peak_bytes",
        "cudasnoop_memory_allocation_size_bytes_count",
        "cudasnoop_memory_lifetime_seconds_count",
    ] {
        assert_eq!(series.count(gone, &[]), 0, "{gone}");
    }
    let (status, memory) = sidecar::request("GET", sidecar.admin, "/api/v1/memory", "");
    assert_eq!(status, 200);
    let memory: Value = serde_json::from_slice(&memory).expect("JSON");
    let process = &memory["processes"][0];
    assert_eq!(process["memory_sampled"], true, "{memory}");
    assert_eq!(process["devices"], json!([]), "{memory}");
    step.go();
    step.end();
    sidecar.ends();

    let report = report(folder.path());
    assert_eq!(report["processes"][0]["memory_sampled"], true);
    let memory = report["memory"].as_array().expect("rows");
    assert!(
        memory.iter().all(|row| row["live_bytes"].is_null()),
        "{memory:?}"
    );
    let sampled = report["recording"]["sampled"]["families"].as_array();
    assert!(
        sampled
            .expect("families")
            .iter()
            .any(|family| family == "memory")
    );
    let findings = report["findings"].as_array().expect("findings");
    assert!(
        findings.iter().any(|finding| finding["id"]
            .as_str()
            .is_some_and(|id| id.starts_with("recording.memory_sampled"))),
        "{findings:?}"
    );
}
