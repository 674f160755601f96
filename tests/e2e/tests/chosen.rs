//! Processes that are chosen by what they are, running already or to come.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    iter,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use e2e::{
    Recorder, Waiting, assert_accounts, assert_same_calls, cudasnoop, dist, events, facts, workload,
};
use nix::sys::signal::Signal;
use serde_json::Value;
use trace::{Fact, fact};

/// A workload under a name that no other test's has.
fn renamed(folder: &Path, name: &str, to: &str) -> PathBuf {
    let path = folder.join(to);
    fs::copy(workload(name), &path).expect("copied");
    path
}

fn on_fake_cuda(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", dist().join("fake-cuda"));
    command
}

/// A command that waits before it loads CUDA and before it calls it.
fn twice(program: &Path, arguments: &[&str]) -> Waiting {
    let mut command = on_fake_cuda(program);
    Waiting::of(
        command
            .args(["--wait", "load", "--wait", "call"])
            .args(arguments),
    )
}

fn probes(pid: u32) -> [String; 2] {
    ["libcudart.so.12", "libcuda.so.1"].map(|library| {
        let path = dist().join("fake-cuda").join(library);
        format!("process {pid}: probes on {}", path.display())
    })
}

/// Waits until a process's libraries have their probes.
fn attached(recorder: &Recorder, pid: u32) {
    let [runtime, driver] = probes(pid);
    recorder.says(&[&runtime, &driver]);
}

fn report_of(file: &Path, pid: u32) -> Value {
    let mut command = cudasnoop();
    command.arg("report").arg(file).args(["--json", "--pid"]);
    let output = e2e::succeed(command.arg(pid.to_string()));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn process_facts(file: &Path) -> Vec<fact::Process> {
    let (events, _) = events(file);
    let processes = facts(&events).into_iter();
    processes
        .filter_map(|(_, fact)| match fact {
            Fact::Process(process) => Some(process),
            _ => None,
        })
        .collect()
}

const WORK: [&str; 6] = ["--threads", "4", "--iterations", "20", "--layer", "both"];

#[test]
fn by_executable_running_and_to_come() {
    let folder = tempfile::tempdir().expect("a folder");
    let chosen = renamed(folder.path(), "mix", "chosen-by-name");
    let other = renamed(folder.path(), "mix", "not-by-name");
    let running = twice(&chosen, &WORK);
    let neighbour = twice(&other, &WORK);
    let recorder = Recorder::start(folder.path(), ["--exe", "chosen-by-n?me"]);
    recorder.says(&[
        "waiting for more",
        &format!("process {} is watched", running.pid),
    ]);
    let to_come = twice(&chosen, &WORK);
    recorder.says(&[&format!("process {} is watched", to_come.pid)]);
    let pids = [running.pid, to_come.pid];
    let mut waiting = [running, to_come];
    let mut neighbour = neighbour;
    neighbour.step();
    for process in &mut waiting {
        process.step();
        attached(&recorder, process.pid);
    }
    let truths = waiting.map(Waiting::go);
    neighbour.go();
    let file = recorder.interrupt();
    for (pid, truth) in pids.into_iter().zip(&truths) {
        assert_same_calls(&report_of(&file, pid), truth);
    }
    assert_eq!(assert_accounts(&e2e::report(&file)).1, 0);
    let (events, ended) = events(&file);
    assert!(ended);
    let strangers = events
        .iter()
        .filter(|event| event.api.is_some() && !pids.contains(&event.pid));
    assert_eq!(strangers.count(), 0);
    // Neither had called CUDA when it was first seen, but one ran already.
    let from_start: Vec<_> = process_facts(&file)
        .into_iter()
        .map(|process| (process.pid, process.from_start))
        .collect();
    assert_eq!(from_start, [(pids[0], false), (pids[1], true)]);
}

/// Children are traced from their start as their parent was: what they may have called before they
/// had probes is a gap.
#[test]
fn children_of_a_chosen_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let shell = folder.path().join("chosen-with-children");
    fs::copy("/bin/sh", &shell).expect("copied");
    let recorder = Recorder::start(folder.path(), ["--exe", "chosen-with-children"]);
    recorder.says(&["waiting for more"]);
    // Two children that are shells, and one of each that is another program.
    let script = "(sleep 1; true) & (sleep 1; true) & wait";
    e2e::succeed(Command::new(&shell).args(["-c", script]));
    let processes = process_facts(&recorder.interrupt());
    let pids: BTreeSet<u32> = processes.iter().map(|process| process.pid).collect();
    assert_eq!(pids.len(), 5, "{processes:?}");
    assert!(
        processes.iter().all(|process| process.from_start),
        "{processes:?}"
    );
}

/// What an executable loaded once, its next process has probes on before it maps it.
#[test]
fn the_second_process_of_an_executable_is_expected_to_load_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let chosen = renamed(folder.path(), "mix", "expected-to-load");
    let recorder = Recorder::start(folder.path(), ["--exe", "expected-to-load"]);
    recorder.says(&["waiting for more"]);
    let mut first = twice(&chosen, &WORK);
    recorder.says(&[&format!("process {} is watched", first.pid)]);
    first.step();
    attached(&recorder, first.pid);
    first.go();
    let second = twice(&chosen, &WORK);
    // It waits before it loads a thing.
    attached(&recorder, second.pid);
    let pid = second.pid;
    let mut second = second;
    second.step();
    let truth = second.go();
    let file = recorder.interrupt();
    assert_same_calls(&report_of(&file, pid), &truth);
    let (events, _) = events(&file);
    let gaps = facts(&events)
        .into_iter()
        .filter(|(of, fact)| *of == pid && matches!(fact, Fact::Gap(_)));
    assert_eq!(gaps.count(), 0);
}

/// The cgroup of this test, as any process's is shown: the recorder lies in it, too, and its own
/// calls would be none.
#[test]
fn by_cgroup() {
    let folder = tempfile::tempdir().expect("a folder");
    let cgroups = fs::read_to_string("/proc/self/cgroup").expect("read");
    let path = cgroups
        .lines()
        .last()
        .and_then(|line| line.splitn(3, ':').nth(2));
    let chosen = renamed(folder.path(), "mix", "chosen-by-cgroup");
    let mut process = twice(&chosen, &WORK);
    let options = ["--exe", "chosen-by-cgroup", "--cgroup"];
    let recorder = Recorder::start(folder.path(), options.into_iter().chain(path));
    recorder.says(&[&format!("process {} is watched", process.pid)]);
    process.step();
    attached(&recorder, process.pid);
    let pid = process.pid;
    let truth = process.go();
    let file = recorder.interrupt();
    assert_same_calls(&report_of(&file, pid), &truth);

    let elsewhere = Recorder::start(
        folder.path(),
        [
            "--exe",
            "chosen-by-cgroup",
            "--cgroup",
            "/no/such/cgroup",
            "--duration",
            "1s",
        ],
    );
    twice_to_the_end(&chosen);
    let file = elsewhere.finish();
    assert_eq!(process_facts(&file), []);
}

fn twice_to_the_end(program: &Path) {
    let mut process = twice(program, &WORK);
    process.step();
    process.go();
}

/// Switched off, not a probe is left; switched on, calls are seen again. Nothing is counted in
/// between, and what is counted adds up.
#[test]
fn a_signal_switches_all_probes_off_and_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let chosen = renamed(folder.path(), "mix", "switched-off-and-on");
    let recorder = Recorder::start(folder.path(), ["--exe", "switched-off-and-on"]);
    recorder.says(&["waiting for more"]);
    let mut processes: Vec<_> = iter::repeat_with(|| twice(&chosen, &WORK))
        .take(3)
        .collect();
    for process in &processes {
        recorder.says(&[&format!("process {} is watched", process.pid)]);
    }
    for process in &mut processes {
        process.step();
        attached(&recorder, process.pid);
    }
    let links = |recorder: &Recorder| {
        let files = recorder.open_files().into_iter();
        files.filter(|file| file.contains("bpf_link")).count()
    };
    let mut processes = processes.into_iter();
    let mut next = || processes.next().expect("one more");
    let (before, during, after) = (next(), next(), next());
    let pids = [before.pid, during.pid, after.pid];
    let truth_before = before.go();
    recorder.signal(Signal::SIGUSR1);
    recorder.says(&["all probes are off"]);
    // Fork, exec and exit are followed all the time. Links of the process that has just ended may
    // still be on their way out.
    for _ in 0..100 {
        if links(&recorder) == 3 {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(links(&recorder), 3);
    during.go();
    recorder.signal(Signal::SIGUSR1);
    recorder.says(&["all probes are on"]);
    assert!(links(&recorder) > 3);
    let truth_after = after.go();
    let file = recorder.interrupt();
    assert_same_calls(&report_of(&file, pids[0]), &truth_before);
    assert_same_calls(&report_of(&file, pids[2]), &truth_after);
    assert_eq!(assert_accounts(&e2e::report(&file)).1, 0);
    let (events, _) = events(&file);
    let of_the_silenced = events
        .iter()
        .filter(|event| event.api.is_some() && event.pid == pids[1]);
    assert_eq!(of_the_silenced.count(), 0);
    assert!(facts(&events).iter().any(|(pid, fact)| {
        *pid == pids[2] && matches!(fact, Fact::Gap(gap) if gap.reason.contains("switched off"))
    }));
}

/// A copy of the Python interpreter, which is chosen by its name; and what its PYTHONHOME is.
fn python_of_its_own(folder: &Path, name: &str) -> (PathBuf, String) {
    let copy = folder.join(name);
    let python = env::var("CUDASNOOP_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let where_it_is = "import sys; print(sys.base_prefix, sys._base_executable, sep='\\n')";
    let told = e2e::succeed(Command::new(python).args(["-c", where_it_is]));
    let told = String::from_utf8(told.stdout).expect("paths");
    let (prefix, executable) = told.trim().split_once('\n').expect("two lines");
    let real = fs::canonicalize(executable).expect("found");
    fs::copy(real, &copy).expect("copied");
    (copy, prefix.to_owned())
}

/// As a container's first process before it runs the container's program: its files are the host's, its
/// root is the container's.
#[test]
fn a_process_whose_files_are_all_elsewhere_raises_no_alarm() {
    let folder = tempfile::tempdir().expect("a folder");
    let (python, prefix) = python_of_its_own(folder.path(), "python-elsewhere");
    let script = "import os, sys; os.chroot(sys.argv[1]); print(flush=True); input()";
    let mut child = Command::new(python)
        .args(["-S", "-c", script])
        .arg(folder.path())
        .env("PYTHONHOME", prefix)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let stdout = child.stdout.as_mut().expect("piped");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("read");
    assert_eq!(line, "\n", "it is there");
    // All capabilities open files that are hidden.
    let output = e2e::succeed(
        Command::new("setpriv")
            .args(["--bounding-set=-all,+bpf,+perfmon,+sys_ptrace", "--"])
            .arg(dist().join("cudasnoop"))
            .args(["record", "-o", "/dev/null", "--duration", "1"])
            .args(["--exe", "python-elsewhere"]),
    );
    drop(child.stdin.take());
    child.wait().expect("waited for");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("1 running processes fit"), "{text}");
    assert!(!text.contains("not looked into"), "{text}");
}

/// The leader thread has exited, and others make calls: what is scoped to the process would
/// catch none of them.
#[test]
fn a_process_without_its_leader_thread() {
    let script = r#"
import ctypes, os, sys, threading
cuda = ctypes.CDLL(sys.argv[1])
def work():
    input()
    block = ctypes.c_void_p()
    for _ in range(100):
        cuda.cudaMalloc(ctypes.byref(block), 4096)
        cuda.cudaFree(block)
    os._exit(0)
threading.Thread(target=work).start()
sys.stderr.write("ready\n"); sys.stderr.flush()
ctypes.CDLL(None).pthread_exit(None)
"#;
    let folder = tempfile::tempdir().expect("a folder");
    let (own_python, prefix) = python_of_its_own(folder.path(), "python-without-leader");
    let mut command = on_fake_cuda(&own_python);
    command.args(["-S", "-c", script]);
    command.arg(dist().join("fake-cuda/libcudart.so.12"));
    command
        .env("PYTHONHOME", prefix)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let pid = child.id();
    let exited = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("read");
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'))
    };
    while !exited() {
        assert!(child.try_wait().expect("waited").is_none(), "it ended");
        thread::sleep(Duration::from_millis(5));
    }
    let recorder = Recorder::start(folder.path(), ["--exe", "python-without-leader"]);
    recorder.says(&[&format!("process {pid} is traced")]);
    writeln!(child.stdin.take().expect("piped")).expect("written");
    child.wait().expect("waited");
    let file = recorder.interrupt();
    let report = report_of(&file, pid);
    let calls = |api: &str| {
        let rows = report["calls"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["api"] == api).expect("a row");
        row["calls"].as_u64().expect("a count")
    };
    assert_eq!((calls("cudaMalloc"), calls("cudaFree")), (100, 100));
}

/// Processes come and go: nothing is kept of them.
#[test]
fn many_short_processes_leave_nothing_behind() {
    short_processes(3000);
}

#[test]
#[ignore = "a storm, in which others cannot be tested"]
fn ten_thousand_short_processes_leave_nothing_behind() {
    // They look at each new program, too, which makes the one that is tested late.
    let folders: Vec<_> = (0..4)
        .map(|_| tempfile::tempdir().expect("a folder"))
        .collect();
    let _others: Vec<Recorder> = folders
        .iter()
        .map(|folder| Recorder::start(folder.path(), ["--exe", "short-ones-10000"]))
        .collect();
    short_processes(10_000);
}

/// They get probes at once, on what their executable loaded before, and end before they load it.
#[test]
fn short_processes_that_are_expected_to_load_leave_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let chosen = renamed(folder.path(), "mix", "short-and-expected");
    let recorder = Recorder::start(folder.path(), ["--exe", "short-and-expected"]);
    recorder.says(&["waiting for more"]);
    let settled = || recorder.open_files().len();
    let mut first = twice(&chosen, &WORK);
    recorder.says(&[&format!("process {} is watched", first.pid)]);
    first.step();
    attached(&recorder, first.pid);
    first.go();
    let script = format!("for i in $(seq 200); do {} --help; done", chosen.display());
    let run = || {
        e2e::succeed(Command::new("sh").args(["-c", &script]));
        thread::sleep(Duration::from_secs(1));
    };
    run();
    let begin = settled();
    run();
    for _ in 0..600 {
        if settled() <= begin {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert!(settled() <= begin, "{} and {begin} files", settled());
    recorder.interrupt();
}

fn short_processes(count: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let name = format!("short-ones-{count}");
    let short = folder.path().join(&name);
    fs::copy("/bin/true", &short).expect("copied");
    let recorder = Recorder::start(folder.path(), ["--exe", &name]);
    recorder.says(&["waiting for more"]);
    let settled = || {
        let files = recorder.open_files();
        let links = files
            .iter()
            .filter(|file| file.contains("bpf_link"))
            .count();
        (links, files.len())
    };
    let begin = settled();
    let run = |times: u64| {
        let script = format!("for i in $(seq {times}); do {}; done", short.display());
        e2e::succeed(Command::new("sh").args(["-c", &script]));
    };
    run(1000);
    let memory = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("read");
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS"))
            .expect("a line");
        let kib = line.split_whitespace().nth(1).expect("a number");
        kib.parse::<u64>().expect("a number")
    };
    let before = memory(recorder.pid());
    run(count - 1000);
    for _ in 0..600 {
        if settled() == begin {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(settled(), begin, "links and files are as at the beginning");
    // What was once kept of each process took 3 KiB.
    let grown = memory(recorder.pid()).saturating_sub(before);
    assert!(grown < 2 * (count - 1000), "{grown} KiB");
    let file = recorder.interrupt();
    // On a busy machine, most are over before anybody looks.
    assert!(process_facts(&file).len() > 100);
}

/// A recorder outside of a container's pid namespace, or in one around it, has ids and names of
/// its own for what runs there.
#[test]
fn pid_namespaces_inside_ours() {
    for around in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let name = format!("namespaced-{around}");
        let chosen = renamed(folder.path(), "mix", &name);
        let (fifo, mut steps) = fifo(folder.path());
        let recorder = if around {
            // In a namespace of its own, in which it starts the target.
            let mut command = Command::new("unshare");
            command.args([
                "--pid",
                "--fork",
                "--mount-proc",
                "--kill-child",
                "sh",
                "-c",
            ]);
            command.arg(format!(
                "unshare --pid --fork {} --threads 4 --iterations 20 --layer both --wait load,call \
                 < {} > {} 2> {} & exec {} \"$@\"",
                chosen.display(),
                fifo.display(),
                folder.path().join("truth").display(),
                folder.path().join("steps").display(),
                dist().join("cudasnoop").display(),
            ));
            command
                .arg("sh")
                .env("LD_LIBRARY_PATH", dist().join("fake-cuda"));
            Recorder::by(
                command,
                folder.path(),
                ["--exe", name.as_str(), "--duration", "8s"],
            )
        } else {
            Recorder::start(folder.path(), ["--exe", name.as_str()])
        };
        let truth = if around {
            recorder.says(&["is watched"]);
            writeln!(steps).expect("written");
            recorder.says(&["libcudart.so.12", "libcuda.so.1"]);
            writeln!(steps).expect("written");
            drop(steps);
            None
        } else {
            recorder.says(&["waiting for more"]);
            let mut command = Command::new("unshare");
            command.args(["--pid", "--fork"]).arg(&chosen);
            command.args(["--threads", "4", "--iterations", "20", "--layer", "both"]);
            command.args(["--wait", "load,call"]);
            command.env("LD_LIBRARY_PATH", dist().join("fake-cuda"));
            let mut process = Waiting::of(&mut command);
            recorder.says(&["is watched"]);
            process.step();
            recorder.says(&["libcudart.so.12", "libcuda.so.1"]);
            Some(process.go())
        };
        let file = if around {
            recorder.finish()
        } else {
            recorder.interrupt()
        };
        let truth = truth.unwrap_or_else(|| {
            let text = fs::read(folder.path().join("truth")).expect("read");
            e2e::last_json(&text)
        });
        let told: Vec<_> = process_facts(&file);
        let [process] = told.as_slice() else {
            panic!("{told:?}");
        };
        assert_eq!(process.namespace_pid, 1);
        assert_ne!(process.pid, 1);
        assert!(process.exe.ends_with(&name));
        assert_same_calls(&report_of(&file, process.pid), &truth);
        let (events, _) = events(&file);
        let foreign = agent_common::flags::FOREIGN_PID;
        assert!(events.iter().all(|event| event.flags & foreign == 0));
    }
}

/// A pipe with a name, open at both ends so that nobody waits for the other.
fn fifo(folder: &Path) -> (PathBuf, fs::File) {
    let path = folder.join("steps-to-take");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("made");
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .expect("opened");
    (path, file)
}
