//! `cudasnoop serve`.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use agent_common::Family;
use clap::Args;

use super::{
    record::exit_code,
    session_args::{SessionArgs, families},
    units,
};
use crate::{
    budget::MaxOverhead,
    discover::Selection,
    serve::{self, Settings},
    session::{Options, Target},
    sink::RollingOptions,
};

/// Serve metrics for Prometheus, health checks, and an API, beside what is traced.
///
/// Without a choice of processes: all that can be seen, running and to come, but itself and a pod's
/// pause process. Runs until it is told to end, or the processes or the command that were named
/// have ended. Each option can also be set by an
/// environment variable, and in a configuration file (docs/serve.md); the command line goes
/// first, then the environment, then the file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cudasnoop serve                                                   in a pod: all its processes
  cudasnoop serve -p 4242
  curl http://127.0.0.1:9410/metrics
  curl http://127.0.0.1:9411/api/v1/memory                          who holds the memory now
  curl -o run.arrows 'http://127.0.0.1:9411/api/v1/record?seconds=30'
  cudasnoop report run.arrows

Where tracing cannot work, health is still answered, /readyz says why, and it is tried again.")]
pub(super) struct ServeArgs {
    /// Where /metrics, /healthz and /readyz are served
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9410")]
    listen: SocketAddr,

    /// Where the API is served, without a password: keep it to this machine
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9411")]
    admin: SocketAddr,

    /// Configuration file, TOML: keys are the names of these options
    #[arg(long, value_name = "FILE", env = super::config::VARIABLE)]
    config: Option<PathBuf>,

    /// End with an error where tracing cannot work, in place of trying again
    #[arg(long)]
    strict: bool,

    /// Families of calls to print on standard output, as `cudasnoop trace` does
    #[arg(long, value_name = "FAMILIES", value_delimiter = ',', value_parser = families())]
    log_events: Vec<Family>,

    /// Folder for a recording in segments, of which the oldest are removed
    #[arg(long, value_name = "DIR")]
    rolling: Option<PathBuf>,

    /// The most that may lie in the folder of --rolling, earlier recordings included
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = units::disk_budget)]
    disk: u64,

    /// The share of a thread's time that probes may take: launches, copies and waits are traced in
    /// windows, and their metrics are estimates. `off`: all is traced all the time
    #[arg(long, value_name = "SHARE", default_value = "1%")]
    max_overhead: MaxOverhead,

    #[command(flatten)]
    session: SessionArgs,
}

/// Serves.
pub(super) fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let ServeArgs {
        listen,
        admin,
        // Read before the others were.
        config: _,
        strict,
        log_events,
        rolling,
        disk,
        max_overhead,
        session,
    } = args;
    let session = Options {
        max_overhead: max_overhead.share(),
        ..session.options_or(&Target::Matching(Selection::default()))
    };
    let carry_on = !matches!(session.target, Target::Command(_));
    let outcome = serve::run(Settings {
        listen,
        admin,
        strict,
        log_events,
        rolling: rolling.map(|folder| RollingOptions {
            folder,
            disk_bytes: disk,
            carry_on,
        }),
        session,
    })?;
    Ok(outcome.map_or(ExitCode::SUCCESS, |outcome| exit_code(&outcome)))
}
