//! The command `cudasnoop-analyzer`: what it reads, what it writes where, and how it ends.

mod sample;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sample::{SECOND, START};
use tempfile::TempDir;
use trace::{End, Reader};

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
