//! What `record`, `trace` and `count` have in common.

use std::{ffi::OsString, sync::Arc, time::Duration};

use agent_common::Family;
use clap::{Args, builder::PossibleValuesParser, builder::TypedValueParser as _};

use super::units;
use crate::{
    kernel::AttachMode,
    session::{Options, Target},
};

/// What is traced, and how.
#[derive(Debug, Args)]
pub(super) struct SessionArgs {
    /// Process to trace, with its children; may be given several times
    #[arg(short, long = "pid", value_name = "PID", conflicts_with = "command")]
    pids: Vec<u32>,

    /// Stop after this long: 30, 1.5s, 500ms, 10m. A command is asked to end (SIGTERM)
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,

    /// Families of calls to trace
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = families())]
    events: Vec<Family>,

    /// Probe launches at return, too: their results and durations, at twice the cost
    #[arg(long)]
    launch_returns: bool,

    /// How to attach; by default the best that the kernel can do
    #[arg(long, value_enum, value_name = "MODE")]
    attach: Option<AttachMode>,

    /// Ring buffer between kernel and cudasnoop: a power of two
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = units::ring_size)]
    ring_size: u32,

    /// Threads that may make CUDA calls at the same time, over all traced processes
    #[arg(long, value_name = "N", default_value_t = 8192,
          value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    threads: u32,

    /// Show the eBPF programs' own debug lines (needs a build with them)
    #[arg(long)]
    ebpf_log: bool,

    /// Command to start and trace, with all that it starts
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "pids")]
    command: Vec<OsString>,
}

/// The families, by their names.
pub(super) fn families() -> impl clap::builder::TypedValueParser<Value = Family> {
    PossibleValuesParser::new(Family::ALL.map(Family::name)).map(|name| {
        Family::ALL
            .into_iter()
            .find(|family| family.name() == name)
            .unwrap_or(Family::Memory)
    })
}

impl SessionArgs {
    /// The options of the session.
    pub(super) fn options(&self) -> Options {
        // Exhaustive: a new flag must reach the session.
        let Self {
            pids,
            duration,
            events,
            launch_returns,
            attach,
            ring_size,
            threads,
            ebpf_log,
            command,
        } = self;
        let target = if command.is_empty() {
            Target::Pids(pids.clone())
        } else {
            Target::Command(command.clone())
        };
        let families = if events.is_empty() {
            Family::ALL.to_vec()
        } else {
            events.clone()
        };
        Options {
            target,
            families,
            attach: *attach,
            ring_bytes: *ring_size,
            threads: *threads,
            count_only: false,
            launch_returns: *launch_returns,
            names_at_once: false,
            duration: *duration,
            stop: Arc::default(),
            ebpf_log: *ebpf_log,
        }
    }
}
