//! Where many processes have probes, those that do not use CUDA have none, until they do.

use std::{fs, path::Path, process::Command};

use e2e::{Recorder, Waiting, assert_accounts, assert_same_calls, dist, events, facts, workload};
use trace::Fact;

/// More than have their probes whatever they do.
const FIRST: usize = 6;
const IDLE: usize = 3;

fn waiting(program: &Path, arguments: &[&str]) -> Waiting {
    let mut command = Command::new(program);
    command
        .env("LD_LIBRARY_PATH", dist().join("fake-cuda"))
        // As a real driver takes its time: probes are back before it is done.
        .env("FAKE_CUDA_LATENCY", "cuInit=3s")
        .args(["--wait", "load", "--wait", "call"])
        .args(arguments);
    Waiting::of(&mut command)
}

/// Links that are for a process alone; the kernel's files tell.
fn links(recorder: &Recorder, pid: u32) -> usize {
    let folder = format!("/proc/{}/fdinfo", recorder.pid());
    let files = fs::read_dir(folder).expect("its files");
    let of_process = format!("pid:\t{pid}\n");
    files
        .filter_map(|file| fs::read_to_string(file.ok()?.path()).ok())
        .filter(|text| text.contains("uprobe_multi") && text.contains(&of_process))
        .count()
}

fn traced(recorder: &Recorder, process: &mut Waiting) {
    process.step();
    let path = dist().join("fake-cuda/libcuda.so.1");
    recorder.says(&[&format!(
        "process {}: probes on {}",
        process.pid,
        path.display()
    )]);
}

#[test]
fn probes_of_idle_processes_wait_for_their_first_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("idle-mix");
    fs::copy(workload("mix"), &program).expect("copied");
    let recorder = Recorder::start(folder.path(), ["--exe", "idle-mix", "--idle-after", "1s"]);
    recorder.says(&["waiting for more"]);
    // With the last of these comes the watch on the driver: whether they called before that is not
    // known.
    let mut first: Vec<Waiting> = (0..FIRST)
        .map(|_| waiting(&program, &["--iterations", "10", "--layer", "both"]))
        .collect();
    for process in &mut first {
        traced(&recorder, process);
    }
    let mut idle: Vec<Waiting> = (0..IDLE)
        .map(|_| {
            waiting(
                &program,
                &["--iterations", "20", "--threads", "3", "--layer", "both"],
            )
        })
        .collect();
    for process in &mut idle {
        traced(&recorder, process);
    }
    let said = |process: &Waiting| format!("process {} does not use CUDA", process.pid);
    let said: Vec<String> = idle.iter().map(said).collect();
    recorder.says(&said.iter().map(String::as_str).collect::<Vec<_>>());
    wait_until(|| {
        idle.iter()
            .all(|process| links(&recorder, process.pid) == 1)
    });
    assert!(
        first
            .iter()
            .all(|process| links(&recorder, process.pid) > 1),
        "they keep their probes"
    );

    let woken = idle.pop().expect("one of them");
    let pid = woken.pid;
    let mut truth = woken.go();
    // The call that began it, on each thread: it was under way when its probe came.
    let begun = truth["calls"]
        .as_object_mut()
        .expect("calls")
        .remove("cudaSetDevice");
    assert_eq!(begun, Some(3.into()));
    for process in first {
        process.go();
    }
    let file = recorder.interrupt();
    let mut report = e2e::cudasnoop();
    report
        .arg("report")
        .arg(&file)
        .args(["--json", "--pid", &pid.to_string()]);
    let report = serde_json::from_slice(&e2e::succeed(&mut report).stdout).expect("JSON");
    assert_same_calls(&report, &truth);
    assert_accounts(&e2e::report(&file));
    let (events, _) = events(&file);
    let gaps: Vec<_> = facts(&events)
        .into_iter()
        .filter_map(|(_, fact)| match fact {
            Fact::Gap(gap) if gap.pid == pid => Some(gap.reason),
            _ => None,
        })
        .collect();
    assert!(
        gaps.iter()
            .any(|reason| reason.contains("began to use CUDA")),
        "{gaps:?}"
    );
}

fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..100 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("it does not come about");
}
