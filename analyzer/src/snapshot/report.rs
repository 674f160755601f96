//! The report. The structs here are the JSON: docs/snapshot.md describes every key.
//!
//! Sizes are bytes. Addresses are hex strings. What is not known is null, never 0.

use serde::{Serialize, Serializer};

/// Name and version of the JSON. The version changes when a key goes or changes its meaning;
/// new keys may come without.
pub const SCHEMA: &str = "cudasnoop.snapshot/1";

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The file.
    pub file: File,
    /// How the allocator was set; null before PyTorch 2.2.
    pub settings: Option<SettingsReport>,
    /// By device.
    pub devices: Vec<Device>,
    /// Pinned host memory; null where the snapshot does not have it.
    pub host: Option<Device>,
    /// The recording of the same run, block by block; null: none was given.
    pub recording: Option<super::join::Join>,
}

/// The file that was read.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct File {
    /// Its size.
    pub bytes: u64,
    /// Protocol of the pickle.
    pub protocol: u8,
    /// Distinct call stacks in it.
    pub stacks: u64,
}

/// The allocator's settings.
#[derive(Clone, Debug, Serialize)]
pub struct SettingsReport {
    /// The environment variable, as the snapshot calls it.
    pub variable: Option<&'static str>,
    /// Its text.
    pub configuration: Option<String>,
    /// Whether segments can grow.
    pub expandable_segments: Option<bool>,
    /// Larger blocks are not split; null: no limit.
    pub max_split_size: Option<u64>,
    /// Share of memory from which on free blocks are given back; null: never.
    pub garbage_collection_threshold: Option<f64>,
}

/// Sums over segments, as PyTorch's viewer (`_memory_viz.py stats`) defines them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Segments.
    pub segments: u64,
    /// Their bytes: the viewer's `total_reserved`.
    pub reserved: u64,
    /// Blocks handed to the program.
    pub allocated_blocks: u64,
    /// Their bytes.
    pub allocated: u64,
    /// What the program asked for: the viewer's `total_allocated`.
    pub requested: u64,
    /// Bytes of blocks that were given back and still wait for another stream.
    pub pending_free: u64,
    /// Bytes outside of the blocks handed out, pending ones included: the viewer's external
    /// free memory.
    pub free_external: u64,
    /// Bytes lost inside the blocks handed out to rounding: the viewer's internal free memory.
    pub free_internal: u64,
    /// The largest free block.
    pub largest_free: u64,
    /// Bytes of wholly free segments: what `empty_cache()` would give back.
    pub releasable: u64,
}

/// One pool: requests are only served from the pool of their stream.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pool {
    /// Two numbers; [0, 0] is the default pool, others belong to CUDA graphs or a `MemPool`;
    /// null where the snapshot does not say.
    pub pool_id: Option<(u32, u32)>,
    /// `small` (requests up to 1 MiB) or `large`; null where the snapshot does not say.
    pub kind: Option<&'static str>,
    /// The stream.
    pub stream: i64,
    /// Sums.
    #[serde(flatten)]
    pub totals: Totals,
}

/// A device, or host memory.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    /// Ordinal; null for host memory.
    pub device: Option<i64>,
    /// Sums over all pools.
    #[serde(flatten)]
    pub totals: Totals,
    /// Segments whose blocks do not add up to their size: the file is damaged.
    pub inconsistent_segments: u64,
    /// By pool, kind and stream.
    pub pools: Vec<Pool>,
    /// Segments of which less than 5 % is handed out, but not nothing.
    pub pinned: Pinned,
    /// Free blocks by size, the most bytes first.
    pub free_sizes: Vec<FreeSize>,
    /// Who holds the blocks, by call stack, the most bytes first.
    pub holders: Vec<Holder>,
    /// The trace; null: none was recorded.
    pub history: Option<HistoryReport>,
    /// Would a request fit; null: not asked.
    pub fit: Option<Fit>,
    /// Segments by address.
    pub segments_by_address: Vec<SegmentReport>,
}

/// Segments that few live bytes keep from being given back.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Pinned {
    /// How many.
    pub segments: u64,
    /// Their bytes.
    pub reserved: u64,
    /// Bytes of the blocks handed out in them.
    pub allocated: u64,
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

/// Blocks of one call stack.
#[derive(Clone, Debug, Serialize)]
pub struct Holder {
    /// Blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The innermost frame outside of PyTorch, `file:line:function`; null: no stack.
    pub at: Option<String>,
    /// The stack, the innermost frame first, `path:line:function`.
    pub frames: Vec<String>,
}

/// A segment.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentReport {
    /// Its address.
    #[serde(serialize_with = "hex")]
    pub address: u64,
    /// Its size.
    pub size: u64,
    /// Its pool.
    pub pool_id: Option<(u32, u32)>,
    /// `small` or `large`.
    pub kind: Option<&'static str>,
    /// Its stream.
    pub stream: i64,
    /// Whether it can grow.
    pub expandable: bool,
    /// Bytes of the blocks handed out.
    pub allocated: u64,
    /// What the program asked for.
    pub requested: u64,
    /// Bytes of pending blocks.
    pub pending_free: u64,
    /// Bytes outside of the blocks handed out.
    pub free_external: u64,
    /// Bytes lost to rounding.
    pub free_internal: u64,
    /// The largest free block.
    pub largest_free: u64,
    /// Whether few live bytes keep it from being given back.
    pub pinned: bool,
    /// If so, the largest blocks that do.
    pub pinned_by: Vec<Holder>,
    /// Its blocks, by address.
    pub blocks: Vec<BlockReport>,
}

/// A block.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BlockReport {
    /// Its address.
    #[serde(serialize_with = "hex")]
    pub address: u64,
    /// Its size.
    pub size: u64,
    /// What the program asked for.
    pub requested: u64,
    /// As in the snapshot: `active_allocated`, `active_pending_free` or `inactive`.
    pub state: &'static str,
}

/// The trace of a device.
#[derive(Clone, Debug, Serialize)]
pub struct HistoryReport {
    /// Whether it begins with an empty allocator and lacks nothing.
    pub complete: bool,
    /// Why not.
    pub incomplete_because: Vec<String>,
    /// Entries.
    pub entries: u64,
    /// The most entries that are kept; null where the snapshot does not say.
    pub max_entries: Option<u64>,
    /// Whether older entries were overwritten; null where the snapshot does not say.
    pub overflowed: Option<bool>,
    /// Blocks handed out in it.
    pub allocations: u64,
    /// Blocks given back in it.
    pub frees: u64,
    /// Of these, blocks handed out before it began.
    pub unknown_frees: u64,
    /// Live blocks that were handed out before it began.
    pub unexplained_blocks: u64,
    /// Their bytes.
    pub unexplained_bytes: u64,
    /// When it begins, µs since 1970.
    pub first_us: Option<i64>,
    /// When it ends.
    pub last_us: Option<i64>,
    /// Handed out, as asked for, before its first entry.
    pub requested_before: u64,
    /// Reserved before its first entry.
    pub reserved_before: u64,
    /// The most that was handed out, as asked for.
    pub peak_requested: Option<Peak>,
    /// The most that was reserved.
    pub peak_reserved: Option<Peak>,
    /// How often memory ran out.
    pub out_of_memory_count: u64,
    /// The first times of it.
    pub out_of_memory: Vec<OutOfMemory>,
    /// The curve: the highest values between its points.
    pub curve: Vec<CurvePoint>,
}

/// A highest value.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Peak {
    /// Bytes.
    pub bytes: u64,
    /// When, µs since 1970.
    pub time_us: Option<i64>,
}

/// A point of the curve.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CurvePoint {
    /// Entries up to here.
    pub entries: u64,
    /// When, µs since 1970.
    pub time_us: Option<i64>,
    /// Handed out, as asked for.
    pub requested: u64,
    /// Reserved.
    pub reserved: u64,
}

/// Memory ran out.
#[derive(Clone, Debug, Serialize)]
pub struct OutOfMemory {
    /// When, µs since 1970.
    pub time_us: Option<i64>,
    /// What was asked for, rounded.
    pub asked: u64,
    /// Free bytes of the device then.
    pub device_free: Option<u64>,
    /// Bytes whose free was completed while the request was failing.
    pub completed_just_before: u64,
    /// Whether the same size was handed out later with nothing freed in between; null: it was
    /// not asked for again.
    pub retry_worked: Option<bool>,
    /// Where it was asked for.
    pub at: Option<String>,
}

/// Whether a request would be served from free blocks.
#[derive(Clone, Debug, Serialize)]
pub struct Fit {
    /// What was asked about.
    pub requested: u64,
    /// What PyTorch makes of it; null past the address space.
    pub rounded: Option<u64>,
    /// `small` or `large`.
    pub kind: &'static str,
    /// What PyTorch would take from the device if no free block serves.
    pub new_segment: Option<u64>,
    /// By pool and stream of that kind.
    pub pools: Vec<PoolFit>,
}

/// Whether a free block of a pool would serve a request.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PoolFit {
    /// The pool.
    pub pool_id: Option<(u32, u32)>,
    /// The stream.
    pub stream: i64,
    /// Whether it would.
    pub fits: bool,
    /// The block that PyTorch would choose: the smallest that is large enough.
    #[serde(serialize_with = "hex_option")]
    pub address: Option<u64>,
    /// Its size.
    pub size: Option<u64>,
    /// The largest free block.
    pub largest_free: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
pub(super) fn hex<S: Serializer>(address: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{address:#x}"))
}

#[expect(clippy::ref_option, reason = "serde passes fields by reference")]
fn hex_option<S: Serializer>(address: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => hex(address, serializer),
        None => serializer.serialize_none(),
    }
}
