//! What a page shows beyond the report. The structs here are JSON: docs/html.md describes
//! every key.
//!
//! Sizes are bytes. Times are ns of `CLOCK_MONOTONIC`, ages ns; in the page of a snapshot,
//! curves count the entries of its history. Addresses are hex strings.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::hist;
use crate::launches::ThreadLaunches;

/// Name and version of the JSON. The version changes when a key goes or changes its meaning;
/// new keys may come without.
pub(super) const SCHEMA: &str = "cudasnoop.page/1";

/// What a page shows beyond the report.
#[derive(Debug, Serialize)]
pub(crate) struct Supplement {
    /// [`SCHEMA`].
    pub(crate) schema: &'static str,
    /// When the recording began; null: it has no row.
    pub(crate) start_ns: Option<u64>,
    /// The last moment in it that was looked at.
    pub(crate) end_ns: Option<u64>,
    /// Whether the recording goes on: it was read while it was written.
    pub(crate) live: bool,
    /// Files that break off, and where.
    pub(crate) cuts: Vec<String>,
    /// What else there is to know of how the recordings were read: what is on standard error, too.
    pub(crate) notes: Vec<String>,
    /// Memory over time, by process and device.
    pub(crate) curves: Vec<Curve>,
    /// Curves that were left out because there were too many: those that came last.
    pub(crate) curves_left_out: u64,
    /// Memory at the end of each process or of what was looked at, by process and device.
    pub(crate) maps: Vec<Map>,
    /// Maps that were left out because there were too many: those of the least bytes.
    pub(crate) maps_left_out: u64,
    /// Moments that curves show.
    pub(crate) marks: Vec<Mark>,
    /// Marks that were left out because there were too many of their kind.
    pub(crate) marks_left_out: u64,
    /// Marks that are about calls that may have been missed, those left out included.
    pub(crate) gaps: u64,
    /// What `hist --json` prints; null in pages of other reports.
    pub(crate) hist: Option<hist::Report>,
    /// `threads` of `launches --json`; null in pages of other reports.
    pub(crate) threads: Option<Vec<ThreadLaunches>>,
}

/// Whose memory it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Whose {
    /// Process id; null: the process of a snapshot.
    pub(super) pid: Option<u32>,
    /// Which process, or program, with this id: 0, 1...
    pub(super) incarnation: u32,
    /// Its title, or else its executable; null: neither is known.
    pub(super) name: Option<String>,
    /// Ordinal as the process counts; null: not known, or host memory of no device.
    pub(super) device: Option<i32>,
}

/// Memory over time: in each step the least and the most of each value, so that no peak is lost.
/// A value of null: nothing was known of the process in that step.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Curve {
    /// Whose.
    #[serde(flatten)]
    pub(super) whose: Whose,
    /// The beginning of the first step.
    pub(super) from: u64,
    /// From one step's beginning to the next.
    pub(super) step: u64,
    /// Live bytes, of the process's own device memory; null: not known, as returns were not probed.
    pub(super) live: Option<Envelope>,
    /// By kind: of own device memory, what it was when `live` was the most of the step; of the
    /// others, the most. Kinds that never were are left out.
    pub(super) kinds: BTreeMap<&'static str, Vec<Option<u64>>>,
    /// What PyTorch's caching allocator handed out; null: it made no report.
    pub(super) allocated: Option<Envelope>,
    /// What it held from the device.
    pub(super) reserved: Option<Envelope>,
}

/// The least and the most of each step.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Envelope {
    /// The least.
    pub(super) least: Vec<Option<u64>>,
    /// The most.
    pub(super) most: Vec<Option<u64>>,
}

/// Something at one moment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Mark {
    /// When.
    pub(super) at_ns: u64,
    /// Its end, where it lasted.
    pub(super) until_ns: Option<u64>,
    /// The process concerned; null: all.
    pub(super) pid: Option<u32>,
    /// What.
    pub(super) what: What,
    /// In words.
    pub(super) text: String,
}

/// What marks are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// PyTorch ran out of memory.
    OutOfMemory,
    /// An allocation failed.
    Failed,
    /// Calls may have been missed.
    Gap,
    /// Events were lost.
    Lost,
    /// A process ended.
    Ended,
}

/// Memory of one process on one device, piece by piece.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Map {
    /// Whose.
    #[serde(flatten)]
    pub(super) whose: Whose,
    /// The moment; null in a snapshot, which has no clock.
    pub(super) at_ns: Option<u64>,
    /// How the process ended then; null: it went on.
    pub(super) ended: Option<&'static str>,
    /// Holders that bars and cells name by their place here.
    pub(super) holders: Vec<String>,
    /// The largest pieces, by address; those without come last.
    pub(super) bars: Vec<Bar>,
    /// The pieces that are no bar because there were too many, by kind and holder.
    pub(super) rest: Vec<Rest>,
}

/// A piece of memory: one allocation, or a segment of PyTorch's allocator.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Bar {
    /// Its first address; null: none is known.
    #[serde(serialize_with = "hex")]
    pub(super) address: Option<u64>,
    /// Its size; null: not known.
    pub(super) size: Option<u64>,
    /// Its kind, as in `by_kind` of `memory --json`; of a snapshot, `device` or `pinned_host`.
    pub(super) kind: &'static str,
    /// The function that took it; null: not known.
    pub(super) api: Option<&'static str>,
    /// Who holds it, by its place in `holders`; null: not known.
    pub(super) holder: Option<usize>,
    /// How long ago it was taken; null: not known.
    pub(super) age_ns: Option<u64>,
    /// What is in it, where it is a segment; null: it is one allocation, live as a whole.
    pub(super) segment: Option<Inside>,
}

/// The inside of a segment. What lies between cells is free.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Inside {
    /// `small` or `large`; null: not known.
    pub(super) pool: Option<&'static str>,
    /// Whether it can grow.
    pub(super) expandable: bool,
    /// Bytes of the blocks in it.
    pub(super) allocated: u64,
    /// How many blocks are in it.
    pub(super) blocks: u64,
    /// Blocks by address; neighbours are one cell where there are too many.
    pub(super) cells: Vec<Cell>,
}

/// A block, or neighbouring ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cell {
    /// Bytes from the segment's first address.
    pub(super) offset: u64,
    /// To the end of the last block.
    pub(super) size: u64,
    /// Bytes of the blocks.
    pub(super) live: u64,
    /// How many.
    pub(super) blocks: u64,
    /// Of them, bytes given back that wait for another stream. Only a snapshot knows.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) pending: u64,
    /// Age of the oldest; null: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) age_ns: Option<u64>,
    /// Who holds it, by its place in `holders`; null: not known, or several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) holder: Option<usize>,
}

/// Pieces that are no bar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Rest {
    /// Their kind.
    pub(super) kind: &'static str,
    /// Who holds them.
    pub(super) holder: Option<usize>,
    /// How many.
    pub(super) pieces: u64,
    /// Their bytes.
    pub(super) bytes: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

#[expect(clippy::ref_option, reason = "serde passes fields by reference")]
fn hex<S: Serializer>(address: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => serializer.collect_str(&format_args!("{address:#x}")),
        None => serializer.serialize_none(),
    }
}

impl Map {
    /// Bytes of all pieces.
    pub(super) fn bytes(&self) -> u64 {
        let bars = self.bars.iter().filter_map(|bar| bar.size);
        let rest = self.rest.iter().map(|rest| rest.bytes);
        bars.chain(rest).fold(0, u64::saturating_add)
    }
}

impl Curve {
    /// The highest value in it.
    pub(super) fn most(&self) -> u64 {
        let kinds = self.kinds.values().flatten().flatten();
        let reserved = self
            .reserved
            .iter()
            .flat_map(|reserved| reserved.most.iter().flatten());
        kinds.chain(reserved).copied().max().unwrap_or(0)
    }
}
