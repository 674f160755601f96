//! What a recording says, summed up: [`Report`], made by a [`Collector`].
//!
//! The structs here are the JSON: field names and types are those of docs/report.md, and
//! change only with [`SCHEMA`]. A field that the recording does not tell is `None` (null),
//! never 0.

mod accounts;
mod bounds;
mod call_pass;
mod calls;
pub(crate) mod capped;
mod collect;
mod graphs;
mod launches;
mod left_out;
mod life;
mod memory;
mod memory_pass;
mod recording;
pub(crate) mod row;
mod sampled;
mod shapes;

use std::collections::BTreeMap;

use agent_common::Layer;
use serde::{Serialize, Serializer};

use crate::fragmentation;
use crate::host::Host;

use crate::failures::{Failure, Refusals};
use crate::findings::Finding;
use crate::growth::{Growth, Sleep};
pub(crate) use calls::is_allocation;
pub(crate) use capped::Capped;
pub(crate) use graphs::{GRAPHS, Graph, Graphs};

pub use crate::histogram::{Bucket, Distribution, Percentiles};
pub use crate::memory::{Kinds, Torch as TorchMemory};
use crate::oom::OutOfMemory;
pub use collect::{COLUMNS, Collector};
pub use left_out::{Kept, LeftOut};
pub use recording::{Lost, Recording, Segment, Window};
pub(crate) use row::Row;
pub use sampled::Sampled;
pub(crate) use sampled::Windows;

/// Name and version of the JSON. The version changes when a key goes or changes its meaning;
/// new keys may come without.
pub const SCHEMA: &str = "cudasnoop.report/1";

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What it means, the most urgent first.
    pub findings: Vec<Finding>,
    /// The recording as a whole.
    pub recording: Recording,
    /// What part of it all else is about.
    pub window: Window,
    /// Reported calls by function, the most frequent first.
    pub calls: Vec<Calls>,
    /// Device memory by process and device.
    pub memory: Vec<Memory>,
    /// How memory went over time, as `leaks` shows it.
    #[serde(skip)]
    pub growth: Vec<Growth>,
    /// Stretches in which a program gave physical memory back and kept its addresses, likewise.
    #[serde(skip)]
    pub sleeps: Vec<Sleep>,
    /// Calls that failed, as `errors` shows them.
    #[serde(skip)]
    pub failures: Vec<Failure>,
    /// Allocations that found no memory, likewise.
    #[serde(skip)]
    pub refusals: Vec<Refusals>,
    /// When PyTorch ran out of memory, as `oom` judges it.
    #[serde(skip)]
    pub out_of_memory: Vec<OutOfMemory>,
    /// Allocations of device memory, all functions and processes together.
    pub allocations: Allocations,
    /// Kernel launches by function.
    pub launches: Vec<Launches>,
    /// Kernels, the most launched first.
    pub kernels: Vec<Kernel>,
    /// Graph launches by process and graph, the most launched first.
    pub graph_launches: Vec<GraphLaunches>,
    /// Copies by direction.
    pub copies: Vec<Copies>,
    /// Time that the host waited for the device, by process.
    pub waits: Vec<Waits>,
    /// Processes, traced or seen in a row.
    pub processes: Vec<Process>,
    /// Calls that had not returned when the recording ended, the oldest first.
    pub in_flight: Vec<OpenCall>,
    /// Calls whose thread died or jumped out inside them; where calls are sampled, also those whose
    /// window was over before they returned.
    pub abandoned: Vec<OpenCall>,
    /// What the kernel counted for each function, over the whole recording and all processes.
    pub accounts: Vec<Account>,
    /// Functions that the recorder could not trace: their calls are in no count.
    pub untraced: Vec<Untraced>,
    /// Stretches in which calls may have been missed.
    pub gaps: Vec<Gap>,
    /// Times for which a process was stopped while probes were attached.
    pub holds: Vec<Hold>,
    /// How the host drove the device: `launches`, `transfers` and `syncs` have it in their JSON.
    #[serde(skip)]
    pub host: Host,
    /// The memory of each process at its end, or that of the window: what `fragmentation` says,
    /// without segments and blocks.
    #[serde(skip)]
    pub fragmentation: Vec<fragmentation::Process>,
}

/// The reported calls of one function.
#[derive(Clone, Debug, Serialize)]
pub struct Calls {
    /// The function.
    pub api: &'static str,
    /// The library: `runtime`, `driver` or `torch`.
    #[serde(serialize_with = "layer")]
    pub layer: Layer,
    /// What it is about, as `--events` names it.
    pub family: &'static str,
    /// Calls with a row.
    pub calls: u64,
    /// Of them, those inside which a driver call of the same effect was seen and folded; `None`
    /// where only entries are probed, which come before it, and outside the runtime.
    pub seen_in_driver: Option<u64>,
    /// Failed calls by code; `None` where no call's result is known (probed at entry only).
    pub errors: Option<BTreeMap<i32, u64>>,
    /// Bytes that successful calls allocated or copied, and for PyTorch's reports those of
    /// allocations; `None` for functions that do neither.
    pub bytes: Option<u64>,
    /// ns in the call; `None` where no return was seen.
    pub duration_ns: Option<Durations>,
}

/// Durations, ns of host time, probe cost included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Durations {
    /// Quantiles and maximum.
    #[serde(flatten)]
    pub percentiles: Percentiles,
    /// Their sum.
    pub total: u64,
}

/// One process's memory on one device, at the end of the window.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// Process id.
    pub pid: u32,
    /// Clock ticks after boot when the process started: tells processes with one id apart.
    pub start_time: Option<u64>,
    /// Device ordinal as the process counts; `None` where unknown.
    pub device: Option<i32>,
    /// The process's own memory on it, allocated and not freed: device, pool and VMM. Like what
    /// follows up to `by_kind` it is `None` for a process whose returns were not probed.
    pub live_bytes: Option<u64>,
    /// How many blocks, arrays and physical memories these are.
    pub live_blocks: Option<u64>,
    /// Bytes of the pages that they touch.
    pub held_bytes: Option<u64>,
    /// `held_bytes - live_bytes`.
    pub waste_bytes: Option<u64>,
    /// Most bytes that were live at once in the window.
    pub peak_bytes: Option<u64>,
    /// Bytes that were live when the process, its program or a context ended.
    pub ended_bytes: Option<u64>,
    /// Live bytes by kind.
    pub by_kind: Option<Kinds>,
    /// Bytes of the device that were in use when the program last asked and that no allocation
    /// of this process accounts for; `None`: it never asked, or the figures do not fit together.
    pub unattributed_bytes: Option<u64>,
    /// What PyTorch's caching allocator reported last; `None` if nothing.
    pub torch: Option<TorchMemory>,
}

/// Allocations of device memory.
#[derive(Clone, Debug, Serialize)]
pub struct Allocations {
    /// Sizes of successful ones, bytes; `None` if there were none.
    pub sizes: Option<Distribution>,
    /// Sizes asked for by failed ones, bytes; `None` if there were none.
    pub failed_sizes: Option<Distribution>,
}

/// Kernel launches through one function.
#[derive(Clone, Debug, Serialize)]
pub struct Launches {
    /// The function.
    pub api: &'static str,
    /// Launches with a row.
    pub launches: u64,
    /// Of them, those that went into a graph while a stream was captured: they ran nothing then.
    pub captured: u64,
    /// Their shapes.
    #[serde(flatten)]
    pub shape: LaunchShape,
}

/// Shapes of launches. `None` where no launch's shape could be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaunchShape {
    /// Blocks per grid.
    pub grid_blocks: Option<Distribution>,
    /// Threads per block.
    pub block_threads: Option<Distribution>,
    /// Threads per launch.
    pub launch_threads: Option<Distribution>,
}

/// A kernel: all launches of one name from one module.
#[derive(Clone, Debug, Serialize)]
pub struct Kernel {
    /// Name as the compiler made it; `None` while unknown, and for all kernels beyond the
    /// first 65,536.
    pub name: Option<String>,
    /// The C++ name; `None` for a name that is none.
    pub demangled: Option<String>,
    /// File that the kernel is in; `None` where unknown.
    pub module: Option<String>,
    /// For a kernel without a name, the host stub or driver handle that it was launched by.
    #[serde(serialize_with = "hex")]
    pub handle: Option<u64>,
    /// Launches with a row.
    pub launches: u64,
    /// Of them, those that went into a graph while a stream was captured: they ran nothing then.
    pub captured: u64,
    /// Their shapes.
    #[serde(flatten)]
    pub shape: LaunchShape,
}

/// Launches of one graph by one process.
#[derive(Clone, Debug, Serialize)]
pub struct GraphLaunches {
    /// Process id; `None`: all graphs beyond the first 4,096.
    pub pid: Option<u32>,
    /// The executable graph; `None` where not read.
    #[serde(serialize_with = "hex")]
    pub exec: Option<u64>,
    /// Nodes of the graph, where the program asked for them.
    pub nodes: Option<u64>,
    /// Kernel launches that were captured into it by the thread that ended the capture; `None`
    /// for a graph whose capture was not seen, and where launches were sampled or not traced.
    pub kernels: Option<u64>,
    /// Launches with a row.
    pub launches: u64,
    /// ns in the call.
    pub duration_ns: Option<Durations>,
}

/// Copies in one direction.
#[derive(Clone, Debug, Serialize)]
pub struct Copies {
    /// `host_to_host`, `host_to_device`, `device_to_host`, `device_to_device`, or `default`
    /// where CUDA inferred it from the addresses; `None` where unknown.
    pub direction: Option<&'static str>,
    /// What the host's side was: `pinned`, `registered`, `managed`, `pageable`, or `unknown`;
    /// `None` where the copy has no host side, or the direction is not known.
    pub host: Option<&'static str>,
    /// Copies with a row.
    pub copies: u64,
    /// Of them, those that returned an error.
    pub failed: u64,
    /// Bytes of all but the failed ones.
    pub bytes: u64,
    /// Their sizes, bytes.
    pub sizes: Option<Distribution>,
    /// ns in the call: all of the copy for a synchronous one, its submission else.
    pub duration_ns: Option<Durations>,
}

/// Waits of one process's threads for the device.
#[derive(Clone, Debug, Serialize)]
pub struct Waits {
    /// Process id; `None`: all processes beyond the first 1,024.
    pub pid: Option<u32>,
    /// Waits with a row.
    pub waits: u64,
    /// ns in the call, of all threads together.
    pub duration_ns: Option<Durations>,
}

/// A process. What a recording without a row about it cannot tell is `None`.
#[derive(Clone, Debug, Serialize)]
pub struct Process {
    /// Process id in the recorder's pid namespace.
    pub pid: u32,
    /// Clock ticks after boot when it started.
    pub start_time: Option<u64>,
    /// Process id in its own namespace.
    pub namespace_pid: Option<u32>,
    /// Its parent when it was first seen.
    pub parent: Option<u32>,
    /// Its executable.
    pub exe: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Whether it was traced from before its first CUDA call on.
    pub from_start: Option<bool>,
    /// Why its calls were probed at entry alone, so that results, durations and memory are not known;
    /// `None`: they were not, or nobody told.
    pub entry_only: Option<String>,
    /// When its end was recorded, ns of `CLOCK_MONOTONIC`; `None` if it was not.
    pub ended_ns: Option<u64>,
    /// Whether the recording has a call of it.
    pub has_calls: bool,
    /// Successful frees of blocks whose allocation is not in the recording.
    pub unknown_frees: u64,
    /// Blocks whose free is not in the recording: their address was allocated again.
    pub lost_frees: u64,
    /// Successful allocations whose address or size could not be read; in no total.
    pub unread_allocations: u64,
    /// Whether its memory calls came in windows at last, for the sake of an overhead budget, so that
    /// it is not known what it holds.
    pub memory_sampled: bool,
}

/// A call that did not return.
#[derive(Clone, Debug, Serialize)]
pub struct OpenCall {
    /// The function.
    pub api: Option<&'static str>,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// When it was entered, ns of `CLOCK_MONOTONIC`.
    pub entered_ns: u64,
    /// How long it had been running then.
    pub age_ns: Option<u64>,
    /// The stream that it concerns.
    #[serde(serialize_with = "hex")]
    pub stream: Option<u64>,
    /// The event or graph that it concerns.
    #[serde(serialize_with = "hex")]
    pub handle: Option<u64>,
    /// The block that it concerns, or a copy's destination.
    #[serde(serialize_with = "hex")]
    pub address: Option<u64>,
}

/// What the kernel counted for one function, against what the recording holds.
#[derive(Clone, Debug, Serialize)]
pub struct Account {
    /// The function.
    pub api: String,
    /// Calls made, without folded ones.
    pub made: u64,
    /// Driver calls folded into the runtime call that made them.
    pub folded: u64,
    /// Calls reported.
    pub reported: u64,
    /// Calls lost to a full ring buffer.
    pub lost_ring: u64,
    /// Calls lost to a full pairing map.
    pub lost_pairing: u64,
    /// Calls that never returned.
    pub abandoned: u64,
    /// Calls that had not returned yet.
    pub in_flight: u64,
    /// Begins of frees, and kernel names, lost to a full ring buffer.
    pub lost_extra: u64,
    /// In a segment of a rolling recording: calls made before it that had no row then.
    pub carried_in: u64,
    /// In such a segment: calls that had no row when it ended.
    pub carried_out: u64,
    /// Calls with a row in this file; `None` for a function that this version does not know.
    pub rows: Option<u64>,
    /// Whether `carried in + made = reported + lost + abandoned + in flight + carried out`, and
    /// every reported, abandoned and in-flight call has its row.
    pub balanced: bool,
}

impl Account {
    /// Calls that the kernel accounts for.
    pub fn accounted(&self) -> u64 {
        let Self {
            reported,
            lost_ring,
            lost_pairing,
            abandoned,
            in_flight,
            carried_out,
            ..
        } = *self;
        let counts = [
            reported,
            lost_ring,
            lost_pairing,
            abandoned,
            in_flight,
            carried_out,
        ];
        counts.into_iter().fold(0, u64::saturating_add)
    }

    /// Calls that are to be accounted for.
    pub fn to_account_for(&self) -> u64 {
        self.carried_in.saturating_add(self.made)
    }
}

/// A function that is there and was not traced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Untraced {
    /// File that it is in.
    pub module: String,
    /// Its symbol.
    pub symbol: String,
    /// Why it was not traced.
    pub reason: String,
}

/// A stretch in which calls may have been missed.
#[derive(Clone, Debug, Serialize)]
pub struct Gap {
    /// The process concerned.
    pub pid: u32,
    /// When it was noticed, ns of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// Why.
    pub reason: String,
    /// Its length, ns; `None` where unknown.
    pub duration_ns: Option<u64>,
}

/// A time for which a process was stopped.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Hold {
    /// The process.
    pub pid: u32,
    /// When, ns of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// How long.
    pub duration_ns: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn layer<S: Serializer>(layer: &Layer, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(layer.name())
}

/// Handles and addresses are hex strings: JSON readers that keep numbers as doubles would
/// round them.
#[expect(clippy::ref_option, reason = "the signature that serde asks for")]
fn hex<S: Serializer>(value: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(&format_args!("{value:#x}")),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests;
