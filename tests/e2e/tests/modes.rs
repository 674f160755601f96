//! The three ways to attach, and processes that run already.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use e2e::{
    Recorder, Waiting, assert_accounts, assert_same_calls, cudasnoop, dist, events, facts, record,
    report,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use trace::Fact;

/// Starts `record -p`, and waits until it has attached.
fn recorder(pid: u32, file: &Path, options: &[&str]) -> Child {
    let mut child = cudasnoop()
        .arg("record")
        .arg("-o")
        .arg(file)
        .args(["-p", &pid.to_string()])
        .args(options)
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let stderr = child.stderr.take().expect("piped");
    let (ready, attached) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if line.contains("is traced") || line.contains("waiting for one") {
                let _ = ready.send(());
            }
        }
    });
    attached
        .recv_timeout(Duration::from_secs(30))
        .expect("attached within 30 s");
    child
}

fn finish(mut child: Child) {
    // Single uprobes take 0.1 s each, and more where other tests take theirs off, too.
    let until = Instant::now() + Duration::from_mins(2);
    loop {
        if let Some(status) = child.try_wait().expect("waited") {
            assert!(status.success(), "{status}");
            return;
        }
        assert!(Instant::now() < until, "the recorder does not end");
        thread::sleep(Duration::from_millis(20));
    }
}

fn attached_run(options: &[&str], mode: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    let waiting = Waiting::start(
        "call",
        "mix",
        &["--threads", "4", "--iterations", "30", "--layer", "both"],
    );
    let neighbour = Waiting::start("call", "mix", &["--threads", "2", "--iterations", "30"]);
    let recorder = recorder(waiting.pid, &file, options);
    let pid = waiting.pid;
    let truth = waiting.go();
    neighbour.go();
    // The only target is gone: the recorder ends by itself.
    finish(recorder);
    let report = report(&file);
    assert_same_calls(&report, &truth);
    assert_eq!(assert_accounts(&report).1, 0);
    let (events, ended) = events(&file);
    assert!(ended);
    assert!(
        events
            .iter()
            .filter(|event| event.api.is_some())
            .all(|event| event.pid == pid)
    );
    let facts = facts(&events);
    let settings = facts.iter().find_map(|(_, fact)| match fact {
        Fact::Settings(settings) => Some(settings.attach.clone()),
        _ => None,
    });
    assert_eq!(settings.as_deref(), Some(mode));
    // It was there before us: the recording says so.
    assert!(facts.iter().any(|(of, fact)| {
        *of == pid && matches!(fact, Fact::Process(process) if !process.from_start)
    }));
}

#[test]
fn running_process_scoped() {
    attached_run(&["--attach", "scoped"], "scoped");
}

#[test]
fn running_process_shared() {
    attached_run(&["--attach", "shared"], "shared");
}

#[test]
fn running_process_single() {
    attached_run(&["--attach", "single"], "single");
}

#[test]
fn running_process_takes_the_best_mode() {
    attached_run(&[], "scoped");
}

#[test]
fn commands_in_each_exact_mode() {
    for mode in ["shared", "single"] {
        let run = record(
            &["--attach", mode],
            "mix",
            &["--forks", "2", "--iterations", "20"],
        );
        let report = report(&run.file);
        assert_same_calls(&report, &run.truth);
        assert_eq!(assert_accounts(&report).1, 0);
    }
}

#[test]
fn libraries_that_come_after_the_tracer() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    let mut waiting = Waiting::start(
        "load,call",
        "mix",
        &["--iterations", "30", "--layer", "both"],
    );
    let pid = waiting.pid;
    let recorder = recorder(pid, &file, &[]);
    // It loads its libraries now, stops again, and is then traced.
    waiting.step();
    thread::sleep(Duration::from_millis(500));
    let truth = waiting.go();
    finish(recorder);
    assert_same_calls(&report(&file), &truth);
    let (events, _) = events(&file);
    assert!(
        facts(&events)
            .iter()
            .any(|(of, fact)| *of == pid && matches!(fact, Fact::Gap(_))),
        "what may have been missed is a gap"
    );
}

#[test]
fn interrupt_ends_a_recording_well() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("run.arrows");
        let waiting = Waiting::start("exit", "mix", &["--iterations", "5"]);
        let child = recorder(waiting.pid, &file, &[]);
        kill(
            Pid::from_raw(i32::try_from(child.id()).expect("a pid")),
            signal,
        )
        .expect("sent");
        finish(child);
        assert!(events(&file).1);
        waiting.go();
    }
}

#[test]
fn tracing_leaves_a_process_as_it_was() {
    let waiting = Waiting::start("call", "mix", &["--iterations", "500", "--layer", "both"]);
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..5 {
        let file = folder.path().join(format!("{round}.arrows"));
        let child = recorder(waiting.pid, &file, &[]);
        kill(
            Pid::from_raw(i32::try_from(child.id()).expect("a pid")),
            Signal::SIGTERM,
        )
        .expect("sent");
        finish(child);
    }
    let uprobes = std::fs::read_to_string(format!("/proc/{}/maps", waiting.pid))
        .expect("maps")
        .lines()
        .filter(|line| line.ends_with("[uprobes]"))
        .count();
    assert!(uprobes <= 1, "the kernel keeps one page at most");
    waiting.go();
}

#[test]
fn a_process_that_is_not_there() {
    let output = cudasnoop()
        .args(["record", "-o", "/dev/null", "-p", "4194303"])
        .output()
        .expect("started");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("no process 4194303"), "{text}");
}

#[test]
fn capabilities_that_are_missing_are_named() {
    let output = Command::new("setpriv")
        .args([
            "--bounding-set=-bpf,-perfmon,-sys_admin",
            "--inh-caps=-all",
            "--",
        ])
        .arg(dist().join("cudasnoop"))
        .args(["record", "-o", "/dev/null", "--", "/bin/true"])
        .output()
        .expect("setpriv is part of util-linux");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("CAP_BPF") && text.contains("CAP_PERFMON"),
        "{text}"
    );
    assert!(
        text.contains("capabilities: {add: [BPF, PERFMON]}"),
        "{text}"
    );
}

#[test]
fn three_capabilities_are_enough() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    let waiting = Waiting::start("call", "mix", &["--iterations", "20", "--layer", "both"]);
    let mut child = Command::new("setpriv")
        .args(["--bounding-set=-all,+bpf,+perfmon,+sys_ptrace", "--"])
        .arg(dist().join("cudasnoop"))
        .args(["record", "-o"])
        .arg(&file)
        .args(["-p", &waiting.pid.to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let ready = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("is traced")));
    assert!(ready.is_some());
    let drained = thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    let truth = waiting.go();
    finish(child);
    drained.join().expect("read");
    assert_same_calls(&report(&file), &truth);
}

/// `cudasnoop` where the kernel does not show its type information.
fn without_types() -> Command {
    let mut command = Command::new("unshare");
    let hide = "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"";
    command.args(["--mount", "sh", "-c", hide, "sh"]);
    command.arg(dist().join("cudasnoop"));
    command
}

/// Forks cannot be followed: of a command nothing would be seen.
#[test]
fn without_type_information_processes_are_traced_and_commands_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("refused.arrows");
    let refused = without_types()
        .args(["record", "-o"])
        .arg(&file)
        .args(["--", "true"])
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("forks cannot be followed"), "{said}");

    let waiting = Waiting::start("call", "mix", &["--threads", "4", "--layer", "both"]);
    let pid = waiting.pid.to_string();
    let recorder = Recorder::by(without_types(), folder.path(), ["-p", &pid]);
    recorder.says(&["is traced"]);
    let truth = waiting.go();
    let report = report(&recorder.finish());
    assert_same_calls(&report, &truth);
    assert_accounts(&report);
}
