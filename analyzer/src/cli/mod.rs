//! The commands that work on recordings, for `cudasnoop` and `cudasnoop-analyzer` alike.

mod diff;
mod errors;
mod export;
mod fragmentation;
mod hist;
mod html;
mod launches;
mod leaks;
mod memory;
mod oom;
mod output;
mod recordings;
mod repair;
mod report;
mod snapshot;
mod syncs;
mod transfers;

use clap::Subcommand;

use crate::Error;

/// What the exit codes mean, for the end of a `--help`.
pub const EXIT_CODES: &str = "\
Exit codes: 0 success, also for a recording that is truncated or lossy (with a warning on
stderr); 1 failure; 2 wrong usage.";

/// A command that works on recordings.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Sum up a recording: what it means, calls, memory, launches, copies, waits, what was lost
    Report(report::WithPage),
    /// Which kernels and graphs are launched, how often, from where
    Launches(report::Arguments),
    /// What is copied between host and device, how fast, and what it costs the host
    Transfers(report::Arguments),
    /// How long the host waits for the device, and who makes it wait
    Syncs(report::Arguments),
    /// Who holds the memory: by kind and by holder, now, at the peak, at any moment
    Memory(memory::Arguments),
    /// Does memory leak: what grows, how fast, whose it is; plateaus and sawtooths told apart
    Leaks(report::Arguments),
    /// Which calls failed: the first of each kind, what came before it and after
    Errors(report::Arguments),
    /// Is the memory fragmented, inside PyTorch's segments or in device pages; would a request fit
    Fragmentation(fragmentation::Arguments),
    /// Write a recording as other tools read it: Perfetto, Chrome, Parquet, JSON Lines, CSV, stacks
    Export(export::Arguments),
    /// How sizes, lifetimes, durations and launches are distributed; for `HdrHistogram`'s tools, too
    Hist(hist::Arguments),
    /// What two recordings differ in: memory, durations, calls; and what is only noise
    Diff(diff::Arguments),
    /// Cut the torn end off a recording, for tools that refuse it
    Repair(repair::Arguments),
    /// Why did PyTorch run out of memory: its messages in a log, judged by arithmetic
    Oom(oom::Arguments),
    /// What a PyTorch memory snapshot says; beside a recording, block by block
    Snapshot(snapshot::Arguments),
}

/// Runs a command: data on standard output, warnings on standard error. A reader that closes
/// its end of a pipe has had enough, and that is a success.
pub fn run(command: &Command) -> Result<(), Error> {
    let result = match command {
        Command::Report(arguments) => report::run(arguments),
        Command::Launches(arguments) => launches::run(arguments),
        Command::Transfers(arguments) => transfers::run(arguments),
        Command::Syncs(arguments) => syncs::run(arguments),
        Command::Leaks(arguments) => leaks::run(arguments),
        Command::Errors(arguments) => errors::run(arguments),
        Command::Memory(arguments) => memory::run(arguments),
        Command::Fragmentation(arguments) => fragmentation::run(arguments),
        Command::Export(arguments) => export::run(arguments),
        Command::Hist(arguments) => hist::run(arguments),
        Command::Diff(arguments) => diff::run(arguments),
        Command::Repair(arguments) => repair::run(arguments),
        Command::Oom(arguments) => oom::run(arguments),
        Command::Snapshot(arguments) => snapshot::run(arguments),
    };
    match result {
        Err(Error::Output(source)) if source.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
