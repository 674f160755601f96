//! `cudasnoop top` as text: the figures of its last frame are what the workload did.

use std::collections::BTreeMap;

use e2e::{cudasnoop, dist, last_json, truth_calls, workload, workload_command};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::sidecar::{Sidecar, Step, until};

/// What a frame says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Frame {
    /// Launches that ran, and that went into a graph.
    launches: u64,
    captured: u64,
    errors: u64,
    lost: String,
    live: String,
    functions: BTreeMap<String, u64>,
}

fn number(text: &str) -> u64 {
    text.replace(',', "")
        .parse()
        .unwrap_or_else(|_| panic!("{text} is no number"))
}

/// The last frame of an output.
fn last_frame(output: &str) -> Frame {
    let start = output.rfind("cudasnoop top").expect("a frame");
    let mut frame = Frame::default();
    let mut list = "";
    for line in output[start..].lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |word: &str| {
            let at = words.iter().position(|one| *one == word).expect(word);
            words[at + 1]
        };
        match words.as_slice() {
            ["Calls", ..] => frame.errors = number(after("failed")),
            ["Launches", _, launches, ..] => {
                frame.launches = number(launches);
                frame.captured = number(after("captured"));
            }
            ["Tracing", ..] => after("lost").clone_into(&mut frame.lost),
            ["PID", "GPU", "LIVE", ..] => list = "devices",
            ["CALLS/s", .., "FUNCTION"] => list = "functions",
            [.., "CALLER" | "KERNEL" | "PROCESS"] | [] => list = "",
            [_, "0", amount, unit, ..] if list == "devices" => {
                frame.live = format!("{amount} {unit}");
            }
            [_, calls, .., name] if list == "functions" => {
                frame.functions.insert((*name).to_owned(), number(calls));
            }
            _ => {}
        }
    }
    frame
}

/// Each function that the frame names, and at least the most frequent ones.
fn assert_same_functions(frame: &Frame, truth: &Value) {
    let truth = truth_calls(truth);
    let both: Vec<&String> = truth
        .keys()
        .filter(|name| frame.functions.contains_key(*name))
        .collect();
    assert!(both.len() >= 10, "{frame:?}");
    for name in both {
        assert_eq!(frame.functions[name], truth[name], "{name}");
    }
}

fn launches(truth: &Value) -> u64 {
    let calls = truth_calls(truth).into_iter();
    calls
        .filter(|(api, _)| api.contains("LaunchKernel") || api.contains("LaunchCooperative"))
        .map(|(_, count)| count)
        .sum()
}

#[test]
fn a_command_is_shown_to_its_end_and_its_output_comes_after() {
    let mut command = cudasnoop();
    command.env("FAKE_CUDA_FAIL", "cudaMemcpyAsync:3=1");
    command.args(["top", "--batch", "-d", "200ms", "--", "sh", "-c"]);
    let mix = workload("mix");
    command.arg(format!(
        "{} --iterations 40 --leak 5 && exit 7",
        mix.display()
    ));
    let output = command.output().expect("started");
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{text}{said}");
    let truth = last_json(&output.stdout);
    let frame = last_frame(&text);
    assert_same_functions(&frame, &truth);
    assert_eq!(frame.launches + frame.captured, launches(&truth), "{text}");
    assert!(frame.captured > 0 && frame.launches > 0);
    assert_eq!(frame.errors, 1, "{text}");
    assert_eq!(frame.lost, "0");
    assert_eq!(truth["live_bytes"], 5 << 20);
    assert_eq!(frame.live, "5.00 MiB", "{text}");
}

#[test]
fn a_server_is_shown_without_tracing() {
    let mut command = workload_command("mix");
    command.args(["--iterations", "30", "--leak", "3"]);
    let mut step = Step::start(command, "call,exit");
    let sidecar = Sidecar::start(&["-p", &step.pid()]);
    sidecar.is_traced(&step.pid());
    step.go();
    let truth = step.report();
    let address = format!("http://{}", sidecar.admin);
    let show = || {
        let mut command = cudasnoop();
        command.args([
            "top",
            "--batch",
            "-n",
            "1",
            "-d",
            "100ms",
            "--connect",
            &address,
        ]);
        let output = command.output().expect("started");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let mallocs = truth_calls(&truth)["cudaMalloc"];
    let made = launches(&truth);
    let text = until(|| {
        let text = show();
        let frame = last_frame(&text);
        let all = frame.functions.get("cudaMalloc") == Some(&mallocs)
            && frame.launches + frame.captured == made;
        all.then_some(text)
    });
    let text = text.expect("all is seen");
    assert!(text.contains(&address), "{text}");
    let frame = last_frame(&text);
    assert_same_functions(&frame, &truth);
    assert_eq!(truth["live_bytes"], 3 << 20);
    assert_eq!(frame.live, "3.00 MiB", "{text}");
    // Who holds it, by the library that took it.
    let holder = text
        .lines()
        .find(|line| line.contains(" device ") && line.ends_with("mix"));
    assert!(
        holder.is_some_and(|line| line.contains("3.00 MiB")),
        "{text}"
    );
    step.go();
    step.end();
    sidecar.end(Signal::SIGTERM);
}

/// A window that is closed takes its programs along, with a SIGHUP or without.
#[test]
fn without_its_terminal_it_ends() {
    let mut command = workload_command("mix");
    command.args(["--iterations", "1"]);
    let step = Step::start(command, "call,exit");
    let sidecar = Sidecar::start(&["-p", &step.pid()]);
    let address = format!("http://{}", sidecar.admin);
    let program = dist().join("cudasnoop");
    let program = program.to_str().expect("UTF-8");
    let script = "tests/e2e/tests/serve/closed_terminal.py";
    e2e::python(script, [program, "top", "--connect", &address]);
    e2e::python(script, [program, "top", "-p", &step.pid()]);
}

#[test]
fn what_cannot_be_shown_is_said() {
    let fails = |arguments: &[&str], code, words: &str| {
        let mut command = cudasnoop();
        let output = command
            .arg("top")
            .args(arguments)
            .output()
            .expect("started");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{said}");
        assert!(output.stdout.is_empty(), "{output:?}");
    };
    fails(&["-p", "1"], 1, "cudasnoop top --batch");
    // Nobody listens on that port.
    let gone = ["--batch", "--connect", "127.0.0.1:1"];
    fails(&gone, 1, "is `cudasnoop serve` running there?");
    fails(&["--batch", "-p", "999999999"], 1, "no process 999999999");
    fails(
        &["--batch", "--connect", "https://127.0.0.1"],
        2,
        "http alone",
    );
    fails(
        &["--connect", "127.0.0.1:1", "-p", "1"],
        2,
        "cannot be used with",
    );
    fails(&[], 2, "required");
}
