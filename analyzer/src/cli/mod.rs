//! The commands that work on recordings, for `cudasnoop` and `cudasnoop-analyzer` alike.

mod fragmentation;
mod repair;
mod report;

use clap::Subcommand;

use crate::Error;

/// What the exit codes mean, for the end of a `--help`.
pub const EXIT_CODES: &str = "\
Exit codes: 0 success, also for a recording that is truncated or lossy (with a warning on
stderr); 1 failure; 2 wrong usage.";

/// A command that works on recordings.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Sum up a recording: calls, memory, launches, copies, waits, and what was lost
    Report(report::Arguments),
    /// Is the memory fragmented, inside PyTorch's segments or in device pages; would a request fit
    Fragmentation(fragmentation::Arguments),
    /// Cut the torn end off a recording, for tools that refuse it
    Repair(repair::Arguments),
}

/// Runs a command: data on standard output, warnings on standard error. A reader that closes
/// its end of a pipe has had enough, and that is a success.
pub fn run(command: &Command) -> Result<(), Error> {
    let result = match command {
        Command::Report(arguments) => report::run(arguments),
        Command::Fragmentation(arguments) => fragmentation::run(arguments),
        Command::Repair(arguments) => repair::run(arguments),
    };
    match result {
        Err(Error::Output(source)) if source.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
