//! `cudasnoop record`.

use std::{
    io::{IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use agent_common::Counters;
use clap::Args;

use super::session_args::SessionArgs;
use crate::{
    session::{self, Outcome},
    sink::Recorder,
};

/// Record CUDA calls into a file.
///
/// The recording is an Arrow IPC stream that pyarrow and Polars open as it is; `cudasnoop
/// report` reads it. It stays readable whatever happens to the recorder or the machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cudasnoop record -o run.arrows -- python3 serve.py     from the first call on, children too
  cudasnoop record -o run.arrows -p 4242 --duration 30   a running process, for 30 s
  cudasnoop record -o mem.arrows --events memory,torch -p 4242

With a command, no call is missed: it is stopped for the moments (about a millisecond) in which
it loads a CUDA library; the recording has each of them. A process given by -p is never stopped.")]
pub(super) struct RecordArgs {
    /// File to write; an existing one is replaced
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    session: SessionArgs,
}

/// Records.
pub(super) fn run(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let RecordArgs { output, session } = args;
    let path = output.clone();
    let outcome = session::run(
        &session.options(),
        move |_| Ok(Box::new(Recorder::create(path)?)),
        None,
    )?;
    summarize(&outcome, output)?;
    Ok(exit_code(&outcome))
}

/// The command's exit code, or success.
pub(super) fn exit_code(outcome: &Outcome) -> ExitCode {
    outcome.exit_code.map_or(ExitCode::SUCCESS, |code| {
        ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1))
    })
}

/// A word on what was recorded, to stderr.
fn summarize(outcome: &Outcome, output: &std::path::Path) -> std::io::Result<()> {
    let mut stderr = std::io::stderr().lock();
    let all = outcome
        .totals
        .iter()
        .fold(Counters::default(), |sum, totals| sum.plus(totals.counters));
    let lost = all.lost_ring + all.lost_pairing;
    writeln!(
        stderr,
        "cudasnoop: {} events in {} ({})",
        outcome.summary.events,
        output.display(),
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
            output.display()
        )?;
    }
    Ok(())
}
