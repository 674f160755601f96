//! The report. The structs here are the JSON: docs/fragmentation.md describes every key.
//!
//! Sizes are bytes. Times are ns of `CLOCK_MONOTONIC`, ages and durations ns. Addresses are
//! hex strings. What is not known is null, never 0.

use serde::{Serialize, Serializer};

use crate::findings::Finding;

/// Name and version of the JSON. The version changes when a key goes or changes its meaning;
/// new keys may come without.
pub const SCHEMA: &str = "cudasnoop.fragmentation/1";

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The recording.
    pub recording: Recording,
    /// The moment that was asked for; null: the end of each process, or of the recording.
    pub at_ns: Option<u64>,
    /// Processes that had device memory.
    pub processes: Vec<Process>,
    /// What it means.
    pub findings: Vec<Finding>,
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
    /// Its executable.
    pub exe: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// The moment that everything here is about.
    pub at_ns: u64,
    /// How it ended at that moment: `exit`, `exec`, `unseen`; null: it went on.
    pub ended: Option<&'static str>,
    /// What is missing because tracing began after its first CUDA call.
    pub late_start: Option<LateStart>,
    /// Whether its memory calls came in windows, for the sake of an overhead budget: what it held is not
    /// known.
    pub memory_sampled: bool,
    /// Stretches in which its calls may have been missed.
    pub gaps: u64,
    /// By device.
    pub devices: Vec<Device>,
}

impl Process {
    /// Without the segments and blocks one by one: only what was summed up of them.
    pub(crate) fn summed_up(mut self) -> Self {
        for torch in self
            .devices
            .iter_mut()
            .filter_map(|device| device.torch.as_mut())
        {
            torch.segments = Vec::new();
            torch.free_sizes = Vec::new();
        }
        self
    }
}

/// The process ran before it was traced.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LateStart {
    /// Successful frees of blocks that were not seen allocated.
    pub unknown_frees: u64,
}

/// A device of a process.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    /// Ordinal as the process counts; null: not known which device.
    pub device: Option<i32>,
    /// The device's free memory.
    pub memory: Option<DeviceMemory>,
    /// PyTorch's caching allocator; null: it made no report.
    pub torch: Option<Torch>,
    /// Memory from the driver.
    pub driver: Option<Driver>,
}

/// What `cudaMemGetInfo` or `cuMemGetInfo` last told the program.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DeviceMemory {
    /// Free then.
    pub free_bytes: u64,
    /// In all.
    pub total_bytes: u64,
    /// How long before the moment of the report.
    pub age_ns: u64,
    /// Free at the moment of the report, if nobody else took or gave back any since.
    pub free_now_bytes: u64,
}

/// PyTorch's caching allocator on a device.
#[derive(Clone, Debug, Serialize)]
pub struct Torch {
    /// Handed to the program: `torch.cuda.memory_allocated()`.
    pub allocated: u64,
    /// Held from the device: `torch.cuda.memory_reserved()`.
    pub reserved: u64,
    /// `reserved - allocated`: free inside segments.
    pub unused: u64,
    /// Free bytes inside known segments, between blocks: "external" in PyTorch's viewer.
    pub free_external: u64,
    /// Bytes lost inside blocks to rounding: "internal" in PyTorch's viewer. Always null: the
    /// size that the program asked for is not reported.
    pub free_internal: Option<u64>,
    /// The largest free block in a known segment.
    pub largest_free: u64,
    /// In wholly free segments: PyTorch gives these back before it runs out of memory.
    pub releasable: u64,
    /// Whether the segments and blocks below are all there are.
    pub map: Map,
    /// The most that was allocated, and when.
    pub peak_allocated: Peak,
    /// The most that was reserved, and when.
    pub peak_reserved: Peak,
    /// The most that was unused, and when: `--at` shows that moment.
    pub peak_unused: Peak,
    /// By size pool.
    pub pools: [PoolReport; 2],
    /// Whether a request would fit; null: not asked.
    pub fit: Option<Fit>,
    /// Segments that few live bytes keep from being given back.
    pub pinned: Pinned,
    /// Free blocks that hardly any request fits, the most bytes first.
    pub strands: Vec<Strand>,
    /// Free bytes of partly live segments of fixed size that `expandable_segments:True` could give
    /// back: whole pieces of 2 MiB (small pool) or 20 MiB.
    pub expandable_would_free: u64,
    /// Free blocks by size, the most bytes first.
    pub free_sizes: Vec<FreeSize>,
    /// Segments by address.
    pub segments: Vec<Segment>,
    /// Blocks in no known segment: how many, and their bytes.
    pub unplaced_blocks: u64,
    /// Their bytes.
    pub unplaced_bytes: u64,
    /// How often memory ran out.
    pub out_of_memory_count: u64,
    /// The first times of it.
    pub out_of_memory: Vec<OutOfMemory>,
}

/// A highest value.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Peak {
    /// Bytes.
    pub bytes: u64,
    /// When; null while it is 0.
    pub at_ns: Option<u64>,
}

/// How far the known segments and blocks explain PyTorch's totals.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Map {
    /// Whether they do, to the byte.
    pub complete: bool,
    /// Allocated bytes in no known block.
    pub hidden_allocated: u64,
    /// Reserved bytes in no known segment.
    pub hidden_reserved: u64,
    /// Bytes of known blocks that must have been freed since.
    pub stale_allocated: u64,
    /// Bytes of known segments that must have been given back since.
    pub stale_reserved: u64,
    /// How often PyTorch's totals did not follow from its report before.
    pub discontinuities: u64,
    /// Blocks left out because there were too many.
    pub untracked_blocks: u64,
}

/// One of the two size pools.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PoolReport {
    /// `small` (blocks up to 1 MiB) or `large`.
    pub pool: &'static str,
    /// Known segments.
    pub segments: u64,
    /// Their bytes.
    pub reserved: u64,
    /// Bytes of the blocks in them.
    pub allocated: u64,
    /// Free bytes in them.
    pub free: u64,
    /// The largest free block in them.
    pub largest_free: u64,
}

/// Whether a request would succeed, by PyTorch's rules at its default settings.
#[derive(Clone, Debug, Serialize)]
pub struct Fit {
    /// What was asked about.
    pub requested: u64,
    /// What PyTorch makes of it; null past the address space.
    pub rounded: Option<u64>,
    /// The pool that serves it.
    pub pool: &'static str,
    /// From a free block, without new device memory.
    pub cached: CachedFit,
    /// From a new segment, which PyTorch takes when no free block serves.
    pub new_segment: NewSegmentFit,
}

/// Whether a free block would serve a request.
#[derive(Clone, Debug, Serialize)]
pub struct CachedFit {
    /// null: not known.
    pub fits: Option<bool>,
    /// Why.
    pub reason: String,
    /// The block that PyTorch would choose: the smallest that is large enough.
    pub free_block: Option<Block>,
}

/// Whether a new segment for a request would fit the device.
#[derive(Clone, Debug, Serialize)]
pub struct NewSegmentFit {
    /// null: not known.
    pub fits: Option<bool>,
    /// Why.
    pub reason: String,
    /// The size of the segment; null past the address space.
    pub segment: Option<u64>,
}

/// Segments of which less than 5 % is live, but not nothing.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Pinned {
    /// How many.
    pub segments: u64,
    /// Their bytes.
    pub reserved: u64,
    /// Live bytes in them.
    pub allocated: u64,
    /// Free bytes in them.
    pub free: u64,
    /// Of them, those that `expandable_segments:True` could give back.
    pub expandable_would_free: u64,
    /// Live blocks in them.
    pub blocks: u64,
    /// How long ago the oldest of these was handed out; null: there is none.
    pub oldest_age_ns: Option<u64>,
}

/// Free blocks of one size beside live ones, of which at most one request in 20 could use any.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Strand {
    /// The size.
    pub size: u64,
    /// How many.
    pub blocks: u64,
    /// Their bytes.
    pub total: u64,
    /// Requests of the pool that were seen.
    pub requests: u64,
    /// Of them, those that are not larger.
    pub fitting_requests: u64,
    /// The commonest size of the segments that they are in.
    pub segment_size: Option<u64>,
    /// The commonest size of the live blocks beside them.
    pub beside_size: Option<u64>,
}

/// Free blocks of one size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FreeSize {
    /// The size.
    pub size: u64,
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub total: u64,
}

/// A segment.
#[derive(Clone, Debug, Serialize)]
pub struct Segment {
    /// Its first address.
    #[serde(serialize_with = "hex")]
    pub address: u64,
    /// Its size.
    pub size: u64,
    /// Its pool.
    pub pool: &'static str,
    /// Whether it is mapped piece by piece, and can grow (`expandable_segments:True`); else it
    /// is one device allocation.
    pub expandable: bool,
    /// Bytes of the blocks in it.
    pub allocated: u64,
    /// Its free bytes.
    pub free: u64,
    /// Its largest free block.
    pub largest_free: u64,
    /// How long ago it was taken from the device.
    pub age_ns: u64,
    /// Whether few live bytes keep it from being given back.
    pub pinned: bool,
    /// The blocks in it, by address. What lies between is free.
    pub blocks: Vec<Block>,
}

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// Its first address.
    #[serde(serialize_with = "hex")]
    pub address: u64,
    /// Its size, rounded as PyTorch rounds.
    pub size: u64,
    /// How long ago it was handed out; null for a free block.
    pub age_ns: Option<u64>,
}

/// PyTorch ran out of memory.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OutOfMemory {
    /// When.
    pub at_ns: u64,
    /// The thread.
    pub tid: u32,
    /// What it asked for, rounded as PyTorch rounds.
    pub asked: u64,
    /// The segment that this needed; null past the address space.
    pub segment: Option<u64>,
    /// Allocated then.
    pub allocated: u64,
    /// Reserved then.
    pub reserved: u64,
    /// `reserved - allocated`.
    pub unused: u64,
    /// Free bytes in the pool that serves the request.
    pub free_in_pool: u64,
    /// The largest free block in that pool.
    pub largest_free: u64,
    /// Whether all segments and blocks were known.
    pub map_complete: bool,
    /// The device's free memory, where the program had asked.
    pub device_free: Option<u64>,
    /// The device's memory in all, likewise.
    pub device_total: Option<u64>,
    /// How long before that answer was.
    pub device_free_age_ns: Option<u64>,
    /// The pool had enough free bytes, but in no single block; null: the map has holes.
    pub fragmented: Option<bool>,
    /// The device had room for the segment all the same: something other than its size, such
    /// as a memory fraction, set the limit; null: its free memory is not known.
    pub device_had_room: Option<bool>,
    /// The same request, made again at once; null: it was not, or did not succeed.
    pub retry: Option<Retry>,
}

/// A request that ran out of memory and then succeeded.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Retry {
    /// How long after.
    pub after_ns: u64,
    /// Freed by the program in between.
    pub freed: u64,
    /// Whether a new segment was taken in between.
    pub new_segment: bool,
    /// Whether neither explains the success: memory freed earlier was still waiting for a
    /// stream when the request failed.
    pub pending_free: bool,
}

/// Memory that a process holds from the driver on a device, PyTorch's segments included.
#[derive(Clone, Debug, Serialize)]
pub struct Driver {
    /// Live blocks.
    pub blocks: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Bytes of the pages that they touch.
    pub held_bytes: u64,
    /// `held_bytes - live_bytes`.
    pub waste_bytes: u64,
    /// Size of a page.
    pub page_bytes: u64,
    /// Size of the pieces in which memory pools take pages.
    pub pool_page_bytes: u64,
    /// Live bytes of memory pools.
    pub pool_live_bytes: u64,
    /// Who holds it, the most waste first.
    pub held_by: Vec<HeldBy>,
}

/// Blocks of one caller and size class.
#[derive(Clone, Debug, Serialize)]
pub struct HeldBy {
    /// File of the code that allocated; null: not known.
    pub caller: Option<String>,
    /// Sizes up to this one, and above half of it.
    pub size_class_bytes: u64,
    /// Live blocks.
    pub blocks: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Their share of the waste of the pages that they touch, by bytes.
    pub waste_bytes: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn hex<S: Serializer>(address: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{address:#x}"))
}
