//! The command `cudasnoop-analyzer`: what it reads, what it writes where, and how it ends.

mod sample;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sample::{SECOND, START};
use tempfile::TempDir;
use trace::fact::Device;
use trace::{End, Event, Fact, Kind, Reader};

fn analyzer() -> Command {
    Command::new(env!("CARGO_BIN_EXE_cudasnoop-analyzer"))
}

fn run(arguments: &[&str]) -> Output {
    analyzer()
        .args(arguments)
        .output()
        .expect("the command runs")
}

fn complete() -> Vec<u8> {
    let mut sample = sample::everything();
    sample.end(START + 10 * SECOND, |_| {});
    sample.file()
}

/// The sample, and then the first bytes of another batch where the end marker would be, as a
/// kill in the middle of a write leaves it.
fn torn() -> Vec<u8> {
    let mut file = complete();
    file.truncate(file.len() - 8);
    file.extend_from_within(..100);
    file
}

fn file(directory: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, bytes).expect("the file can be written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of letters")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

#[test]
fn a_report_goes_to_stdout_and_nothing_to_stderr() {
    let directory = TempDir::new().expect("a directory");
    let path = file(&directory, "run.arrows", &complete());
    let output = run(&["report", text(&path)]);
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), "")
    );
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/everything.txt");
    assert_eq!(
        String::from_utf8(output.stdout).expect("text"),
        fs::read_to_string(golden).expect("text")
    );
}

#[test]
fn json_is_one_object_with_its_schema() {
    let directory = TempDir::new().expect("a directory");
    let path = file(&directory, "run.arrows", &complete());
    let output = run(&[
        "report",
        "--json",
        "--pid",
        "4242",
        "--pid",
        "1",
        text(&path),
    ]);
    assert_eq!(stderr(&output), "warning: no process 1 in the recording\n");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["schema"], "cudasnoop.report/1");
    assert_eq!(json["window"]["pids"], serde_json::json!([4242, 1]));
}

#[test]
fn standard_input_is_a_file_too() {
    let mut child = analyzer()
        .args(["report", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(&complete()).expect("it reads all");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok());
}

#[test]
fn a_torn_recording_is_reported_with_a_warning() {
    let directory = TempDir::new().expect("a directory");
    let path = file(&directory, "torn.arrows", &torn());
    let output = run(&["report", text(&path)]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stderr(&output).starts_with("warning: the recording is truncated"),
        "{}",
        stderr(&output)
    );
    assert!(!output.stdout.is_empty());
}

#[test]
fn what_is_no_recording_is_refused() {
    let directory = TempDir::new().expect("a directory");
    let path = file(&directory, "notes.txt", b"dear diary");
    let empty = file(&directory, "empty", b"");
    for path in [&path, &empty, &directory.path().join("missing")] {
        let output = run(&["report", text(path)]);
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        let error = stderr(&output);
        assert!(
            error.starts_with("error: cannot ") && error.contains(text(path)),
            "{error}"
        );
    }
}

#[test]
fn wrong_usage_ends_with_2() {
    for arguments in [
        &["report"][..],
        &["report", "x", "--from", "soon"],
        &["analyse"],
        &[],
    ] {
        assert_eq!(run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_closed_pipe_is_a_success() {
    let directory = TempDir::new().expect("a directory");
    let path = file(&directory, "run.arrows", &complete());
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = analyzer()
        .args(["report", text(&path)])
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .expect("the command runs");
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), "")
    );
}

#[test]
fn repair_makes_a_torn_recording_whole() {
    let directory = TempDir::new().expect("a directory");
    let path = file(&directory, "torn.arrows", &torn());
    let repaired = directory.path().join("whole.arrows");
    let output = run(&["repair", text(&path), "--output", text(&repaired)]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let bytes = fs::read(&repaired).expect("the repaired file");
    let mut reader = Reader::new(&bytes[..]).expect("a recording");
    let rows: usize = reader
        .by_ref()
        .map(|batch| batch.expect("a batch").len())
        .sum();
    let mut whole = sample::everything();
    whole.end(START + 10 * SECOND, |_| {});
    assert_eq!(
        (rows, reader.end()),
        (whole.events.len(), Some(&End::Complete))
    );
    assert_eq!(fs::read(&path).expect("the torn file"), torn());
}

#[test]
fn repair_overwrites_nothing_and_leaves_nothing_behind() {
    let directory = TempDir::new().expect("a directory");
    let path = file(&directory, "torn.arrows", &torn());
    let output = run(&["repair", text(&path), "-o", text(&path)]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read(&path).expect("the torn file"), torn());
    let notes = file(&directory, "notes.txt", b"dear diary");
    let target = directory.path().join("out.arrows");
    let output = run(&["repair", text(&notes), "-o", text(&target)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!target.exists());
}

/// Two processes that call two devices by the same ordinal, hold 1 and 2 blocks of 2 MiB, and launch
/// as many kernels.
fn two_devices() -> Vec<u8> {
    let mut sample = sample::Sample::new();
    for (n, uuid) in [(1, "GPU-1a000000-0000"), (2, "GPU-1b000000-0000")] {
        let pid = 5000 + n;
        sample.fact(START, pid, &sample::process(pid, "worker", true));
        for block in 0..n {
            let event = Event {
                address: Some(u64::from(block + 1) << 30),
                size: Some(2 << 20),
                device: Some(0),
                ..sample::at(pid, 1)
            };
            sample.call("cudaMalloc", 0, 1000, event);
            let launch = Event {
                device: Some(0),
                ..sample::at(pid, 2)
            };
            sample.row("cudaLaunchKernel", Kind::Call, launch);
        }
        // The program asks late.
        let device = Device {
            pid,
            ordinal: 0,
            uuid: Some(uuid.to_owned()),
            pci_bus_id: None,
        };
        sample.fact(START + SECOND, pid, &Fact::Device(device));
    }
    sample.end(START + 10 * SECOND, |_| {});
    sample.file()
}

/// Of a device in `memory`, or of what the driver gave in `fragmentation`.
fn live_bytes(device: &serde_json::Value) -> Option<u64> {
    let live = device.get("live_bytes");
    live.unwrap_or(&device["driver"]["live_bytes"]).as_u64()
}

#[test]
fn a_device_may_be_named_by_the_beginning_of_its_uuid() {
    let directory = TempDir::new().expect("a directory");
    let path = file(&directory, "run.arrows", &two_devices());
    let json = |command: &str, device: &[&str]| -> serde_json::Value {
        let output = analyzer()
            .args([command, "--json", text(&path)])
            .args(device)
            .output()
            .expect("the command runs");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let report = |device: &[&str]| {
        let report = json("report", device);
        let mut calls = report["calls"].as_array().expect("calls").iter();
        let calls = calls.find(|calls| calls["api"] == "cudaMalloc");
        let calls = calls.and_then(|calls| calls["calls"].as_u64());
        let live = report["memory"][0]["live_bytes"].as_u64();
        let processes = report["memory"].as_array().map(Vec::len);
        (calls, live, processes)
    };
    let second = report(&["--device", "gpu-1B"]);
    assert_eq!(second, (Some(2), Some(4 << 20), Some(1)));
    let first = report(&["--device", "GPU-1a000000-0000"]);
    assert_eq!(first, (Some(1), Some(2 << 20), Some(1)));
    // By its ordinal it is the one of each process.
    assert_eq!(
        report(&["--device", "0"]),
        (Some(3), Some(2 << 20), Some(2))
    );
    // The second process alone, and its two blocks and launches.
    let second = |command: &str| json(command, &["--device", "GPU-1b"]);
    let list = |of: &serde_json::Value| of.as_array().expect("a list").clone();
    for command in ["memory", "fragmentation"] {
        let live: Vec<_> = list(&second(command)["processes"])
            .iter()
            .flat_map(|process| {
                let pid = process["pid"].as_u64();
                list(&process["devices"])
                    .into_iter()
                    .map(move |device| (pid, live_bytes(&device)))
            })
            .collect();
        assert_eq!(live, [(Some(5002), Some(4 << 20))], "{command}");
    }
    let histograms = list(&second("hist")["histograms"]);
    let mut sizes = histograms.iter();
    let sizes = sizes.find(|measured| measured["quantity"] == "allocation_bytes");
    let sizes = sizes.map(|sizes| (sizes["count"].as_u64(), sizes["total"].as_u64()));
    assert_eq!(sizes, Some((Some(2), Some(4 << 20))));
    let lines: Vec<_> = list(&second("leaks")["growth"])
        .iter()
        .filter(|line| line["sizes_to"].is_null())
        .map(|line| (line["pid"].as_u64(), line["live_bytes"].as_u64()))
        .collect();
    assert_eq!(lines, [(Some(5002), Some(4 << 20))]);
    assert_eq!(second("launches")["launches"], 2);
    for (device, said) in [
        (
            "GPU-1",
            "GPU-1 is the beginning of GPU-1a000000-0000 and of GPU-1b000000-0000: give more of it",
        ),
        (
            "GPU-2",
            "no UUID begins with GPU-2: the recording has GPU-1a000000-0000, GPU-1b000000-0000",
        ),
    ] {
        let output = run(&["report", "--device", device, text(&path)]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    let nonsense = run(&["report", "--device", "first", text(&path)]);
    assert_eq!(nonsense.status.code(), Some(2));
    let plain = file(&directory, "plain.arrows", &complete());
    let unnamed = run(&["report", "--device", "GPU-1", text(&plain)]);
    assert!(
        stderr(&unnamed).contains("the recording has none"),
        "{}",
        stderr(&unnamed)
    );
    let pipe = run(&["report", "--device", "GPU-1", "-"]);
    assert!(
        stderr(&pipe).contains("cannot be read twice"),
        "{}",
        stderr(&pipe)
    );
}
