//! `cudasnoop top`.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{ArgGroup, Args};

use super::{record::exit_code, session_args::SessionArgs, units};
use crate::top::{self, Address, Settings, Subject};

/// Watch memory, rates and kernels as they change, on the terminal.
///
/// Who holds the memory, what PyTorch has of it, calls, launches, copies and waits a second, the
/// kernels that are launched most, and what tracing itself loses and takes.
#[derive(Debug, Args)]
#[command(group = target(), after_help = "\
Examples:
  cudasnoop top -p 4242                           a running process
  cudasnoop top --all-in-pod                      all that can be seen
  cudasnoop top -- python3 train.py               from the first call on
  cudasnoop top --connect http://127.0.0.1:9411   what `cudasnoop serve` traces
  cudasnoop top -p 4242 --batch --iterations 1    once, as text

Keys: F1 or h explains them; q quits. A command's output is shown when the screen is gone.")]
pub(super) struct TopArgs {
    /// Address of a `cudasnoop serve`: its --admin
    #[arg(long, value_name = "URL", conflicts_with_all = [
        "pids", "Choice", "command", "duration", "events", "launch_returns", "attach", "ebpf_log",
    ])]
    connect: Option<Address>,

    /// Time between figures; + and - change it
    #[arg(short = 'd', long, value_name = "TIME", default_value = "1", value_parser = interval)]
    interval: Duration,

    /// Print text, a frame each interval, in place of taking the screen
    #[arg(short, long)]
    batch: bool,

    /// End after so many frames
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,

    /// File for the output of the command; by default it is kept, and printed at the end
    #[arg(long, value_name = "FILE", requires = "command")]
    output: Option<PathBuf>,

    #[command(flatten)]
    session: SessionArgs,
}

/// What can be looked at: what can be traced, or a server.
fn target() -> ArgGroup {
    super::session_args::target().arg("connect")
}

/// Not so short that looking is all that is done.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = units::duration(text)?;
    if interval < Duration::from_millis(100) {
        return Err("at least 100ms is expected".to_owned());
    }
    Ok(interval)
}

/// Shows.
pub(super) fn run(args: TopArgs) -> anyhow::Result<ExitCode> {
    let TopArgs {
        connect,
        interval,
        batch,
        iterations,
        output,
        session,
    } = args;
    let subject = match connect {
        Some(address) => Subject::Server(address),
        None => Subject::Session(Box::new(session.options())),
    };
    let outcome = top::run(Settings {
        subject,
        interval,
        batch,
        iterations,
        output,
    })?;
    Ok(outcome.map_or(ExitCode::SUCCESS, |outcome| exit_code(&outcome)))
}
