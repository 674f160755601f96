//! How long calls of a library may be missed that a running process loads: from its mapping until
//! it has its probes. The recording tells, as gaps.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::{
    Settings, recording,
    sample::{Sample, hundredths, number},
};
use crate::{doubles, layout, progress::say};

/// Processes that load a runtime and a driver, each when the one before has ended, or all at once.
const WAYS: [(&str, bool); 2] = [("one at a time", false), ("at once", true)];
const PROCESSES: usize = 64;
/// How long anything may take: it is given up then.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn run(settings: &Settings) -> Result<String> {
    let mut table = "`cudasnoop record --exe GLOB` and processes that load a runtime and a driver, each of an \
                     executable that was not met before; from the library's mapping to its probes, ms.\n\n\
                     | processes | median (least to most) | 99th percentile |\n|---|---|---|\n"
        .to_owned();
    let count = if settings.quick {
        PROCESSES / 8
    } else {
        PROCESSES
    };
    for (name, at_once) in WAYS {
        say(format_args!("libraries that arrive, {name}"));
        let gaps = gaps(&settings.folder, count, at_once)?;
        writeln!(
            table,
            "| {count}, {name} | {} | {} |",
            gaps.spread(hundredths),
            hundredths(gaps.percentile(99.0))
        )?;
    }
    Ok(table)
}

/// What the recording says of each.
fn gaps(folder: &Path, count: usize, at_once: bool) -> Result<Sample> {
    let file = folder.join("arrival.arrows");
    let messages = folder.join("arrival.txt");
    let mut recorder = Command::new(layout::dist().join("cudasnoop"))
        .args(["record", "--exe", "arrival-*", "-o"])
        .arg(&file)
        .env("CUDASNOOP_LOG", "debug")
        .stderr(fs::File::create(&messages)?)
        .spawn()
        .context("starting cudasnoop")?;
    let measured = (|| {
        wait_for(&messages, "waiting for more", 1)?;
        let mut processes = Vec::new();
        for index in 0..count {
            processes.push(Arriving::start(&executable(folder, index)?)?);
        }
        wait_for(&messages, "is watched", count)?;
        let attached = |times| wait_for(&messages, ": probes on ", 2 * times);
        if at_once {
            for process in &mut processes {
                process.go()?;
            }
        } else {
            for (index, mut process) in processes.drain(..).enumerate() {
                process.go()?;
                attached(index + 1)?;
            }
        }
        attached(count)
    })();
    command_to_end(&mut recorder)?;
    measured?;
    let report = recording::read(&file)?.report;
    let gaps: Sample = report["gaps"]
        .as_array()
        .context("a report lists gaps")?
        .iter()
        .filter(|gap| is_of_arrival(gap))
        .filter_map(|gap| Some(number(gap["duration_ns"].as_u64()?) / 1e6))
        .collect();
    ensure!(
        gaps.len() >= count,
        "{count} processes loaded a library, and the recording has {} gaps",
        gaps.len()
    );
    Ok(gaps)
}

fn is_of_arrival(gap: &Value) -> bool {
    gap["reason"]
        .as_str()
        .is_some_and(|reason| reason.contains("was mapped before it had probes"))
}

/// A file of its own, so that nothing is known of what it loads.
fn executable(folder: &Path, index: usize) -> Result<PathBuf> {
    let path = folder.join(format!("arrival-{index}"));
    fs::copy(doubles::workload("late"), &path).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// A program that loads a runtime when it is told to.
struct Arriving {
    child: Child,
    _stderr: BufReader<ChildStderr>,
}

impl Arriving {
    fn start(program: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .args([
                "--wait",
                "load",
                "--wait",
                "exit",
                "--calls",
                "1",
                "--after-ms",
                "0",
            ])
            .env("LD_LIBRARY_PATH", doubles::libraries())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let mut stderr = BufReader::new(child.stderr.take().context("stderr is piped")?);
        let mut line = String::new();
        stderr.read_line(&mut line)?;
        ensure!(line.starts_with("ready"), "{}: {line}", program.display());
        Ok(Self {
            child,
            _stderr: stderr,
        })
    }

    fn go(&mut self) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("stdin is piped")?;
        stdin
            .write_all(b"\n")
            .context("telling a workload to go on")
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        // It is ours, and has nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for(messages: &Path, words: &str, times: usize) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(messages)?;
        if text.matches(words).count() >= times {
            return Ok(());
        }
        if Instant::now() > until {
            bail!("cudasnoop does not say {words:?} {times} times in {PATIENCE:?}: {text}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn command_to_end(recorder: &mut Child) -> Result<()> {
    let pid = recorder.id().to_string();
    crate::command::run(Command::new("kill").args(["-INT", &pid]))?;
    let status = recorder.wait().context("waiting for cudasnoop")?;
    ensure!(status.success(), "cudasnoop record failed ({status})");
    Ok(())
}
