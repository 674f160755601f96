//! The report. The structs here are the JSON: docs/memory.md describes every key.
//!
//! Sizes are bytes. Times are ns of `CLOCK_MONOTONIC`. Handles are hex strings. What is not known
//! is null, never 0.

use ledger::{MemoryKind, Tally};
use serde::{Serialize, Serializer};

/// Name and version of the JSON. The version changes when a key goes or changes its meaning;
/// new keys may come without.
pub const SCHEMA: &str = "cudasnoop.memory/1";

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The recording.
    pub recording: Recording,
    /// The moment that was asked for; null: the end of each process, or of the recording.
    pub at_ns: Option<u64>,
    /// Processes that had to do with memory.
    pub processes: Vec<Process>,
    /// The curves; null: not asked for.
    pub timeline: Option<Vec<Curve>>,
}

/// The recording as a whole.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Recording {
    /// Rows of all kinds.
    pub events: u64,
    /// When its first row was made.
    pub start_ns: Option<u64>,
    /// When the last call that was looked at returned.
    pub end_ns: Option<u64>,
    /// Whether it ended as it should.
    pub complete: bool,
    /// Records of memory calls that it lost; null where it does not say.
    pub lost_memory_records: Option<u64>,
    /// PyTorch's reports that it lost; null where it does not say.
    pub lost_torch_reports: Option<u64>,
    /// Probe hits that the kernel did not run a program for; null where it does not say.
    pub recursion_misses: Option<u64>,
    /// Checkpoints in it that could not be read.
    pub damaged_checkpoints: u64,
}

impl Recording {
    /// Whether it says that it lost anything that could matter here.
    pub fn lost_anything(&self) -> bool {
        let lost = [
            self.lost_memory_records,
            self.lost_torch_reports,
            self.recursion_misses,
        ];
        lost.iter().flatten().any(|count| *count > 0)
    }
}

/// A process at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Which process, or program, with this id: 0, 1...
    pub incarnation: u32,
    /// Clock ticks after boot when it started.
    pub start_time: Option<u64>,
    /// Its executable.
    pub exe: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// The moment that everything here is about.
    pub at_ns: u64,
    /// How it ended at that moment: `exit`, `exec`, `unseen`; null: it went on.
    pub end: Option<&'static str>,
    /// Whether it was traced from before its first CUDA call on: else what it held before is in
    /// no total.
    pub from_start: bool,
    /// Stretches in which its calls may have been missed.
    pub gaps: u64,
    /// By device.
    pub devices: Vec<Device>,
    /// Memory pools that it named.
    pub pools: Vec<Pool>,
    /// Reserved addresses: no memory.
    pub reserved_address_bytes: u64,
    /// How memory ended.
    pub ended: Ended,
    /// Frees of what was not known: from before tracing began, or its allocation was lost.
    pub unknown_frees: u64,
    /// Frees of null, which do nothing.
    pub null_frees: u64,
    /// Frees that failed.
    pub failed_frees: u64,
    /// Frees that became part of a graph.
    pub captured_frees: u64,
    /// Allocations that failed.
    pub failed_allocations: Held,
    /// Allocations whose address or size could not be read: in no total.
    pub unread_allocations: Held,
    /// Whether its memory calls come in windows, for the sake of an overhead budget: what it holds is
    /// not known.
    pub memory_sampled: bool,
    /// Memory whose size is not known: counted as 0 bytes.
    pub unsized_allocations: u64,
    /// Mappings of memory that was made before tracing began: in no total.
    pub unknown_mappings: u64,
    /// What found no place in the ledger: in no total.
    pub untracked: Held,
}

/// So many, of so many bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Held {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl From<Tally> for Held {
    fn from(Tally { count, bytes }: Tally) -> Self {
        Self { count, bytes }
    }
}

/// How memory stopped being live.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Ended {
    /// Given back.
    pub freed: Held,
    /// Gone with its process or context: no leak.
    pub implicit: Held,
    /// Given back unseen: its address was handed out again.
    pub lost_free: Held,
    /// A free of it began whose result is not known.
    pub unknown: Held,
}

impl From<ledger::Ended> for Ended {
    fn from(ended: ledger::Ended) -> Self {
        let ledger::Ended {
            freed,
            implicit,
            lost_free,
            unknown,
        } = ended;
        Self {
            freed: freed.into(),
            implicit: implicit.into(),
            lost_free: lost_free.into(),
            unknown: unknown.into(),
        }
    }
}

/// A device of a process.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    /// Ordinal as the process counts; null: not known which device, or host memory of none.
    pub device: Option<i32>,
    /// The device's UUID, where the program asked for it.
    pub uuid: Option<String>,
    /// The process's own memory on it: device, pool and VMM. Like what follows up to
    /// `peak_by_kind` it is null for a process whose returns were not probed.
    pub live_bytes: Option<u64>,
    /// How many blocks, arrays and physical memories these are.
    pub live_count: Option<u64>,
    /// Bytes of the pages that they touch.
    pub held_bytes: Option<u64>,
    /// `held_bytes - live_bytes`.
    pub waste_bytes: Option<u64>,
    /// The highest `live_bytes` until then.
    pub peak_bytes: Option<u64>,
    /// When; null while it is 0.
    pub peak_ns: Option<u64>,
    /// Live bytes by kind.
    pub by_kind: Option<Kinds>,
    /// The same at the peak.
    pub peak_by_kind: Option<Kinds>,
    /// Bytes of the device that were in use when the program last asked and that no allocation
    /// of this process accounts for; null: it never asked, or the figures do not fit together.
    pub unattributed_bytes: Option<u64>,
    /// When it asked.
    pub unattributed_at_ns: Option<u64>,
    /// Bytes of the device that were free then, all processes considered.
    pub free_bytes: Option<u64>,
    /// Bytes of the device.
    pub total_bytes: Option<u64>,
    /// PyTorch's caching allocator; null: it made no report.
    pub torch: Option<Torch>,
    /// Who holds it, the most bytes first.
    pub holders: Vec<Holder>,
}

/// Bytes by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kinds {
    /// `cudaMalloc` and its like, and arrays.
    pub device: u64,
    /// Managed.
    pub managed: u64,
    /// Host memory that CUDA allocated.
    pub pinned_host: u64,
    /// Host memory of the program that was pinned.
    pub registered_host: u64,
    /// Of memory pools.
    pub pool: u64,
    /// Physical memory of the device.
    pub vmm: u64,
    /// Owned by graphs.
    pub graph: u64,
    /// Of other processes.
    pub ipc: u64,
}

impl Kinds {
    /// From the bytes of each kind.
    pub fn of(bytes: impl Fn(MemoryKind) -> u64) -> Self {
        Self {
            device: bytes(MemoryKind::Device),
            managed: bytes(MemoryKind::Managed),
            pinned_host: bytes(MemoryKind::PinnedHost),
            registered_host: bytes(MemoryKind::RegisteredHost),
            pool: bytes(MemoryKind::Pool),
            vmm: bytes(MemoryKind::Vmm),
            graph: bytes(MemoryKind::Graph),
            ipc: bytes(MemoryKind::Ipc),
        }
    }

    /// Bytes of a kind.
    pub const fn get(&self, kind: MemoryKind) -> u64 {
        match kind {
            MemoryKind::Device => self.device,
            MemoryKind::Managed => self.managed,
            MemoryKind::PinnedHost => self.pinned_host,
            MemoryKind::RegisteredHost => self.registered_host,
            MemoryKind::Pool => self.pool,
            MemoryKind::Vmm => self.vmm,
            MemoryKind::Graph => self.graph,
            MemoryKind::Ipc => self.ipc,
        }
    }
}

/// Totals of PyTorch's caching allocator on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Torch {
    /// Handed to the program: `torch.cuda.memory_allocated()`.
    pub allocated: u64,
    /// Held from the device: `torch.cuda.memory_reserved()`.
    pub reserved: u64,
}

impl Torch {
    /// What an allocator reported last.
    pub fn of(allocator: &ledger::CachingAllocator) -> Self {
        Self {
            allocated: allocator.allocated(),
            reserved: allocator.reserved(),
        }
    }
}

/// Memory of one caller, kind and size class.
#[derive(Clone, Debug, Serialize)]
pub struct Holder {
    /// File of the code that took it; null: not known.
    pub caller: Option<String>,
    /// Its kind, as in `by_kind`.
    pub kind: &'static str,
    /// Sizes up to this one, and above half of it.
    pub size_class_bytes: u64,
    /// How many.
    pub live_count: u64,
    /// Their bytes.
    pub live_bytes: u64,
}

/// A memory pool.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pool {
    /// Its handle.
    #[serde(serialize_with = "hex")]
    pub handle: u64,
    /// Its device; null: not known, or the host.
    pub device: Option<i32>,
    /// Live blocks that name it.
    pub live_count: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// What it holds from the device. Always null: no call tells.
    pub reserved_bytes: Option<u64>,
    /// How much unused memory it may keep; null: the program did not say.
    pub release_threshold_bytes: Option<u64>,
    /// How often it was told to give unused memory back.
    pub trims: u64,
}

/// The curves of a process on a device.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Process id.
    pub pid: u32,
    /// Which process, or program, with this id.
    pub incarnation: u32,
    /// Ordinal as the process counts; null: not known.
    pub device: Option<i32>,
    /// ns between points.
    pub step_ns: u64,
    /// The points, by time.
    pub points: Vec<Point>,
}

/// The state at the end of a step, and the most in it. Steps without a change have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// The end of the step.
    pub at_ns: u64,
    /// Live bytes.
    pub live_bytes: u64,
    /// The most of them in the step.
    pub most_live_bytes: u64,
    /// Bytes of the pages touched.
    pub held_bytes: u64,
    /// PyTorch's totals; null: it has made no report.
    pub torch: Option<Torch>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn hex<S: Serializer>(handle: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{handle:#x}"))
}
