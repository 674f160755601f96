//! Rolling recordings: any segment tells all, the budget holds, and neither a killed recorder nor
//! a full or a missing disk makes a later segment wrong.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use e2e::{
    assert_accounts, cudasnoop, events, facts, last_json, report, succeed, truth_calls,
    workload_command,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use trace::{Event, Fact, Kind, fact};

const MIB: u64 = 1 << 20;
/// Longest wait for what must come.
const PATIENCE: Duration = Duration::from_mins(2);

/// A recorder, and what it says.
struct Recorder {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Recorder {
    /// Traces a process into `folder`; returns once it does.
    fn start(folder: &Path, disk: &str, pids: &[u32]) -> Self {
        let mut command = cudasnoop();
        command.arg("record").arg("--rolling").arg(folder);
        command.args(["--disk", disk]);
        Self::by(command, pids)
    }

    /// By a command that lacks the processes alone.
    fn by(mut command: Command, pids: &[u32]) -> Self {
        command.stderr(Stdio::piped());
        for pid in pids {
            command.args(["-p", &pid.to_string()]);
        }
        let mut child = command.spawn().expect("started");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stderr.lines() {
                let _ = sender.send(line.expect("read"));
            }
        });
        let mut recorder = Self {
            child,
            lines,
            said: Vec::new(),
        };
        for pid in pids {
            recorder.wait_for(&format!("process {pid} "));
        }
        recorder
    }

    fn wait_for(&mut self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.said.iter().any(|line| line.contains(words)) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("`{words}` was not said: {:#?}", self.said);
            };
            self.said.push(line);
        }
    }

    fn signal(&self, signal: Signal) {
        kill(pid_of(&self.child), signal).expect("it runs");
    }

    /// Waits for the end; all that it said.
    fn end(mut self) -> String {
        let status = self.child.wait().expect("waited for");
        self.said.extend(self.lines.iter());
        let said = self.said.join("\n");
        assert!(status.success(), "{status}: {said}");
        said
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a process id"))
}

/// A workload that waits where it is told to.
struct Waiting {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Waiting {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let mut child = workload_command(name)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        Self { child, lines }
    }

    fn wait_for(&mut self, step: &str) {
        let line = self.lines.next().expect("a line").expect("read");
        assert!(line.starts_with(&format!("ready {step}")), "{line}");
    }

    fn go_on(&mut self) {
        let stdin = self.child.stdin.as_mut().expect("piped");
        stdin.write_all(b"\n").expect("it listens");
    }

    fn truth(self) -> Value {
        let output = self.child.wait_with_output().expect("waited for");
        assert!(output.status.success());
        last_json(&output.stdout)
    }
}

/// The segments, oldest first, the one being written among them.
fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().contains("cudasnoop-"))
        .collect();
    paths.sort();
    paths
}

/// Bytes of the segments that are there; one may go while it is looked at.
fn bytes_in(folder: &Path) -> u64 {
    let sizes = segments(folder).into_iter();
    sizes
        .map(|path| path.metadata().map_or(0, |file| file.len()))
        .sum()
}

fn memory(file: &Path) -> Value {
    let output = succeed(cudasnoop().args(["memory", "--json"]).arg(file));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn place(events: &[Event]) -> fact::Segment {
    match facts(events).into_iter().next() {
        Some((_, Fact::Segment(segment))) => segment,
        other => panic!("a segment does not begin with {other:?}"),
    }
}

/// Rows between what a segment begins and what it ends with: the events of the session.
fn session_events(events: &[Event]) -> u64 {
    let parsed = |event: &Event| Fact::parse(event.text.as_deref()?);
    let is_end = |part: &Value| part["part"] == "end";
    let header = events
        .iter()
        .position(|event| matches!(parsed(event), Some(Fact::Checkpoint { part }) if is_end(&part)))
        .expect("a whole checkpoint");
    let is_closing = |event: &&Event| {
        matches!(
            parsed(event),
            Some(Fact::Account(_) | Fact::RecursionMisses { .. } | Fact::End)
        )
    };
    let closing = events[header..].iter().filter(is_closing).count();
    (events.len() - header - 1 - closing) as u64
}

/// Events that the segments say were not written.
fn unwritten(events: &[Event]) -> Vec<(String, u64)> {
    let told = facts(events)
        .into_iter()
        .filter_map(|(_, fact)| match fact {
            Fact::Unwritten(fact::Unwritten { events, cause }) => Some((cause, events)),
            _ => None,
        });
    told.collect()
}

/// Panics unless each event between two segments is in one of them, or told as not written.
fn assert_nothing_is_lost_quietly(folder: &Path) -> Vec<(String, u64)> {
    let mut all_unwritten = Vec::new();
    let mut before: Option<(fact::Segment, u64)> = None;
    for path in segments(folder) {
        let (events, _) = events(&path);
        let (segment, lost) = (place(&events), unwritten(&events));
        if let Some((previous, written)) = before {
            let lost: u64 = lost.iter().map(|(_, events)| events).sum();
            assert_eq!(
                segment.events_before - previous.events_before,
                written + lost,
                "between segments {} and {}",
                previous.number,
                segment.number
            );
        }
        all_unwritten.extend(lost);
        before = Some((segment, session_events(&events)));
    }
    all_unwritten
}

#[test]
fn any_later_segment_tells_all() {
    a_hundred_segments(4 * MIB, "140000");
}

/// The same at the size of a small volume: some 70 million calls.
#[test]
#[ignore = "takes minutes"]
fn any_later_segment_of_a_volume_tells_all() {
    a_hundred_segments(50_000_000, "1750000");
}

fn a_hundred_segments(budget: u64, iterations: &str) {
    const LEAK: u64 = 16;
    let folder = tempfile::tempdir().expect("a folder");
    let mut mix = Waiting::start(
        "mix",
        &["--iterations", iterations, "--leak", "16", "--wait", "call"],
    );
    mix.wait_for("call");
    let pid = mix.child.id();
    let recorder = Recorder::start(folder.path(), &budget.to_string(), &[pid]);
    mix.go_on();
    let mut most = 0;
    while mix.child.try_wait().expect("ours").is_none() {
        most = most.max(bytes_in(folder.path()));
        thread::sleep(Duration::from_millis(2));
    }
    let truth = mix.truth();
    let said = recorder.end();
    assert!(
        most <= budget && bytes_in(folder.path()) <= budget,
        "{most}"
    );
    assert!(most > budget / 2, "the budget is made use of: {most}");

    let all = segments(folder.path());
    let (last, _) = events(all.last().expect("a segment"));
    let number = place(&last).number;
    assert!(number >= 100, "{number} segments: {said}");
    for path in &all {
        let (events, ended) = events(path);
        assert!(ended, "{}", path.display());
        // The workload's one thread holds what it leaks, and the block that it allocated last,
        // if it has not begun to free it.
        let row = events.iter().rev().find(|event| {
            let api = event.api.and_then(agent_common::ApiId::api);
            api.is_some_and(|api| api.name == "cudaMalloc" || api.name == "cudaFree")
        });
        let row = row.expect("an allocation");
        let name = row
            .api
            .and_then(agent_common::ApiId::api)
            .map(|api| api.name);
        let block = match (name, row.kind) {
            (Some("cudaMalloc"), Kind::Call) => row.size.expect("a size").unsigned_abs(),
            _ => 0,
        };
        let memory = memory(path);
        assert_eq!(memory["recording"]["damaged_checkpoints"], 0);
        let process = &memory["processes"][0];
        let device = &process["devices"][0];
        assert_eq!(process["pid"], pid);
        assert_eq!(
            device["live_bytes"],
            LEAK * MIB + block,
            "{}",
            path.display()
        );
        assert_eq!(device["peak_bytes"], LEAK * MIB + 20 * MIB);
        let holders = device["holders"].as_array().expect("holders");
        assert!(holders.iter().all(|holder| {
            let caller = holder["caller"].as_str();
            caller.is_some_and(|file| file.ends_with("/mix"))
        }));

        let report = report(path);
        assert_eq!(report["recording"]["complete"], true);
        assert_eq!(
            report["recording"]["segment"]["number"],
            place(&events).number
        );
        assert_accounts_of_a_segment(&report);
        let kernels = report["kernels"].as_array().expect("kernels");
        assert!(!kernels.is_empty());
        for kernel in kernels {
            assert!(kernel["name"].is_string(), "{kernel}");
        }
    }
    assert!(assert_nothing_is_lost_quietly(folder.path()).is_empty());
    // The last one has what any recording ends with.
    let newest = all.last().expect("a segment");
    let process = &memory(newest)["processes"][0];
    assert_eq!(process["end"], "exit");
    assert_eq!(process["ended"]["implicit"]["bytes"], truth["live_bytes"]);
}

fn assert_accounts_of_a_segment(report: &Value) {
    let accounts = report["accounts"].as_array().expect("accounts");
    assert!(!accounts.is_empty());
    for account in accounts {
        assert_eq!(account["balanced"], true, "{account}");
    }
}

#[test]
fn all_calls_of_a_command_are_in_some_segment() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = succeed(
        cudasnoop()
            .arg("record")
            .arg("--rolling")
            .arg(folder.path())
            .args(["--disk", "256MiB", "--"])
            .arg(e2e::workload("mix"))
            .args(["--threads", "3", "--iterations", "2000", "--forks", "2"]),
    );
    let truth = last_json(&output.stdout);
    let all = segments(folder.path());
    let mut launches = 0;
    let mut made = 0;
    for path in &all {
        let report = report(path);
        let of = |list: &str, key: &str| {
            let rows = report[list].as_array().expect("rows").iter();
            rows.filter(|row| row["api"] == "cudaLaunchKernel")
                .map(|row| row[key].as_u64().expect("a count"))
                .sum::<u64>()
        };
        launches += of("calls", "calls");
        made += of("accounts", "made");
        assert_accounts_of_a_segment(&report);
    }
    assert_eq!(truth_calls(&truth)["cudaLaunchKernel"], launches);
    assert_eq!(made, launches);
    // One that is not turned is an account as any.
    if all.len() == 1 {
        assert_accounts(&report(&all[0]));
    }
}

#[test]
fn a_killed_recorder_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["--iterations", "200", "--leak", "16", "--wait", "call,exit"];
    let mut stays = Waiting::start("mix", &arguments);
    let mut goes = Waiting::start("mix", &arguments);
    stays.wait_for("call");
    goes.wait_for("call");
    let (pid, gone) = (stays.child.id(), goes.child.id());
    let mut recorder = Recorder::start(folder.path(), "64MiB", &[pid, gone]);
    for workload in [&mut stays, &mut goes] {
        workload.go_on();
        workload.wait_for("exit");
    }
    // Both have made all their calls; the last of them wait for a batch.
    let open = segments(folder.path()).pop().expect("a segment");
    let deadline = Instant::now() + PATIENCE;
    while live_bytes(&open, pid) != Some(16 * MIB) || live_bytes(&open, gone) != Some(16 * MIB) {
        assert!(Instant::now() < deadline, "{}", memory(&open));
        thread::sleep(Duration::from_millis(200));
    }
    recorder.signal(Signal::SIGKILL);
    recorder.child.wait().expect("waited for");
    goes.go_on();
    goes.truth();

    let recorder = Recorder::start(folder.path(), "64MiB", &[pid]);
    let open = segments(folder.path()).pop().expect("a segment");
    assert_eq!(
        live_bytes(&open, pid),
        Some(16 * MIB),
        "from its beginning on"
    );
    stays.go_on();
    let truth = stays.truth();
    recorder.end();
    let all = segments(folder.path());
    assert_eq!(all.len(), 2);
    let (events, ended) = events(&all[1]);
    assert!(ended);
    assert_eq!(place(&events).number, 2);
    let memory = memory(&all[1]);
    let of = |pid: u32| {
        let processes = memory["processes"].as_array().expect("processes");
        let found = processes.iter().find(|process| process["pid"] == pid);
        found.expect("known").clone()
    };
    let (stays, goes) = (of(pid), of(gone));
    assert_eq!(stays["end"], "exit");
    assert_eq!(stays["ended"]["implicit"]["bytes"], truth["live_bytes"]);
    assert_eq!(goes["end"], "unseen");
    assert_eq!(goes["devices"][0]["live_bytes"], 16 * MIB);
    let holder = &stays["devices"][0]["holders"][0];
    let caller = holder["caller"].as_str();
    assert!(
        caller.is_some_and(|file| file.ends_with("/mix")),
        "{holder}"
    );
    let away = facts(&events)
        .into_iter()
        .filter_map(|(_, fact)| match fact {
            Fact::Gap(gap) if gap.reason.contains("recorder") => Some(gap),
            _ => None,
        });
    let away: Vec<fact::Gap> = away.collect();
    assert_eq!(away.len(), 1, "{away:?}");
    assert_eq!(away[0].pid, pid);
    assert!(away[0].duration.is_some_and(|ns| ns > 0));
}

fn live_bytes(file: &Path, pid: u32) -> Option<u64> {
    let memory = memory(file);
    let processes = memory["processes"].as_array()?;
    let process = processes.iter().find(|process| process["pid"] == pid)?;
    process["devices"][0]["live_bytes"].as_u64()
}

/// A file system that is there until the end of the test.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(at: &Path, options: &str) -> Self {
        succeed(
            Command::new("mount")
                .args(["-t", "tmpfs", "-o", options, "tmpfs"])
                .arg(at),
        );
        Self(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        succeed(Command::new("umount").arg("-l").arg(&self.0));
    }
}

/// Launches and allocates, evenly, until it is ended.
fn storm() -> Child {
    let storm = workload_command("storm")
        .args(["--kind", "malloc", "--rate", "20000", "--calls", "2000"])
        .args(["--seconds", "600"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    storm.expect("started")
}

#[test]
fn a_full_disk_is_told_and_survived() {
    let folder = tempfile::tempdir().expect("a folder");
    let _disk = Mounted::tmpfs(folder.path(), "size=3m");
    let mut storm = storm();
    // More than there is: the recorder makes do with what it gets.
    let mut recorder = Recorder::start(folder.path(), "8MiB", &[storm.id()]);
    let filler = folder.path().join("filler");
    let mut file = File::create(&filler).expect("created");
    let deadline = Instant::now() + PATIENCE;
    // It gives up its old segments for new ones; somebody takes that, too.
    while !recorder
        .said
        .iter()
        .any(|line| line.contains("the disk is full"))
    {
        assert!(Instant::now() < deadline, "{:#?}", recorder.said);
        while file.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
        recorder.said.extend(recorder.lines.try_iter());
        thread::sleep(Duration::from_millis(5));
    }
    drop(file);
    fs::remove_file(&filler).expect("removed");
    recorder.wait_for("events are recorded again");
    thread::sleep(Duration::from_secs(2));
    recorder.signal(Signal::SIGINT);
    let said = recorder.end();
    storm.kill().expect("killed");
    storm.wait().expect("waited for");
    assert!(said.contains("events were not written"), "{said}");
    let lost = assert_nothing_is_lost_quietly(folder.path());
    let full: u64 = lost
        .iter()
        .filter(|(cause, _)| cause == "disk_full")
        .map(|(_, events)| events)
        .sum();
    assert!(full > 0, "{lost:?}");
    let newest = segments(folder.path()).pop().expect("a segment");
    let report = report(&newest);
    assert_eq!(report["recording"]["complete"], true);
    assert_accounts_of_a_segment(&report);
    // One block at most, since each is freed at once.
    let live = live_bytes(&newest, storm.id());
    assert!(live.is_none_or(|live| live <= 4096), "{live:?}");
}

#[test]
fn a_folder_that_becomes_read_only_is_told_and_survived() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut storm = storm();
    let mut recorder = Recorder::start(folder.path(), "2MiB", &[storm.id()]);
    // In front of what lies there, which is written to as long as it is open.
    let read_only = Mounted::tmpfs(folder.path(), "ro");
    recorder.wait_for("Read-only file system");
    recorder.wait_for("the disk failed");
    drop(read_only);
    recorder.wait_for("events are recorded again");
    recorder.signal(Signal::SIGINT);
    let said = recorder.end();
    storm.kill().expect("killed");
    storm.wait().expect("waited for");
    let lost = assert_nothing_is_lost_quietly(folder.path());
    assert!(
        lost.iter().any(|(cause, _)| cause == "disk_error"),
        "{said}"
    );
    assert!(bytes_in(folder.path()) <= 2 * MIB);
}

#[test]
fn a_folder_that_cannot_be_written_to_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let _read_only = Mounted::tmpfs(folder.path(), "ro");
    let output = cudasnoop()
        .arg("record")
        .arg("--rolling")
        .arg(folder.path())
        .args(["-p", "1"])
        .output()
        .expect("started");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("Read-only file system"), "{said}");
}

/// What a command of the analyzer prints of a folder, and says on standard error.
fn analysis(command: &str, folder: &Path) -> (Value, String) {
    let output = succeed(cudasnoop().args([command, "--json"]).arg(folder));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (serde_json::from_slice(&output.stdout).expect("JSON"), said)
}

/// `serve` writes, removes and closes segments while they are read, again and again.
#[test]
fn a_folder_is_read_while_serve_writes_to_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut mix = Waiting::start(
        "mix",
        &[
            "--iterations",
            "140000",
            "--leak",
            "16",
            "--wait",
            "call,exit",
        ],
    );
    mix.wait_for("call");
    let pid = mix.child.id();
    let mut command = cudasnoop();
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(["--max-overhead", "off", "--disk", "4MiB", "--rolling"])
        .arg(folder.path());
    let mut recorder = Recorder::by(command, &[pid]);
    mix.go_on();
    let (mut live, mut removed) = (0, 0);
    // The workload waits at its exit: until then there is a recorder with something to write.
    while live < 20 || removed == 0 && live < 80 {
        for command in ["report", "leaks"] {
            let (json, said) = analysis(command, folder.path());
            assert_eq!(json["recording"]["live"], true, "{said}");
            assert_eq!(json["recording"]["truncated"], false, "{said}");
            assert!(said.contains("is being written"), "{said}");
            assert!(!said.contains("warning"), "{said}");
            let findings = json["findings"].as_array().expect("findings").iter();
            let ids: Vec<&str> = findings.filter_map(|found| found["id"].as_str()).collect();
            assert!(ids.contains(&"recording.live"), "{ids:?}");
            assert!(!ids.contains(&"recording.incomplete"), "{ids:?}");
            live += 1;
            removed += said.matches("removed meanwhile").count();
        }
    }
    mix.wait_for("exit");
    recorder.signal(Signal::SIGTERM);
    recorder.child.wait().expect("waited for");
    let (json, said) = analysis("report", folder.path());
    assert_eq!(json["recording"]["live"], false, "{said}");
    assert_eq!(json["recording"]["complete"], true, "{said}");
    assert!(!said.contains("is being written"), "{said}");
    mix.go_on();
    mix.truth();
}
