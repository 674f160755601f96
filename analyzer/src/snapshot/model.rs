//! A snapshot as it was dumped.

use super::history::History;
use super::intern::{Names, StackId};

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Handed to the program.
    Allocated,
    /// Given back by the program, and still in use by another stream.
    PendingFree,
    /// Free.
    Inactive,
}

impl State {
    /// The name in JSON: that of the snapshot.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocated => "active_allocated",
            Self::PendingFree => "active_pending_free",
            Self::Inactive => "inactive",
        }
    }
}

/// A part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its address; computed where the snapshot does not have it.
    pub address: u64,
    /// Its size, bytes.
    pub size: u64,
    /// What the program asked for, bytes; `size` where the snapshot does not say.
    pub requested: u64,
    /// What it is used for.
    pub state: State,
    /// Where it was asked for.
    pub stack: StackId,
}

/// Memory that the allocator took from the device, or pages of an expandable segment that
/// follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Device ordinal; 0 where the snapshot does not say. For host memory meaningless.
    pub device: i64,
    /// Its address.
    pub address: u64,
    /// Its size, bytes.
    pub size: u64,
    /// Bytes that it says are allocated.
    pub allocated: Option<u64>,
    /// The stream whose requests it serves.
    pub stream: i64,
    /// Whether it serves requests of up to 1 MiB.
    pub is_small: Option<bool>,
    /// Its pool, as two numbers; (0, 0) is the default pool. `None` before PyTorch 2.1.
    pub pool: Option<(u32, u32)>,
    /// Whether it can grow.
    pub is_expandable: bool,
    /// Where it was asked for.
    pub stack: StackId,
    /// Its blocks, by address: a range of [`Snapshot::blocks`].
    pub(crate) blocks: std::ops::Range<usize>,
}

/// How the allocator was set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The text of the environment variable.
    pub configuration: Option<String>,
    /// The name of the variable that the snapshot uses.
    pub variable: Option<&'static str>,
    /// Whether segments can grow.
    pub expandable_segments: Option<bool>,
    /// Larger blocks are not split, bytes; -1 or `None`: no limit.
    pub max_split_size: Option<i64>,
    /// Share of memory from which on free blocks are given back.
    pub garbage_collection_threshold: Option<f64>,
}

/// A snapshot.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Strings, frames and stacks.
    pub names: Names,
    /// All blocks.
    pub blocks: Vec<Block>,
    /// Segments of the devices.
    pub segments: Vec<Segment>,
    /// Segments of pinned host memory; `None` where the snapshot has none.
    pub host_segments: Option<Vec<Segment>>,
    /// By device ordinal.
    pub histories: Vec<History>,
    /// Of host memory.
    pub host_histories: Vec<History>,
    /// How the allocator was set; `None` before PyTorch 2.2.
    pub settings: Option<Settings>,
    /// By device: whether entries were overwritten. Empty where the snapshot does not say.
    pub overflowed: Vec<Option<bool>>,
    /// By device: the most entries of a history. Empty where the snapshot does not say.
    pub max_entries: Vec<Option<u64>>,
    /// Bytes read.
    pub bytes: u64,
    /// Of the pickle.
    pub protocol: u8,
}

impl Snapshot {
    /// The blocks of a segment, by address.
    pub fn blocks_of(&self, segment: &Segment) -> &[Block] {
        &self.blocks[segment.blocks.clone()]
    }
}
