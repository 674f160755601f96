//! `cargo xtask kernel`: the same program on Debian's kernels, in qemu: one that it refuses, one
//! without multi links, one that has them; preempted everywhere, and locked down.
//!
//! By hand, not in CI: the machines are emulated, and their verifier takes minutes.

mod debian;
mod guest;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{
    build, command, layout,
    progress::{say, step},
    setup,
};

/// The releases whose kernels are tried: Linux 5.10, 6.1, 6.12.
const SUITES: [&str; 3] = ["bullseye", "bookworm", "trixie"];

/// A way to start a kernel.
struct Machine {
    name: &'static str,
    parameters: &'static str,
    /// What is said where tracing must be refused.
    refusal: Option<&'static str>,
}

const MACHINES: [Machine; 3] = [
    Machine {
        name: "preempted everywhere",
        parameters: "preempt=full",
        refusal: None,
    },
    Machine {
        name: "locked down for integrity",
        parameters: "lockdown=integrity",
        refusal: None,
    },
    Machine {
        name: "locked down for confidentiality",
        parameters: "lockdown=confidentiality",
        refusal: Some("boot it with lockdown=integrity"),
    },
];

/// What is said where Linux is too old.
const TOO_OLD: &str = "needs Linux 5.15";

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Releases of Debian whose kernel is tried; by default bullseye, bookworm and trixie.
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,
    /// A kernel package (.deb) in their place.
    #[arg(long, value_name = "FILE", conflicts_with = "suites")]
    package: Option<PathBuf>,
    /// Take what lies in dist/, without building anything.
    #[arg(long)]
    no_build: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options {
        suites,
        package,
        no_build,
    } = options;
    if !no_build {
        build::run(&build::Options::default())?;
    }
    setup::emulator()?;
    let folder = layout::target().join("kernel");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let image = guest::image(&folder)?;
    if let Some(package) = package {
        return try_out(&debian::unpacked(package, &folder)?, &image, &folder);
    }
    let suites = if suites.is_empty() {
        SUITES.map(str::to_owned).to_vec()
    } else {
        suites.clone()
    };
    for suite in suites {
        let folder = folder.join(&suite);
        let kernel = debian::kernel(&suite, &folder)?;
        try_out(&kernel, &image, &folder)?;
    }
    Ok(())
}

/// Starts it in every way; what the machines say stays in a folder.
fn try_out(kernel: &Path, image: &Path, folder: &Path) -> Result<()> {
    for machine in &MACHINES {
        let Machine {
            name, parameters, ..
        } = machine;
        let said = step(&format!("a machine {name} (minutes)"), || {
            boot(kernel, image, parameters)
        })?;
        let file = folder.join(format!("console-{}.txt", name.replace(' ', "-")));
        fs::write(&file, &said).with_context(|| format!("writing {}", file.display()))?;
        let seen = check(machine, &said).with_context(|| format!("see {}", file.display()))?;
        let release = guest::part(&said, "release")?.trim();
        say(format_args!(
            "Linux {release}, {name}: {seen}; all of it is in {}",
            file.display()
        ));
    }
    Ok(())
}

/// Whether all went as it must; what was seen.
fn check(machine: &Machine, said: &str) -> Result<String> {
    let is_too_old = guest::part(said, "doctor")?.contains(TOO_OLD);
    let refusal = is_too_old.then_some(TOO_OLD).or(machine.refusal);
    if let Some(refusal) = refusal {
        for run in ["child", "other"] {
            let said = guest::part(said, run)?;
            ensure!(
                squeezed(said).contains(refusal),
                "it should be refused: {said}"
            );
        }
        return Ok(format!("refused ({refusal})"));
    }
    let mut compared = 0;
    for whose in ["child", "other", "typeless"] {
        let made = parsed(guest::part(said, &format!("made by {whose}"))?)?;
        let told = parsed(guest::part(said, &format!("told of {whose}"))?)?;
        compared += compare(&made, &told)?;
    }
    let typeless = guest::part(said, "typeless child")?;
    ensure!(
        squeezed(typeless).contains("forks cannot be followed"),
        "what a command is told without the kernel's type information: {typeless}"
    );
    Ok(format!(
        "{compared} functions, each called as often as recorded"
    ))
}

/// A text in one line.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs the machine until it turns itself off; what it wrote to its console.
fn boot(kernel: &Path, image: &Path, parameters: &str) -> Result<String> {
    let mut qemu = Command::new("timeout");
    qemu.args(["1800", "qemu-system-x86_64"])
        // Emulated: a machine inside of a virtual one does not always start by KVM.
        .args(["-accel", "tcg", "-cpu", "max", "-m", "2048", "-smp", "2"])
        .args(["-nographic", "-vga", "none", "-no-reboot", "-kernel"])
        .arg(kernel)
        .arg("-initrd")
        .arg(image)
        .args([
            "-append",
            &format!("console=ttyS0 panic=-1 quiet {parameters}"),
        ]);
    command::output(&mut qemu)
}

fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text.trim()).with_context(|| format!("no JSON: {text}"))
}

/// Driver functions that the runtime calls for its own ends, too: such a call has no other around it.
const FOR_ITSELF: [&str; 5] = [
    "cuCtx",
    "cuDevice",
    "cuKernelGetFunction",
    "cuLibrary",
    "cuModule",
];

/// Functions that are recorded while the process has a capture open, whichever thread's: with several
/// threads, as many as fell into one.
const IN_CAPTURES: [&str; 2] = ["cudaEventRecord", "cuEventRecord"];

/// Compares calls by function; how many functions were compared.
fn compare(truth: &Value, report: &Value) -> Result<usize> {
    let recorded = report["calls"].as_array().context("a report lists calls")?;
    let mut made: BTreeMap<&str, u64> = BTreeMap::new();
    for list in ["calls", "driver_calls_own"] {
        let calls = truth[list].as_object().context("a truth lists calls")?;
        for (symbol, calls) in calls {
            let twin = ["_ptsz", "_ptds"]
                .into_iter()
                .find_map(|end| symbol.strip_suffix(end));
            let calls = calls.as_u64().context("a count")?;
            *made.entry(twin.unwrap_or(symbol)).or_default() += calls;
        }
    }
    let mut compared = 0;
    for row in recorded {
        let api = row["api"].as_str().context("a name")?;
        let recorded = row["calls"].as_u64().context("a count")?;
        // Of the runtime alone, and what leads to another function under another name.
        let Some(&made) = made.get(api) else { continue };
        let is_shared = FOR_ITSELF.iter().any(|start| api.starts_with(start));
        let may_be_passed_over = IN_CAPTURES.iter().any(|start| api.starts_with(start));
        ensure!(
            recorded == made
                || is_shared && recorded > made
                || may_be_passed_over && recorded < made,
            "{api}: {made} calls were made, and {recorded} recorded"
        );
        compared += 1;
    }
    ensure!(compared >= 10, "only {compared} functions were recorded");
    ensure!(
        report["recording"]["complete"] == true,
        "the recording is not complete"
    );
    Ok(compared)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_too_few_is_told() {
        let calls = |first: u64| -> Vec<Value> {
            (0..12)
                .map(|n| json!({"api": format!("cu{n}"), "calls": if n == 0 { first } else { n }}))
                .collect()
        };
        let made: serde_json::Map<String, Value> =
            (0..12).map(|n| (format!("cu{n}"), json!(n))).collect();
        let truth = json!({"calls": {}, "driver_calls_own": made});
        let report = |first| json!({"calls": calls(first), "recording": {"complete": true}});
        assert_eq!(compare(&truth, &report(0)).unwrap(), 12);
        let error = compare(&truth, &report(7)).unwrap_err();
        assert!(error.to_string().contains("cu0: 0 calls were made, and 7"));
    }

    #[test]
    fn events_outside_of_captures_are_passed_over() {
        let rows = |events: u64| -> Vec<Value> {
            let others = (0..12).map(|n| json!({"api": format!("cu{n}"), "calls": n}));
            let events = json!({"api": "cudaEventRecord", "calls": events});
            others.chain([events]).collect()
        };
        let made: serde_json::Map<String, Value> = (0..12)
            .map(|n| (format!("cu{n}"), json!(n)))
            .chain([("cudaEventRecord".to_owned(), json!(160))])
            .collect();
        let truth = json!({"calls": made, "driver_calls_own": {}});
        let report = |events| json!({"calls": rows(events), "recording": {"complete": true}});
        for events in [8, 160] {
            assert_eq!(compare(&truth, &report(events)).unwrap(), 13);
        }
        assert!(compare(&truth, &report(161)).is_err());
    }
}
