//! `cudasnoop serve`.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use agent_common::Family;
use clap::Args;

use super::{
    record::exit_code,
    session_args::{SessionArgs, families},
};
use crate::serve::{self, Settings};

/// Serve metrics for Prometheus, health checks, and an API, beside what is traced.
///
/// Runs until it is told to end, or what it traces has ended. Each option can also be set by an
/// environment variable, and in a configuration file (docs/serve.md); the command line goes
/// first, then the environment, then the file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
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
        session,
    } = args;
    let outcome = serve::run(Settings {
        listen,
        admin,
        strict,
        log_events,
        session: session.options(),
    })?;
    Ok(outcome.map_or(ExitCode::SUCCESS, |outcome| exit_code(&outcome)))
}
