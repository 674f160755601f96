//! `cudasnoop trace`.

use std::process::ExitCode;

use clap::Args;
use wildmatch::WildMatch;

use super::{record::exit_code, session_args::SessionArgs, units};
use crate::{
    session::{self, SessionError},
    sink::{Filter, Lines},
};

/// Print CUDA calls as they happen, one line each.
///
/// Time (UTC), process and thread, function with its arguments, result, and how long the call
/// took the host.
#[derive(Debug, Args)]
#[command(group = super::session_args::target(), after_help = "\
Examples:
  cudasnoop trace -- python3 train.py                   everything, from the first call on
  cudasnoop trace -p 4242 --api 'cudaMalloc*'           watch allocations
  cudasnoop trace -p 4242 --events memory --min-size 1MiB
  cudasnoop trace -p 4242 --errors                      only what failed
  cudasnoop trace --json -p 4242 | jq .api              one JSON object a line

The traced command's own output goes to the same place as the lines.")]
pub(super) struct TraceArgs {
    /// Functions to show, with * and ?; may be given several times
    #[arg(long, value_name = "PATTERN")]
    api: Vec<String>,

    /// Show only calls about at least this many bytes: 1MiB
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    min_size: Option<u64>,

    /// Show only calls that failed
    #[arg(long)]
    errors: bool,

    /// One JSON object a line (docs/trace.md)
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    session: SessionArgs,
}

/// Traces.
pub(super) fn run(args: &TraceArgs) -> anyhow::Result<ExitCode> {
    let TraceArgs {
        api,
        min_size,
        errors,
        json,
        session,
    } = args;
    let mut options = session.options();
    let filter = Filter {
        families: options.families.clone(),
        apis: api.iter().map(|pattern| WildMatch::new(pattern)).collect(),
        min_size: *min_size,
        errors: *errors,
    };
    options.names_at_once = true;
    let json = *json;
    let outcome = session::run(
        &options,
        move |sources| Ok(Box::new(Lines::new(filter, json, (sources.clock)()))),
        None,
    );
    match outcome {
        Ok(outcome) => {
            let lost: u64 = outcome
                .totals
                .iter()
                .map(|totals| totals.counters.lost_ring + totals.counters.lost_pairing)
                .sum();
            if lost > 0 {
                tracing::warn!(
                    "{lost} calls lost: printing is slower than the calls come; `cudasnoop \
                     record` keeps up with more"
                );
            }
            Ok(exit_code(&outcome))
        }
        Err(SessionError::Sink(error)) if error.is_broken_pipe() => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error.into()),
    }
}
