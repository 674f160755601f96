//! Each call once, and every call.

use agent_common::ApiId;
use e2e::{
    assert_accounts, assert_same_calls, cudasnoop, events, record, report, succeed, truth_calls,
    workload,
};
use trace::Kind;

#[test]
fn equal_twenty_times_in_a_row() {
    for round in 0..20 {
        let run = record(&[], "mix", &["--threads", "2", "--iterations", "20"]);
        let report = report(&run.file);
        assert_same_calls(&report, &run.truth);
        let (_, lost) = assert_accounts(&report);
        assert_eq!(lost, 0, "round {round}");
        assert_eq!(report["recording"]["complete"], true);
    }
}

#[test]
fn eight_threads_and_three_forked_children() {
    let arguments = [
        "--threads",
        "8",
        "--forks",
        "3",
        "--iterations",
        "50",
        "--layer",
        "both",
    ];
    // Half of the ring has room for all of its 14 MiB of records, should we get no processor.
    let run = record(&["--ring-size", "64MiB"], "mix", &arguments);
    let report = report(&run.file);
    assert_same_calls(&report, &run.truth);
    assert_eq!(assert_accounts(&report).1, 0);
    let (events, _) = events(&run.file);
    let mut pids: Vec<u64> = events
        .iter()
        .filter(|event| event.api.is_some())
        .map(|event| event.pid.into())
        .collect();
    pids.sort_unstable();
    pids.dedup();
    let mut expected: Vec<u64> = run.truth["pids"]
        .as_array()
        .expect("pids")
        .iter()
        .map(|pid| pid.as_u64().expect("a pid"))
        .collect();
    expected.sort_unstable();
    assert_eq!(pids, expected);
}

#[test]
fn driver_calls_alone() {
    let run = record(&[], "mix", &["--layer", "driver", "--iterations", "30"]);
    let report = report(&run.file);
    assert_same_calls(&report, &run.truth);
    assert!(
        truth_calls(&run.truth)
            .keys()
            .all(|name| name.starts_with("cu"))
    );
}

#[test]
fn libraries_needed_at_start() {
    let run = record(&[], "mix-linked", &["--iterations", "30"]);
    assert_same_calls(&report(&run.file), &run.truth);
}

#[test]
fn bytes_and_memory() {
    let run = record(&[], "mix", &["--iterations", "40"]);
    let report = report(&run.file);
    let row = |api: &str| {
        report["calls"]
            .as_array()
            .expect("calls")
            .iter()
            .find(|row| row["api"] == api)
            .unwrap_or_else(|| panic!("no {api}"))
            .clone()
    };
    assert_eq!(row("cudaMalloc")["bytes"], run.truth["bytes"]["cudaMalloc"]);
    let of = |symbol: &str| run.truth["bytes"][symbol].as_u64().unwrap_or(0);
    assert_eq!(
        row("cudaMemcpy")["bytes"],
        of("cudaMemcpy") + of("cudaMemcpy_ptds")
    );
    assert_eq!(
        row("cudaMemcpyAsync")["bytes"],
        of("cudaMemcpyAsync") + of("cudaMemcpyAsync_ptsz")
    );
    let memory = report["memory"].as_array().expect("memory");
    assert_eq!(memory.len(), 1);
    assert_eq!(memory[0]["live_bytes"], run.truth["live_bytes"]);
    assert_eq!(memory[0]["peak_bytes"], run.truth["peak_bytes"]);
    assert_eq!(memory[0]["device"], 0);
}

#[test]
fn launch_arguments() {
    let run = record(&[], "mix", &["--iterations", "10", "--layer", "both"]);
    let (events, _) = events(&run.file);
    let mut forms = std::collections::BTreeSet::new();
    for event in events.iter().filter(|event| event.kind == Kind::Call) {
        let Some(dimensions) = event.dimensions else {
            continue;
        };
        assert_eq!(dimensions.grid, [2, 3, 5]);
        assert_eq!(dimensions.block, [7, 11, 13]);
        assert_eq!(event.shared_memory, Some(17));
        forms.insert(event.api.and_then(ApiId::api).expect("known").name);
    }
    let launches = [
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
        "cudaLaunchCooperativeKernel",
        "cuLaunchKernel",
        "cuLaunchKernelEx",
        "cuLaunchCooperativeKernel",
    ];
    assert_eq!(forms, launches.into_iter().collect());
    let own_stream = events
        .iter()
        .filter(|event| event.stream == Some(0xabc))
        .count();
    assert!(own_stream > 0);
}

#[test]
fn count_agrees() {
    let output = succeed(
        cudasnoop()
            .args(["count", "--json", "--"])
            .arg(workload("mix"))
            .args(["--threads", "4", "--forks", "2", "--iterations", "100"]),
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let truth = serde_json::from_str(lines.next().expect("the workload's line")).expect("JSON");
    let counted: serde_json::Value =
        serde_json::from_str(lines.next().expect("the counts")).expect("JSON");
    assert_eq!(counted["schema"], "cudasnoop.count/1");
    assert_same_calls(&counted, &truth);
}

#[test]
fn launch_returns_give_results() {
    let run = record(&["--launch-returns"], "mix", &["--iterations", "10"]);
    let report = report(&run.file);
    assert_same_calls(&report, &run.truth);
    let (events, _) = events(&run.file);
    let launches: Vec<_> = events
        .iter()
        .filter(|event| event.kind == Kind::Call && event.dimensions.is_some())
        .collect();
    assert!(!launches.is_empty());
    assert!(
        launches
            .iter()
            .all(|launch| launch.result == Some(0) && launch.duration.is_some())
    );
}

#[test]
fn failures_are_errors() {
    let run = e2e::record_with(
        &["--launch-returns"],
        "mix",
        &["--iterations", "10"],
        |command| {
            command.env(
                "FAKE_CUDA_FAIL",
                "cudaMalloc:3=2,cudaMemcpy:2=1,cudaLaunchKernel:4=700",
            );
        },
    );
    let report = report(&run.file);
    let errors: std::collections::BTreeMap<String, serde_json::Value> = report["calls"]
        .as_array()
        .expect("calls")
        .iter()
        .filter(|row| {
            row["errors"]
                .as_object()
                .is_some_and(|codes| !codes.is_empty())
        })
        .map(|row| {
            (
                row["api"].as_str().expect("a name").to_owned(),
                row["errors"].clone(),
            )
        })
        .collect();
    let truth: std::collections::BTreeMap<String, serde_json::Value> = run.truth["errors"]
        .as_object()
        .expect("errors")
        .iter()
        .filter_map(|(symbol, codes)| Some((e2e::api_of(symbol)?.to_owned(), codes.clone())))
        .collect();
    assert!(!truth.is_empty());
    assert_eq!(errors, truth);
}
