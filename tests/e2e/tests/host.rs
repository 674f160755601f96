//! What the host's calls cost, on real recordings of programs that know what they call.

use e2e::{Recorded, cudasnoop, record, succeed};
use serde_json::Value;

fn ask(command: &str, run: &Recorded) -> Value {
    let output = succeed(cudasnoop().arg(command).arg(&run.file).arg("--json"));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Copies of a program's own memory: asynchronous by name, but the host waits for the driver's
/// buffer. How long each takes is the machine's affair.
#[test]
fn copies_of_pageable_memory_are_known_as_such() {
    let run = record(&[], "storm", &["--kind", "copy", "--calls", "2000"]);
    let report = ask("transfers", &run);
    let calls = &run.truth["calls"]["cudaMemcpyAsync"];
    let [row] = &report["transfers"].as_array().expect("rows")[..] else {
        panic!("one kind of copy: {report}")
    };
    let told = ["direction", "host", "timing"].map(|key| row[key].as_str().expect("a name"));
    assert_eq!(told, ["host_to_device", "pageable", "staged"]);
    assert_eq!(&row["copies"], calls);
    assert_eq!(&report["threads"][0]["small_copies"], calls);
}

#[test]
fn waits_are_counted_by_who_makes_them() {
    let run = record(
        &[],
        "storm",
        &["--kind", "sync", "--calls", "2000", "--threads", "2"],
    );
    let report = ask("syncs", &run);
    assert_eq!(report["waits"], run.truth["calls"]["cudaStreamSynchronize"]);
    let callers = report["callers"].as_array().expect("rows");
    assert_eq!(callers.len(), 2);
    for row in callers {
        assert_eq!(row["api"], "cudaStreamSynchronize");
        let caller = row["caller"].as_str().expect("a file");
        assert!(caller.ends_with("/storm"), "{caller}");
    }
}

#[test]
fn launches_are_counted_by_thread() {
    let run = record(&[], "storm", &["--kind", "launch", "--calls", "2000"]);
    let report = ask("launches", &run);
    let thread = &report["threads"][0];
    assert_eq!(thread["launches"], run.truth["calls"]["cudaLaunchKernel"]);
    // Of 2 x 3 x 5 blocks.
    assert_eq!(thread["small_grids"], thread["launches"]);
}
