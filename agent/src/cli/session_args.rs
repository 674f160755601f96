//! What `record`, `trace` and `count` have in common.

use std::{ffi::OsString, sync::Arc, time::Duration};

use agent_common::Family;
use clap::{ArgGroup, Args, builder::PossibleValuesParser, builder::TypedValueParser as _};

use wildmatch::WildMatch;

use super::units;
use crate::{
    attach::EntryOnly,
    discover::{SHORTEST_CONTAINER_ID, Selection},
    kernel::AttachMode,
    session::{Options, Target},
};

/// What is traced, and how.
#[derive(Debug, Args)]
pub(super) struct SessionArgs {
    /// Process to trace, with its children; may be given several times
    #[arg(short, long = "pid", value_name = "PID", conflicts_with_all = ["command", "Choice"])]
    pids: Vec<u32>,

    #[command(flatten)]
    choice: Choice,

    /// Stop after this long: 30, 1.5s, 500ms, 10m. A command is asked to end (SIGTERM)
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    duration: Option<Duration>,

    /// Families of calls to trace
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = families())]
    events: Vec<Family>,

    /// Probe launches at return, too: their results and durations, at twice the cost
    #[arg(long)]
    launch_returns: bool,

    /// Probe calls at entry alone: they are counted, PyTorch's reports are whole, and memory is not
    /// known. By default (auto) where return probes might harm the process
    #[arg(long, value_name = "WHEN", value_enum, num_args = 0..=1, require_equals = true,
          default_value = "auto", default_missing_value = "always")]
    entry_only: EntryOnly,

    /// Where more than four processes have probes, those that have had CUDA's libraries for so long
    /// without calling cuInit lose theirs until they call it, for the others' sake
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration)]
    idle_after: Duration,

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
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "Choice")]
    command: Vec<OsString>,
}

/// Which processes, by what they are. More than one option: all must fit.
#[derive(Clone, Debug, Default, Args)]
#[group(id = "Choice", multiple = true)]
struct Choice {
    /// Processes whose executable fits, running or to come: a file name, or a path, with * and ?;
    /// may be given several times
    #[arg(long = "exe", value_name = "GLOB")]
    executables: Vec<String>,

    /// Processes in this cgroup and below: its path, with or without /sys/fs/cgroup
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,

    /// Processes of this container: its id, at least 12 digits of it
    #[arg(long, value_name = "ID", value_parser = container_id)]
    container: Option<String>,

    /// All processes that can be seen but cudasnoop itself and a pod's pause process: in a sidecar,
    /// the pod's
    #[arg(long)]
    all_in_pod: bool,
}

impl Choice {
    /// The selection, if anything is chosen.
    fn selection(&self) -> Option<Selection> {
        // Exhaustive: a new flag must choose.
        let Self {
            executables,
            cgroup,
            container,
            all_in_pod,
        } = self;
        let is_given =
            !executables.is_empty() || cgroup.is_some() || container.is_some() || *all_in_pod;
        is_given.then(|| Selection {
            executables: executables
                .iter()
                .map(|pattern| WildMatch::new(pattern))
                .collect(),
            cgroup: cgroup.as_ref().map(|path| {
                let below = path.strip_prefix("/sys/fs/cgroup").unwrap_or(path);
                below.to_owned()
            }),
            container: container.clone(),
        })
    }
}

/// A container's id, or enough of its beginning.
fn container_id(text: &str) -> Result<String, String> {
    // As `kubectl get pod -o jsonpath=...containerID` has it: containerd://ID.
    let id = text.rsplit("://").next().unwrap_or(text);
    if id.len() < SHORTEST_CONTAINER_ID || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!(
            "a container's id has 64 hex digits, of which at least {SHORTEST_CONTAINER_ID} are needed"
        ));
    }
    Ok(id.to_ascii_lowercase())
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

/// Names the arguments of which one must be given where nothing is traced by default.
pub(super) fn target() -> ArgGroup {
    ArgGroup::new("target").required(true).multiple(true).args([
        "pids",
        "executables",
        "cgroup",
        "container",
        "all_in_pod",
        "command",
    ])
}

impl SessionArgs {
    /// The options of the session, where the command line cannot be without a target.
    pub(super) fn options(&self) -> Options {
        self.options_or(&Target::Pids(Vec::new()))
    }

    /// The options of the session; what is traced where nothing was chosen.
    pub(super) fn options_or(&self, otherwise: &Target) -> Options {
        // Exhaustive: a new flag must reach the session.
        let Self {
            pids,
            choice,
            duration,
            events,
            launch_returns,
            entry_only,
            idle_after,
            attach,
            ring_size,
            threads,
            ebpf_log,
            command,
        } = self;
        let target = match choice.selection() {
            Some(selection) => Target::Matching(selection),
            None if !command.is_empty() => Target::Command(command.clone()),
            None if !pids.is_empty() => Target::Pids(pids.clone()),
            None => otherwise.clone(),
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
            entry_only: *entry_only,
            idle_after: *idle_after,
            names_at_once: false,
            duration: *duration,
            stop: Arc::default(),
            switch: Arc::default(),
            status: Arc::default(),
            max_overhead: None,
            ebpf_log: *ebpf_log,
            command_output: None,
        }
    }
}
