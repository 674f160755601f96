//! Processes that have CUDA's libraries and do not use them, in the metrics.

use std::{fs, process::Command};

use e2e::{Waiting, dist, workload};
use nix::sys::signal::Signal;

use crate::{
    metrics::Format,
    sidecar::{Sidecar, serve, until},
};

#[test]
#[expect(clippy::float_cmp, reason = "whole numbers, far below 2^53")]
fn processes_that_do_not_use_cuda_are_counted_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("idle-served");
    fs::copy(workload("mix"), &program).expect("copied");
    let mut command = serve();
    command.args(["--exe", "idle-served", "--idle-after", "1s"]);
    command.env("CUDASNOOP_LOG", "debug");
    let sidecar = Sidecar::of(command);
    let sum = |metric: &str| sidecar.metrics(Format::OpenMetrics).sum(metric, &[]);
    let traced = |count: f64| until(|| (sum("cudasnoop_processes") == count).then_some(()));
    // The sixth brings the watch on the driver; of those after it is known that they did not call.
    let mut processes = Vec::new();
    for count in 1..=8_u8 {
        let mut command = Command::new(&program);
        command.env("LD_LIBRARY_PATH", dist().join("fake-cuda"));
        command.args(["--wait", "load", "--wait", "call", "--layer", "both"]);
        let mut process = Waiting::of(&mut command);
        traced(f64::from(count)).expect("seen");
        process.step();
        let driver = dist().join("fake-cuda/libcuda.so.1");
        sidecar.says(&format!(
            "process {}: probes on {}",
            process.pid,
            driver.display()
        ));
        processes.push(process);
    }
    let last = processes.pop().expect("an idle one");
    sidecar.says(&format!("process {} does not use CUDA", last.pid));
    let idle = until(|| Some(sum("cudasnoop_idle_processes")).filter(|idle| *idle >= 2.0));
    let idle = idle.expect("the last two at least");
    last.go();
    until(|| (sum("cudasnoop_idle_processes") == idle - 1.0).then_some(()))
        .expect("it called, and ended");
    for process in processes {
        process.go();
    }
    sidecar.end(Signal::SIGTERM);
}
