//! What a person sees, and what a script reads.

use std::{collections::BTreeSet, path::Path, process::Command};

use e2e::{cudasnoop, dist, record, report, succeed, workload};
use serde_json::Value;

fn trace(options: &[&str], workload_options: &[&str]) -> (Value, Vec<Value>) {
    let output = succeed(
        cudasnoop()
            .args(["trace", "--json"])
            .args(options)
            .arg("--")
            .arg(workload("mix"))
            .args(workload_options),
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let (truth, lines): (Vec<Value>, Vec<Value>) = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a JSON object a line"))
        .partition(|object: &Value| object["workload"].is_string());
    (
        truth.into_iter().next().expect("the workload's report"),
        lines,
    )
}

#[test]
fn one_line_a_call() {
    let (truth, lines) = trace(&[], &["--iterations", "10"]);
    let count = |api: &str| {
        lines
            .iter()
            .filter(|line| line["api"] == api && line["kind"] == "call")
            .count()
    };
    assert_eq!(truth["calls"]["cudaMalloc"], count("cudaMalloc"));
    assert_eq!(
        truth["calls"]["cudaDeviceSynchronize"],
        count("cudaDeviceSynchronize")
    );
    let malloc = lines
        .iter()
        .find(|line| line["api"] == "cudaMalloc")
        .expect("a line");
    assert_eq!(malloc["result"], 0);
    assert!(
        malloc["address"]
            .as_str()
            .is_some_and(|address| address.starts_with("0x7"))
    );
    assert!(malloc["duration_ns"].as_u64().is_some_and(|ns| ns > 0));
    let launch = lines
        .iter()
        .find(|line| line["api"] == "cudaLaunchKernel")
        .expect("a line");
    assert_eq!(launch["grid"], serde_json::json!([2, 3, 5]));
    assert!(
        launch["kernel"]
            .as_str()
            .is_some_and(|name| name.contains("kernel")),
        "{launch}"
    );
}

#[test]
fn filters() {
    let names = |lines: &[Value]| -> BTreeSet<String> {
        lines
            .iter()
            .map(|line| line["api"].as_str().expect("a name").to_owned())
            .collect()
    };
    let (_, lines) = trace(&["--api", "cudaMalloc*"], &["--iterations", "5"]);
    assert_eq!(names(&lines), BTreeSet::from(["cudaMalloc".to_owned()]));
    let (_, lines) = trace(&["--events", "memory"], &["--iterations", "5"]);
    assert!(lines.iter().all(|line| line["family"] == "memory") && !lines.is_empty());
    let (_, lines) = trace(&["--min-size", "2KiB"], &["--iterations", "5"]);
    assert!(
        lines
            .iter()
            .all(|line| line["size"].as_u64().expect("a size") >= 2048)
    );
    assert!(!lines.is_empty());
    let (_, lines) = trace(&["--errors"], &["--iterations", "5"]);
    assert_eq!(lines.len(), 0);
}

#[test]
fn text_lines() {
    let output = succeed(
        cudasnoop()
            .args(["trace", "--api", "cudaFree", "--"])
            .arg(workload("mix"))
            .args(["--iterations", "1"]),
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("cudaFree("))
        .collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].ends_with("..."), "{text}");
    assert!(
        lines[1].contains(" = ok  ") && lines[1].ends_with('s'),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "no colour off a terminal");
}

#[test]
fn kernels_have_names() {
    let run = record(&[], "mix", &["--iterations", "10", "--layer", "both"]);
    let report = report(&run.file);
    let kernels = report["kernels"].as_array().expect("kernels");
    assert!(!kernels.is_empty());
    for kernel in kernels {
        let name = kernel["name"]
            .as_str()
            .unwrap_or_else(|| panic!("no name: {kernel}"));
        assert!(name.contains("_kernel"), "{kernel}");
        assert!(kernel["module"].is_string(), "{kernel}");
    }
}

/// The names are not in the file's symbols any more, but the program tells them to the runtime.
#[test]
fn kernels_of_a_stripped_program_have_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let stripped = folder.path().join("mix");
    succeed(
        Command::new("strip")
            .arg("-o")
            .arg(&stripped)
            .arg(workload("mix")),
    );
    let names = |program: &Path| -> BTreeSet<String> {
        let file = folder.path().join("run.arrows");
        let mut command = cudasnoop();
        command.arg("record").arg("-o").arg(&file).arg("--");
        succeed(command.arg(program).args(["--iterations", "5"]));
        let report = report(&file);
        let kernels = report["kernels"].as_array().expect("kernels").iter();
        kernels
            .map(|kernel| {
                let name = kernel["name"].as_str();
                name.unwrap_or_else(|| panic!("no name: {kernel}"))
                    .to_owned()
            })
            .collect()
    };
    let whole = names(&workload("mix"));
    assert!(whole.len() > 1 && whole.iter().all(|name| name.contains("_kernel")));
    assert_eq!(names(&stripped), whole);
}

/// The fake runtime has functions that are probed, and some that are not; it says what of which.
#[test]
fn a_library_is_checked() {
    let runtime = dist().join("fake-cuda/libcudart.so.12");
    let output = succeed(
        cudasnoop()
            .args(["probes", "--json", "--check"])
            .arg(&runtime),
    );
    let report: Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(report["schema"], "cudasnoop.probes-check/1");
    let [library] = &report["libraries"].as_array().expect("libraries")[..] else {
        panic!("one library: {report}")
    };
    let has = |list: &Value, name: &str| {
        list.as_array()
            .is_some_and(|names| names.iter().any(|other| other == name))
    };
    assert_eq!(library["layers"], serde_json::json!(["runtime"]));
    assert!(has(&library["probed"], "cudaMalloc") && has(&library["probed"], "cudaMemcpy_ptds"));
    assert!(has(&library["missing"], "cudaMemcpyWithAttributesAsync"));
    assert!(has(&library["unprobed"]["question"], "cudaGetDevice"));
    assert!(has(&library["unprobed"]["part"], "__cudaLaunchKernel"));
    let text = succeed(cudasnoop().args(["probes", "--check"]).arg(&runtime));
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(
        text.contains("cudaGetDevice") && text.contains("unseen is nothing"),
        "{text}"
    );
    let other = cudasnoop()
        .args(["probes", "--check", "/bin/true"])
        .output();
    let other = other.expect("started");
    assert_eq!(other.status.code(), Some(1));
    let why = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(why.contains("exports none of the functions"), "{why}");
}

#[test]
fn the_table() {
    let output = succeed(cudasnoop().args(["probes", "--json"]));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("an array");
    assert_eq!(rows.len(), agent_common::APIS.len());
    let text = succeed(cudasnoop().arg("probes"));
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("cudaMalloc") && text.lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn exit_codes() {
    let code = |arguments: &[&str]| {
        cudasnoop()
            .args(arguments)
            .output()
            .expect("started")
            .status
            .code()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    let file = file.to_str().expect("UTF-8");
    assert_eq!(
        code(&["record", "-o", file, "--", "sh", "-c", "exit 42"]),
        Some(42)
    );
    assert_eq!(
        code(&["record", "-o", file, "--", "sh", "-c", "kill -9 $$"]),
        Some(137)
    );
    assert_eq!(code(&["count", "--", "true"]), Some(0));
    assert_eq!(
        code(&["record", "-o", file, "--", "/no/such/program"]),
        Some(1)
    );
    assert_eq!(code(&["record", "-o", file]), Some(2));
    assert_eq!(
        code(&["record", "-o", "/no/such/folder/f", "--", "true"]),
        Some(1)
    );
    assert_eq!(code(&["report", "/etc/passwd"]), Some(1));
    assert_eq!(code(&["--version"]), Some(0));
}

#[test]
fn a_command_without_cuda_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    let output = succeed(
        cudasnoop()
            .arg("record")
            .arg("-o")
            .arg(&file)
            .args(["--", "true"]),
    );
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("no CUDA library was loaded"), "{text}");
}
