//! What a workload is observed by: cudasnoop, and what it is compared with.

use std::{
    io::{BufRead as _, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Sender},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};

use super::{
    empty,
    process::{self, Usage},
    workload::{Waiting, on_processor},
};
use crate::layout;

/// How long attaching may take: it is given up then.
const PATIENCE: Duration = Duration::from_secs(120);

/// Something that observes a running process.
#[derive(Debug, Clone)]
pub(super) enum Observer {
    /// Probes that do nothing.
    Empty,
    /// `cudasnoop count`.
    Count,
    /// `cudasnoop record` into this file, with these options.
    Record { file: PathBuf, options: Vec<String> },
    /// bpftrace, which counts the entries of these functions.
    Bpftrace(Vec<empty::Function>),
}

/// An observer that has attached.
#[derive(Debug)]
pub(super) struct Observing {
    child: Child,
    ends_by_signal: bool,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
}

impl Observer {
    /// Starts it on a processor of its own; returns when all its probes are there, on all of
    /// `targets`. Only cudasnoop takes several.
    pub(super) fn start(&self, targets: &[Waiting], processor: u32) -> Result<Observing> {
        let mut command = self.command(targets, processor);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {command:?}"))?;
        // So many lines with this word say that it is there.
        let (word, lines) = match self {
            Self::Count | Self::Record { .. } => {
                let libraries: Result<Vec<_>> =
                    targets.iter().map(Waiting::cuda_libraries).collect();
                let libraries = libraries?.into_iter();
                // Links on all processes come with the first one.
                let all = if self.is_shared() {
                    libraries.max().unwrap_or(0)
                } else {
                    libraries.sum()
                };
                (": probes on ", all)
            }
            Self::Empty | Self::Bpftrace(_) => ("attached", 1),
        };
        let (tell, seen) = mpsc::channel();
        let stdout = child.stdout.take().context("stdout is piped")?;
        let stderr = child.stderr.take().context("stderr is piped")?;
        let observing = Observing {
            child,
            ends_by_signal: !matches!(self, Self::Empty),
            stdout: follow(stdout, word, tell.clone()),
            stderr: follow(stderr, word, tell),
        };
        for _ in 0..lines {
            if seen.recv_timeout(PATIENCE).is_err() {
                let ended = observing.stop().err();
                let slow = || anyhow!("not all its probes came in {PATIENCE:?}");
                let why = ended.unwrap_or_else(slow);
                return Err(why.context(format!("{command:?} did not attach")));
            }
        }
        Ok(observing)
    }

    fn is_shared(&self) -> bool {
        match self {
            Self::Record { options, .. } => options.iter().any(|option| option == "shared"),
            Self::Empty | Self::Count | Self::Bpftrace(_) => false,
        }
    }

    fn command(&self, targets: &[Waiting], processor: u32) -> Command {
        let pids: Vec<String> = targets
            .iter()
            .map(|target| target.pid().to_string())
            .collect();
        let first = pids.first().map_or("", String::as_str);
        let cudasnoop = |verb| {
            let mut command = on_processor(processor, &layout::dist().join("cudasnoop"));
            command.env("CUDASNOOP_LOG", "debug").arg(verb);
            for pid in &pids {
                command.args(["-p", pid]);
            }
            command
        };
        match self {
            Self::Empty => {
                let mut command = on_processor(processor, &empty::loader());
                command
                    .args(["--pid", first, "--object"])
                    .arg(empty::object());
                command
            }
            Self::Count => cudasnoop("count"),
            Self::Record { file, options } => {
                let mut command = cudasnoop("record");
                command.args(options).arg("-o").arg(file);
                command
            }
            Self::Bpftrace(functions) => {
                let points: Vec<String> = functions
                    .iter()
                    .map(|function| format!("uprobe:{}:{}", function.file, function.symbol))
                    .collect();
                // What BEGIN prints is shown when all probes are there.
                let script = format!(
                    "BEGIN {{ printf(\"attached\\n\"); }} {} {{ @calls[probe] = count(); }}",
                    points.join(", ")
                );
                let mut command = on_processor(processor, "bpftrace".as_ref());
                command.args(["-B", "line", "-p", first, "-e", &script]);
                command
            }
        }
    }
}

/// Reads all that a process says, and tells of each line that has `word`.
fn follow(
    stream: impl Read + Send + 'static,
    word: &'static str,
    tell: Sender<()>,
) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if line.contains(word) {
                // Nobody listens any more once it has attached.
                let _ = tell.send(());
            }
            text.push_str(&line);
            text.push('\n');
        }
        text
    })
}

impl Observing {
    /// Ends it; what it took, and what it wrote to stdout.
    pub(super) fn stop(self) -> Result<(Usage, String)> {
        let Self {
            child,
            ends_by_signal,
            stdout,
            stderr,
        } = self;
        if ends_by_signal {
            process::terminate(&child)?;
        }
        let (status, usage) = process::wait(child)?;
        let [stdout, stderr] = [stdout, stderr].map(|stream| stream.join().unwrap_or_default());
        if !status.success() {
            bail!("it failed ({status}): {}", stderr.trim_end());
        }
        Ok((usage, stdout))
    }
}
