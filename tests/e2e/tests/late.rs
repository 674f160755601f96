//! Commands whose CUDA comes late, from anywhere, in whatever process: not one call is missed.

use std::{fs, path::PathBuf};

use e2e::{assert_accounts, assert_same_calls, dist, events, facts, record_with, report};
use trace::Fact;

fn copy_of_runtime(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    let to = folder.path().join(name);
    fs::create_dir_all(to.parent().expect("a parent")).expect("created");
    fs::copy(dist().join("fake-cuda/libcudart.so.12"), &to).expect("copied");
    to
}

fn late(arguments: &[&str]) -> (serde_json::Value, Vec<trace::Event>) {
    let mut all = vec!["--after-ms", "50"];
    all.extend(arguments);
    let run = record_with(&[], "late", &all, |_| {});
    let report = report(&run.file);
    assert_same_calls(&report, &run.truth);
    assert_eq!(assert_accounts(&report).1, 0);
    (report, events(&run.file).0)
}

#[test]
fn the_first_call_after_dlopen() {
    let (_, events) = late(&[]);
    let holds = facts(&events)
        .into_iter()
        .filter(|(_, fact)| matches!(fact, Fact::Hold { .. }))
        .count();
    // The runtime and, inside its first call, the driver.
    assert!(holds >= 2, "{holds} holds");
}

#[test]
fn any_path() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in [
        "with blanks in it/libcudart.so.12",
        "deep/er/libcudart-0badcafe.so.12.8.90",
        // Neither the folder nor the file says CUDA; the file's own soname does.
        "models/plugin.bin",
        "x",
    ] {
        let path = copy_of_runtime(&folder, name);
        late(&["--path", path.to_str().expect("UTF-8")]);
    }
}

#[test]
fn several_copies_in_one_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = copy_of_runtime(&folder, "a/libcudart.so.12");
    let two = copy_of_runtime(&folder, "b/libcudart-d0da41ae.so.12");
    late(&[
        "--path",
        one.to_str().expect("UTF-8"),
        "--path",
        two.to_str().expect("UTF-8"),
    ]);
}

/// A runtime has some 150 functions that are traced, and the kernel's table has room for 16,384:
/// files that are alike share their places.
#[test]
fn more_copies_than_there_is_room_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let copies: Vec<PathBuf> = (0..120)
        .map(|index| copy_of_runtime(&folder, &format!("{index}/libcudart.so.12")))
        .collect();
    let mut arguments = vec!["--calls", "1", "--after-ms", "0"];
    for copy in &copies {
        arguments.extend(["--path", copy.to_str().expect("UTF-8")]);
    }
    let run = record_with(&[], "late", &arguments, |_| {});
    let report = report(&run.file);
    assert_same_calls(&report, &run.truth);
    assert_eq!(report["gaps"], serde_json::json!([]));
}

#[test]
fn forked_children_and_exec() {
    late(&["--fork", "4"]);
    late(&["--exec"]);
    late(&["--exec", "--fork", "2"]);
}

#[test]
fn a_script_that_starts_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("start.sh");
    let late = e2e::workload("late");
    fs::write(
        &script,
        format!("#!/bin/sh\n{} --after-ms 10 --fork 1\n", late.display()),
    )
    .expect("written");
    let file = folder.path().join("run.arrows");
    let output = e2e::succeed(
        e2e::cudasnoop()
            .arg("record")
            .arg("-o")
            .arg(&file)
            .args(["--", "/bin/sh"])
            .arg(&script),
    );
    assert_same_calls(&report(&file), &e2e::last_json(&output.stdout));
}

#[test]
fn fifty_short_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    let late = e2e::workload("late");
    let script = format!(
        "for i in $(seq 50); do {} --after-ms 0 --calls 3 & done; wait",
        late.display()
    );
    let output = e2e::succeed(
        e2e::cudasnoop()
            .arg("record")
            .arg("-o")
            .arg(&file)
            .args(["--", "sh", "-c", &script]),
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let made: u64 = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|truth| truth["calls"]["cudaMalloc"].as_u64().expect("a count"))
        .sum();
    assert_eq!(made, 150);
    let report = report(&file);
    let row = report["calls"]
        .as_array()
        .expect("calls")
        .iter()
        .find(|row| row["api"] == "cudaMalloc")
        .expect("cudaMalloc");
    assert_eq!(row["calls"], made);
}

/// A container in the command: its process ids are not ours, its calls are.
#[test]
fn a_child_in_a_pid_namespace_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    let output = e2e::succeed(
        e2e::cudasnoop()
            .arg("record")
            .arg("-o")
            .arg(&file)
            .args(["--", "unshare", "--pid", "--fork"])
            .arg(e2e::workload("late"))
            .args(["--after-ms", "10"]),
    );
    assert_same_calls(&report(&file), &e2e::last_json(&output.stdout));
}
