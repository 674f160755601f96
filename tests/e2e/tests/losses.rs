//! What is lost is counted; what never returned is told; who records too slowly is no burden.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use e2e::{Waiting, assert_accounts, cudasnoop, dist, events, record, report, workload};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use trace::Kind;

#[test]
fn a_ring_that_is_too_small() {
    let run = record(
        &["--ring-size", "4KiB"],
        "storm",
        &["--kind", "launch", "--calls", "200000"],
    );
    let report = report(&run.file);
    let (made, lost) = assert_accounts(&report);
    assert!(lost > 0, "4 KiB cannot hold 200,000 launches");
    assert!(lost < made);
    assert_eq!(report["recording"]["lost"]["ring_full"], lost);
    assert!(
        run.stderr.contains(&format!("{lost} of {made} calls lost")),
        "{}",
        run.stderr
    );
    let launches = report["accounts"]
        .as_array()
        .expect("accounts")
        .iter()
        .find(|account| account["api"] == "cudaLaunchKernel")
        .expect("launches")
        .clone();
    assert_eq!(launches["made"], run.truth["calls"]["cudaLaunchKernel"]);
}

#[test]
fn frees_survive_a_storm_of_launches() {
    let run = record(
        &["--ring-size", "64KiB"],
        "mix",
        &["--threads", "8", "--iterations", "2000"],
    );
    let report = report(&run.file);
    assert_accounts(&report);
    let memory = &report["memory"][0];
    assert_eq!(memory["live_bytes"], run.truth["live_bytes"]);
}

/// A recorder that gets no processor: the program goes on as fast as before.
#[test]
fn a_recorder_that_stands_still() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    // 112 bytes each: of 16 MiB, an eighth is full after 19 rounds, the half that launches may have
    // after 75.
    let storm = ["--layer", "driver", "--calls", "1000", "--rounds", "70"];
    let storm = Waiting::start("call", "storm", &storm);
    let mut recorder = cudasnoop()
        .arg("record")
        .arg("-o")
        .arg(&file)
        .args(["-p", &storm.pid.to_string(), "--ring-size", "16MiB"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let messages = BufReader::new(recorder.stderr.take().expect("piped"));
    let mut messages = messages.lines().map_while(Result::ok);
    assert!(messages.any(|line| line.contains("is traced")));
    let pid = Pid::from_raw(i32::try_from(recorder.id()).expect("a process id"));
    kill(pid, Signal::SIGSTOP).expect("told");
    let truth = storm.go();
    kill(pid, Signal::SIGCONT).expect("told");
    messages.for_each(drop);
    assert!(recorder.wait().expect("ended").success());
    let (_, lost) = assert_accounts(&report(&file));
    assert_eq!(lost, 0);
    let rounds: Vec<f64> = truth["ns_per_operation"]["rounds"]
        .as_array()
        .expect("rounds")
        .iter()
        .map(|round| round.as_f64().expect("a number"))
        .collect();
    let best = |rounds: &[f64]| rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let (before, after) = (best(&rounds[..15]), best(&rounds[25..]));
    assert!(after < 3.0 * before, "{before} ns a call, then {after}");
}

#[test]
fn more_threads_than_the_pairing_map_holds() {
    let run = record(
        &["--threads", "2"],
        "mix",
        &["--threads", "8", "--iterations", "50"],
    );
    let report = report(&run.file);
    let (_, lost) = assert_accounts(&report);
    assert!(lost > 0);
    assert_eq!(report["recording"]["lost"]["pairing_full"], lost);
}

#[test]
fn a_thread_that_dies_inside_a_call() {
    let run = record(&[], "die", &[]);
    let report = report(&run.file);
    assert_accounts(&report);
    let account = report["accounts"]
        .as_array()
        .expect("accounts")
        .iter()
        .find(|account| account["api"] == "cudaDeviceSynchronize")
        .expect("the call")
        .clone();
    assert_eq!(
        (&account["made"], &account["abandoned"]),
        (&1.into(), &1.into())
    );
    let (events, _) = events(&run.file);
    let dead = events
        .iter()
        .find(|event| event.kind == Kind::Abandoned)
        .expect("a row");
    assert!(dead.duration.is_some_and(|age| age > 0));
    assert_eq!(dead.result, None);
}

#[test]
fn a_call_that_hangs_is_visible() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    // Ends by --duration: the command is asked to end while it hangs.
    let output = cudasnoop()
        .arg("record")
        .arg("-o")
        .arg(&file)
        .args(["--duration", "2", "--"])
        .arg(workload("hang"))
        .output()
        .expect("started");
    assert_eq!(
        output.status.code(),
        Some(128 + 15),
        "killed by SIGTERM, as asked"
    );
    let report = report(&file);
    assert_accounts(&report);
    let (events, ended) = events(&file);
    assert!(ended);
    // The process died inside the call.
    let hung = events
        .iter()
        .find(|event| event.kind == Kind::Abandoned)
        .expect("a row");
    assert!(
        hung.duration.is_some_and(|age| age > 500_000_000),
        "{hung:?}"
    );
}

#[test]
fn a_call_in_flight_is_visible() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    let mut hang = e2e::workload_command("hang")
        .args(["--wait", "call"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("started");
    let mut ready = String::new();
    BufReader::new(hang.stderr.take().expect("piped"))
        .read_line(&mut ready)
        .expect("read");
    let mut recorder = cudasnoop()
        .arg("record")
        .arg("-o")
        .arg(&file)
        .args(["-p", &hang.id().to_string(), "--duration", "4"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let messages = BufReader::new(recorder.stderr.take().expect("piped"));
    let mut messages = messages.lines().map_while(Result::ok);
    assert!(messages.any(|line| line.contains("is traced")));
    drop(
        hang.stdin
            .take()
            .map(|mut stdin| std::io::Write::write_all(&mut stdin, b"\n")),
    );
    let told: Vec<String> = messages.collect();
    recorder.wait().expect("ended");
    hang.kill().expect("killed");
    hang.wait().expect("reaped");
    assert!(
        told.iter()
            .any(|line| line.contains("cudaDeviceSynchronize had not returned after")),
        "{told:?}"
    );
    let report = report(&file);
    assert_accounts(&report);
    let call = &report["in_flight"][0];
    assert_eq!(call["api"], "cudaDeviceSynchronize");
    assert_eq!(call["pid"], hang.id());
}

/// The recorder is killed: what it wrote is readable, and the command lives on.
#[test]
fn kill_nine() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    let mut recorder = cudasnoop()
        .arg("record")
        .arg("-o")
        .arg(&file)
        .arg("--")
        .arg(workload("storm"))
        .args(["--kind", "malloc", "--seconds", "3"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let until = Instant::now() + Duration::from_secs(30);
    while fs::metadata(&file).map_or(0, |file| file.len()) < 100_000 {
        assert!(Instant::now() < until, "nothing is written");
        thread::sleep(Duration::from_millis(20));
    }
    recorder.kill().expect("killed");
    recorder.wait().expect("reaped");
    let (rows, ended) = events(&file);
    assert!(!ended && rows.len() > 1000, "{} rows", rows.len());
    let report = report(&file);
    assert_eq!(report["recording"]["complete"], false);
    // The storm's process is not stopped: it ends by itself.
    let pid = rows
        .iter()
        .find(|event| event.api.is_some())
        .expect("a call")
        .pid;
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid"));
    let until = Instant::now() + Duration::from_secs(30);
    while kill(pid, None::<Signal>).is_ok() {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.contains(") Z ") {
            break;
        }
        assert!(!stat.contains(") T "), "stopped: {stat}");
        assert!(Instant::now() < until, "still there: {stat}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn pyarrow_and_polars_open_it() {
    let run = record(&[], "mix", &["--iterations", "200"]);
    let rows = events(&run.file).0.len();
    let read = |file: &std::path::Path| -> serde_json::Value {
        let output = e2e::python("tests/pyarrow/read_recording.py", [file]);
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    assert_eq!(read(&run.file)["pyarrow"]["rows"], rows);
    // Torn in the middle of a batch, then repaired.
    let whole = fs::read(&run.file).expect("read");
    let torn = run.folder.path().join("torn.arrows");
    fs::write(&torn, &whole[..whole.len() - 40]).expect("written");
    let kept = events(&torn).0.len();
    let repaired = run.folder.path().join("repaired.arrows");
    e2e::succeed(
        cudasnoop()
            .arg("repair")
            .arg(&torn)
            .arg("-o")
            .arg(&repaired),
    );
    assert_eq!(read(&repaired)["polars"]["rows"], kept);
    assert!(dist().join("cudasnoop-analyzer").is_file());
}
