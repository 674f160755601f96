//! The command.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::fixtures;

fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cudasnoop-analyzer"))
        .arg("oom")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn standard_input_and_files() {
    let file = fixtures().join("oom/capacty-2.1.log");
    let log = std::fs::read_to_string(&file).unwrap();
    let piped = json(&run(&["-", "--json"], &log));
    assert_eq!(piped["schema"], "cudasnoop.oom/1");
    assert_eq!(piped["messages"][0]["verdict"], "capacity");
    assert_eq!(piped["messages"][0]["input"], "standard input");
    let other = fixtures().join("oom/limit-2.11.log");
    let both = json(&run(
        &[file.to_str().unwrap(), other.to_str().unwrap(), "--json"],
        "",
    ));
    let inputs: Vec<_> = both["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            message["input"]
                .as_str()
                .unwrap()
                .rsplit('/')
                .next()
                .unwrap()
        })
        .collect();
    assert_eq!(
        inputs,
        ["capacty-2.1.log", "limit-2.11.log", "limit-2.11.log"]
    );
}

#[test]
fn nothing_to_read_is_wrong_usage() {
    assert_eq!(run(&[], "").status.code(), Some(2));
    let missing = run(&["/nonexistent"], "");
    assert_eq!(missing.status.code(), Some(1));
    let message = String::from_utf8(missing.stderr).unwrap();
    assert!(
        message.starts_with("error: cannot open /nonexistent: "),
        "{message}"
    );
}

#[test]
fn a_log_without_messages_is_a_success() {
    let output = run(&["-"], "all is well\n\u{0}\n");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("No out-of-memory message"), "{text}");
}

#[test]
fn a_snapshot_alone() {
    let snapshot = fixtures().join("snapshot/retry-works-4.pickle");
    let output = json(&run(
        &["--snapshot", snapshot.to_str().unwrap(), "--json"],
        "",
    ));
    assert_eq!(output["messages"][0]["verdict"], "pending_free");
}
