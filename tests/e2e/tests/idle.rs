//! Where many processes have probes, those that do not use CUDA have none, until they do.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
};

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
    say_idle(&recorder, idle.iter().map(|process| process.pid));
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
    assert_seen_from_its_first_call(recorder, woken, "it was idle, and began to use CUDA");
    for process in first {
        process.go();
    }
}

/// A driver that comes late is watched by nobody yet: probes come back when it is mapped.
#[test]
fn probes_come_back_with_a_driver_that_nobody_watches() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("idle-runtime");
    fs::copy(workload("mix"), &program).expect("copied");
    let options = ["--exe", "idle-runtime", "--idle-after", "1s"];
    let recorder = Recorder::start(folder.path(), options);
    recorder.says(&["waiting for more"]);
    let mut idle: Vec<Waiting> = (0..FIRST)
        .map(|_| waiting(&program, &["--threads", "3"]))
        .collect();
    for process in &mut idle {
        process.step();
    }
    say_idle(&recorder, idle.iter().map(|process| process.pid));
    let woken = idle.pop().expect("one of them");
    assert_seen_from_its_first_call(
        recorder,
        woken,
        "libcuda.so.1 was mapped before it had probes",
    );
}

/// CUDA does not survive a fork: what a parent has called, its children have not.
#[test]
fn children_of_a_process_that_uses_cuda_are_idle() {
    let script = r"
import ctypes, os, signal, sys
for library in sys.argv[1:]:
    cuda = ctypes.CDLL(library)
print(cuda.cuInit(0), flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        signal.pause()
    print(child, flush=True)
os.killpg(0, signal.SIGKILL)
";
    let folder = tempfile::tempdir().expect("a folder");
    let libraries =
        ["libcudart.so.12", "libcuda.so.1"].map(|name| dist().join("fake-cuda").join(name));
    let mut parent = Command::new("python3")
        .args(["-c", script])
        .args(&libraries)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(parent.stdout.take().expect("piped")).lines();
    let mut line = || lines.next().expect("a line").expect("read");
    assert_eq!(line(), "0", "cuInit");
    let pid = parent.id().to_string();
    let recorder = Recorder::start(folder.path(), ["-p", &pid, "--idle-after", "1s"]);
    recorder.says(&["tracing", "libcuda.so.1"]);
    let mut stdin = parent.stdin.take().expect("piped");
    let children: Vec<u32> = (0..FIRST + IDLE)
        .map(|_| {
            writeln!(stdin).expect("written");
            let child = line().parse().expect("a process id");
            recorder.says(&[&format!(
                "process {child}: probes on {}",
                libraries[1].display()
            )]);
            child
        })
        .collect();
    // Those that came before the watch on the driver may have called it.
    say_idle(&recorder, children[FIRST..].iter().copied());
    recorder.interrupt();
    drop(stdin);
    parent.wait().expect("waited");
}

fn say_idle(recorder: &Recorder, pids: impl Iterator<Item = u32>) {
    let said: Vec<String> = pids
        .map(|pid| format!("process {pid} does not use CUDA"))
        .collect();
    recorder.says(&said.iter().map(String::as_str).collect::<Vec<_>>());
}

/// All is seen but the call that begins it, on each thread: it was under way when its probe came; and
/// a gap says why that may be.
fn assert_seen_from_its_first_call(recorder: Recorder, process: Waiting, why: &str) {
    let pid = process.pid;
    let mut truth = process.go();
    let calls = truth["calls"].as_object_mut().expect("calls");
    assert_eq!(calls.remove("cudaSetDevice"), Some(3.into()));
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
    let gaps: Vec<String> = facts(&events)
        .into_iter()
        .filter_map(|(_, fact)| match fact {
            Fact::Gap(gap) if gap.pid == pid && gap.duration.is_some() => Some(gap.reason),
            _ => None,
        })
        .collect();
    assert!(gaps.iter().any(|gap| gap.contains(why)), "{gaps:?}");
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
