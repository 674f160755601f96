//! The command.

use std::process::{Command, Output};

use crate::fixtures;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cudasnoop-analyzer"))
        .arg("snapshot")
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn json_of_a_file() {
    let file = fixtures().join("snapshot/pinned-4.pickle");
    let output = run(&[file.to_str().unwrap(), "--json", "--fit", "512MiB"]);
    assert!(output.status.success());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], "cudasnoop.snapshot/1");
    assert_eq!(json["devices"][0]["fit"]["pools"][0]["fits"], true);
    assert!(json["recording"].is_null());
}

#[test]
fn what_is_no_snapshot_fails_with_the_place() {
    let file = fixtures().join("snapshot/expected.json");
    let output = run(&[file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("this is no pickle of protocol 2 to 5"),
        "{message}"
    );
    assert!(output.stdout.is_empty());
}
