//! A workload that waits, with CUDA loaded, until it is observed.

use std::{
    collections::HashSet,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Child, ChildStderr, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::process::{self, Usage};
use crate::doubles;

/// A workload and its arguments.
#[derive(Debug, Clone)]
pub(super) struct Workload {
    pub(super) program: &'static str,
    pub(super) arguments: Vec<String>,
}

/// A workload before its first call.
#[derive(Debug)]
pub(super) struct Waiting {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

/// A program that runs on this processor only.
pub(super) fn on_processor(processor: u32, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command
        .args(["--cpu-list", &processor.to_string()])
        .arg(program);
    command
}

impl Workload {
    /// `storm` with these arguments, in words.
    pub(super) fn storm(arguments: &str) -> Self {
        let arguments = arguments.split_whitespace().map(str::to_owned).collect();
        Self {
            program: "storm",
            arguments,
        }
    }

    /// Starts it; returns when it has loaded CUDA.
    pub(super) fn start(&self, processor: u32) -> Result<Waiting> {
        let Self { program, arguments } = self;
        let mut child = on_processor(processor, &doubles::workload(program))
            .args(["--wait", "call"])
            .args(arguments)
            .env("LD_LIBRARY_PATH", doubles::libraries())
            // The runtime opens it at its first call, when some observers look no more.
            .env("LD_PRELOAD", doubles::libraries().join("libcuda.so.1"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {program} by taskset (package util-linux)"))?;
        let mut stderr = BufReader::new(child.stderr.take().context("stderr is piped")?);
        let mut line = String::new();
        stderr.read_line(&mut line)?;
        if !line.starts_with("ready") {
            stderr.read_to_string(&mut line)?;
            bail!("{program} {arguments:?} did not start: {}", line.trim_end());
        }
        Ok(Waiting { child, stderr })
    }
}

impl Waiting {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How many CUDA libraries it maps: files named `libcuda*`.
    pub(super) fn cuda_libraries(&self) -> Result<usize> {
        let path = format!("/proc/{}/maps", self.pid());
        let maps = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let files: HashSet<&str> = maps
            .lines()
            .filter_map(|line| line.rsplit_once('/'))
            .map(|(_, name)| name)
            .filter(|name| name.starts_with("libcuda"))
            .collect();
        Ok(files.len())
    }

    /// Lets it work until its end.
    pub(super) fn go(self) -> Result<Done> {
        let Self {
            mut child,
            mut stderr,
        } = self;
        let begin = Instant::now();
        child
            .stdin
            .take()
            .context("stdin is piped")?
            .write_all(b"\n")?;
        let mut report = String::new();
        child
            .stdout
            .take()
            .context("stdout is piped")?
            .read_to_string(&mut report)?;
        let mut complaints = String::new();
        stderr.read_to_string(&mut complaints)?;
        let (status, usage) = process::wait(child)?;
        let duration = begin.elapsed();
        if !status.success() {
            bail!("the workload failed ({status}): {}", complaints.trim_end());
        }
        let report = serde_json::from_str(&report)
            .with_context(|| format!("the workload's report is no JSON: {report}"))?;
        Ok(Done {
            report,
            duration,
            usage,
        })
    }
}

/// What a workload did.
#[derive(Debug)]
pub(super) struct Done {
    /// What it says itself.
    report: Value,
    /// From its first call to its end.
    pub(super) duration: Duration,
    pub(super) usage: Usage,
}

impl Done {
    /// How often it called this function.
    pub(super) fn calls(&self, function: &str) -> u64 {
        ["calls", "driver_calls_own"]
            .iter()
            .filter_map(|list| self.report[list][function].as_u64())
            .sum()
    }
}
