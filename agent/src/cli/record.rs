//! `cudasnoop record`.

use std::{
    io::{IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use super::{session_args::SessionArgs, units};
use crate::{
    session::{self, Outcome, Target},
    sink::{Monitor, Recorder, Rolling, RollingOptions, Sink},
};
use agent_common::Counters;
use clap::{ArgGroup, Args};

/// Record CUDA calls into a file, or into a folder within a disk budget.
///
/// The recording is an Arrow IPC stream that pyarrow and Polars open as it is; `cudasnoop
/// report` reads it. It stays readable whatever happens to the recorder or the machine.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("place").required(true).args(["output", "rolling"]))]
#[command(group = super::session_args::target(), after_help = "\
Examples:
  cudasnoop record -o run.arrows -- python3 serve.py     from the first call on, children too
  cudasnoop record -o run.arrows -p 4242 --duration 30   a running process, for 30 s
  cudasnoop record -o mem.arrows --events memory,torch -p 4242
  cudasnoop record --rolling /var/lib/cudasnoop --disk 2GiB -p 4242   for days: the latest 2 GiB

With a command, no call is missed: it is stopped for the moments (about a millisecond) in which
it loads a CUDA library; the recording has each of them. A process given by -p is never stopped.

With --rolling, every segment can be read by itself; a recorder that is started again goes on
from the last one (docs/rolling.md).")]
pub(super) struct RecordArgs {
    /// File to write; an existing one is replaced
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Folder for a recording in segments, of which the oldest are removed
    #[arg(long, value_name = "DIR")]
    rolling: Option<PathBuf>,

    /// The most that may lie in the folder of --rolling, earlier recordings included
    #[arg(long, value_name = "SIZE", default_value = "2GiB", conflicts_with = "output",
          value_parser = units::disk_budget)]
    disk: u64,

    #[command(flatten)]
    session: SessionArgs,
}

/// Records.
pub(super) fn run(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let RecordArgs {
        output,
        rolling,
        disk,
        session,
    } = args;
    let outcome = match (output, rolling) {
        (_, Some(folder)) => record_rolling(folder, *disk, session)?,
        (Some(file), None) => record_file(file, session)?,
        (None, None) => anyhow::bail!("neither --output nor --rolling is given"),
    };
    Ok(exit_code(&outcome))
}

fn record_file(file: &Path, session: &SessionArgs) -> anyhow::Result<Outcome> {
    let path = file.to_owned();
    let outcome = session::run(
        &session.options(),
        move |_| Ok(Box::new(Recorder::create(path)?)),
        None,
    )?;
    let place = file.display().to_string();
    summarize(&outcome, &place, file)?;
    Ok(outcome)
}

fn record_rolling(folder: &Path, disk: u64, session: &SessionArgs) -> anyhow::Result<Outcome> {
    let options = session.options();
    let rolling = RollingOptions {
        folder: folder.to_owned(),
        disk_bytes: disk,
        carry_on: !matches!(options.target, Target::Command(_)),
    };
    let mut monitor = Arc::new(Monitor::default());
    let outcome = session::run(
        &options,
        |sources| {
            let sink = Rolling::create(rolling, sources)?;
            monitor = sink.monitor();
            Ok(Box::new(sink) as Box<dyn Sink>)
        },
        None,
    )?;
    let status = monitor.status();
    let segments = match status.segments_begun {
        1 => "1 segment".to_owned(),
        count => format!("{count} segments"),
    };
    let place = format!("{segments} in {}", folder.display());
    let newest = status.newest.unwrap_or_else(|| folder.to_owned());
    summarize(&outcome, &place, &newest)?;
    for (cause, events) in status.unwritten {
        writeln!(
            std::io::stderr(),
            "cudasnoop: {events} events were not written: {cause}"
        )?;
    }
    Ok(outcome)
}

/// The command's exit code, or success.
pub(super) fn exit_code(outcome: &Outcome) -> ExitCode {
    outcome.exit_code.map_or(ExitCode::SUCCESS, |code| {
        ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
    })
}

/// A word on what was recorded, to stderr: where, and what to look at next.
fn summarize(outcome: &Outcome, place: &str, next: &Path) -> std::io::Result<()> {
    let mut stderr = std::io::stderr().lock();
    let all = outcome
        .totals
        .iter()
        .fold(Counters::default(), |sum, totals| sum.plus(totals.counters));
    let lost = all.lost_ring + all.lost_pairing;
    writeln!(
        stderr,
        "cudasnoop: {} events in {place} ({})",
        outcome.summary.events,
        analyzer::text::bytes(outcome.summary.bytes)
    )?;
    if outcome.libraries == 0 {
        writeln!(
            stderr,
            "cudasnoop: no CUDA library was loaded in that time: there was nothing to trace"
        )?;
    }
    if lost > 0 {
        writeln!(
            stderr,
            "cudasnoop: {lost} of {} calls lost; a larger --ring-size, or fewer --events, helps",
            all.made
        )?;
    }
    for call in &outcome.in_flight {
        let name = call.api.api().map_or("?", |api| api.name);
        writeln!(
            stderr,
            "cudasnoop: {name} had not returned after {} (process {}, thread {})",
            analyzer::text::duration(call.age),
            call.pid,
            call.tid
        )?;
    }
    if std::io::stderr().is_terminal() && outcome.summary.events > 0 {
        writeln!(
            stderr,
            "cudasnoop: now see `cudasnoop report {}`",
            next.display()
        )?;
    }
    Ok(())
}
