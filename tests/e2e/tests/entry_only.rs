//! Calls that are probed at their entry alone: all are counted, and nothing is claimed that only
//! a return could tell.

use std::path::Path;

use e2e::{
    Recorder, Waiting, assert_accounts, assert_same_calls, cudasnoop, dist, events, facts,
    go_program, record, report, succeed, workload,
};
use serde_json::Value;
use trace::{Fact, Kind};

/// Results, durations and what calls did to memory are not known, and not guessed.
fn assert_nothing_is_claimed(file: &Path, reason: &str) {
    let (events, _) = events(file);
    let calls = events.iter().filter(|event| event.kind != Kind::Fact);
    let returned: Vec<_> = calls
        .filter(|event| event.result.is_some() || event.duration.is_some())
        .collect();
    assert!(returned.is_empty(), "{:?}", returned.first());
    assert!(events.iter().all(|event| event.kind != Kind::Begin));
    let told = facts(&events).into_iter().any(|(_, fact)| {
        matches!(fact, Fact::Process(process)
            if process.entry_only.as_deref().is_some_and(|why| why.contains(reason)))
    });
    assert!(told, "the recording does not say why");
    let report = report(file);
    for row in report["memory"].as_array().expect("rows") {
        for key in ["live_bytes", "held_bytes", "peak_bytes", "by_kind"] {
            assert_eq!(row[key], Value::Null, "{key} in {row}");
        }
    }
    for row in report["calls"].as_array().expect("rows") {
        assert_eq!(row["errors"], Value::Null, "{row}");
        assert_eq!(row["duration_ns"], Value::Null, "{row}");
    }
}

#[test]
fn calls_are_counted_once() {
    for mode in ["scoped", "shared"] {
        let arguments = ["--threads", "4", "--iterations", "30", "--layer", "both"];
        let run = record(&["--entry-only", "--attach", mode], "mix", &arguments);
        let report = report(&run.file);
        assert_same_calls(&report, &run.truth);
        assert_eq!(assert_accounts(&report), (assert_accounts(&report).0, 0));
        assert_nothing_is_claimed(&run.file, "--entry-only");
    }
}

#[test]
fn a_running_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let waiting = Waiting::start("call", "mix", &["--threads", "4", "--layer", "both"]);
    let pid = waiting.pid.to_string();
    let recorder = Recorder::start(folder.path(), ["-p", &pid, "--entry-only"]);
    recorder.says(&["is traced"]);
    let truth = waiting.go();
    let file = recorder.finish();
    assert_same_calls(&report(&file), &truth);
    assert_nothing_is_claimed(&file, "--entry-only");
}

#[test]
fn reports_of_pytorch_stay_whole() {
    let run = record(&["--entry-only"], "torch", &["--rounds", "3"]);
    let memory = &report(&run.file)["memory"][0];
    let checkpoints = run.truth["checkpoints"].as_array().expect("checkpoints");
    let end = checkpoints.last().expect("one");
    assert_eq!(memory["torch"]["allocated"], end["allocated"]);
    assert_eq!(memory["live_bytes"], Value::Null);
}

#[test]
fn counting_has_no_errors_bytes_and_times() {
    let output = succeed(
        cudasnoop()
            .args(["count", "--json", "--entry-only", "--"])
            .arg(workload("mix")),
    );
    // The workload's own line comes first.
    let counted = e2e::last_json(&output.stdout);
    let calls = counted["calls"].as_array().expect("rows");
    let malloc = calls
        .iter()
        .find(|row| row["api"] == "cudaMalloc")
        .expect("a row");
    assert!(malloc["calls"].as_u64() > Some(0));
    for key in ["errors", "bytes", "time_ns"] {
        assert_eq!(malloc[key], Value::Null, "{key} in {malloc}");
    }
}

#[test]
fn go_programs_with_cuda_in_their_own_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = go_program(folder.path());
    let record = |name: &str, options: &[&str]| {
        let file = folder.path().join(name);
        succeed(
            cudasnoop()
                .args(["record", "-o"])
                .arg(&file)
                .args(options)
                .arg("--")
                .arg(&program),
        );
        file
    };
    let file = record("auto.arrows", &[]);
    let calls = report(&file)["calls"].clone();
    let made: Vec<_> = calls
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| (row["api"].clone(), row["calls"].clone()))
        .collect();
    assert_eq!(made.len(), 2, "{made:?}");
    assert!(made.iter().all(|(_, calls)| *calls == 100), "{made:?}");
    assert_nothing_is_claimed(&file, "Go");
    // Its user may know better.
    let file = record("never.arrows", &["--entry-only=never"]);
    let memory = report(&file)["memory"][0].clone();
    assert_eq!(memory["peak_bytes"], 1 << 20, "{memory}");
}

#[test]
fn one_program_that_returns_might_harm_spares_all_that_share_its_links() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = go_program(folder.path());
    let file = folder.path().join("run.arrows");
    let script = format!(
        "{mix} --iterations 5; {go}; {mix} --iterations 5",
        mix = workload("mix").display(),
        go = program.display()
    );
    succeed(
        cudasnoop()
            .args(["record", "-o"])
            .arg(&file)
            .args(["--attach", "shared", "--", "sh", "-c", &script])
            .env("LD_LIBRARY_PATH", dist().join("fake-cuda")),
    );
    let (events, _) = events(&file);
    let go: u32 = facts(&events)
        .into_iter()
        .find_map(|(_, fact)| match fact {
            Fact::Process(process) if process.exe.ends_with("/go") => Some(process.pid),
            _ => None,
        })
        .expect("told");
    let began = events
        .iter()
        .position(|event| event.pid == go && event.api.is_some())
        .expect("calls");
    let (before, after) = events.split_at(began);
    assert!(before.iter().any(|event| event.result.is_some()));
    assert!(
        after
            .iter()
            .any(|event| event.pid != go && event.api.is_some())
    );
    assert!(after.iter().all(|event| event.result.is_none()));
    assert_accounts(&report(&file));
}
