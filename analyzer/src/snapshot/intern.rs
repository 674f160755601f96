//! Strings, stack frames and stacks, each kept once.

use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;

use rustc_hash::{FxBuildHasher, FxHashMap};

/// Number of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StringId(pub(crate) u32);

/// Number of a stack frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub(crate) u32);

/// Number of a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub(crate) u32);

/// Number of a pair of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PairId(pub(crate) u32);

impl StackId {
    /// The stack without frames.
    pub const EMPTY: Self = Self(0);
}

/// A stack frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// File of the code.
    pub filename: StringId,
    /// Function.
    pub name: StringId,
    /// Line in the file.
    pub line: u32,
}

/// Values that are told apart by number.
#[derive(Debug)]
struct Numbered<T> {
    values: Vec<T>,
    numbers: FxHashMap<T, u32>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            numbers: FxHashMap::default(),
        }
    }
}

impl<T: Copy + Eq + Hash> Numbered<T> {
    fn number(&mut self, value: T) -> Option<u32> {
        if let Some(number) = self.numbers.get(&value) {
            return Some(*number);
        }
        let number = u32::try_from(self.values.len()).ok()?;
        self.values.push(value);
        self.numbers.insert(value, number);
        Some(number)
    }
}

/// Slices of `T`, each kept once, end to end.
#[derive(Debug)]
struct Slices<T> {
    all: Vec<T>,
    ends: Vec<usize>,
    /// The latest slice of each hash, and for each slice the one before it of the same hash.
    latest: FxHashMap<u64, u32>,
    before: Vec<Option<NonZeroU32>>,
}

impl<T> Default for Slices<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            ends: Vec::new(),
            latest: FxHashMap::default(),
            before: Vec::new(),
        }
    }
}

impl<T: Copy + Eq + Hash> Slices<T> {
    fn get(&self, number: u32) -> &[T] {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[start..self.ends[number]]
    }

    fn number(&mut self, slice: &[T]) -> Option<u32> {
        let hash = FxBuildHasher.hash_one(slice);
        let latest = self.latest.get(&hash).copied();
        let mut candidate = latest;
        while let Some(number) = candidate {
            if self.get(number) == slice {
                return Some(number);
            }
            candidate = self.before[number as usize].map(|before| before.get() - 1);
        }
        let number = u32::try_from(self.ends.len()).ok()?;
        self.all.extend_from_slice(slice);
        self.ends.push(self.all.len());
        self.before
            .push(latest.and_then(|latest| NonZeroU32::new(latest.wrapping_add(1))));
        self.latest.insert(hash, number);
        Some(number)
    }
}

/// All names of a snapshot.
#[derive(Debug)]
pub struct Names {
    strings: Slices<u8>,
    frames: Numbered<Frame>,
    stacks: Slices<FrameId>,
    pairs: Numbered<(u32, u32)>,
}

impl Default for Names {
    /// With the keys of snapshots as the first strings.
    fn default() -> Self {
        let mut names = Self {
            strings: Slices::default(),
            frames: Numbered::default(),
            stacks: Slices::default(),
            pairs: Numbered::default(),
        };
        for word in key::ALL {
            names.strings.number(word.as_bytes());
        }
        names.stacks.number(&[]);
        names
    }
}

impl Names {
    pub(crate) fn string(&mut self, bytes: &[u8]) -> Option<StringId> {
        self.strings.number(bytes).map(StringId)
    }

    pub(crate) fn frame(&mut self, frame: Frame) -> Option<FrameId> {
        self.frames.number(frame).map(FrameId)
    }

    pub(crate) fn stack(&mut self, frames: &[FrameId]) -> Option<StackId> {
        self.stacks.number(frames).map(StackId)
    }

    pub(crate) fn pair(&mut self, pair: (u32, u32)) -> Option<PairId> {
        self.pairs.number(pair).map(PairId)
    }

    /// The text of a string.
    pub fn text(&self, StringId(number): StringId) -> String {
        String::from_utf8_lossy(self.strings.get(number)).into_owned()
    }

    /// A frame.
    pub fn frame_of(&self, FrameId(number): FrameId) -> Frame {
        self.frames.values[number as usize]
    }

    /// The frames of a stack, the innermost first.
    pub fn frames_of(&self, StackId(number): StackId) -> &[FrameId] {
        self.stacks.get(number)
    }

    pub(crate) fn pair_of(&self, PairId(number): PairId) -> (u32, u32) {
        self.pairs.values[number as usize]
    }

    /// How many distinct stacks there are, the empty one apart.
    pub fn stack_count(&self) -> usize {
        self.stacks.ends.len() - 1
    }
}

/// The words of snapshots, as numbers.
pub(crate) mod key {
    use super::StringId;

    macro_rules! keys {
        ($($name:ident = $text:literal),* $(,)?) => {
            #[expect(non_camel_case_types, reason = "only counts the words")]
            #[expect(clippy::upper_case_acronyms, reason = "only counts the words")]
            enum Number { $($name),* }
            $(pub(crate) const $name: StringId = StringId(Number::$name as u32);)*
            pub(crate) const ALL: &[&str] = &[$($text),*];
        };
    }

    keys! {
        ACTION = "action",
        ADDR = "addr",
        SIZE = "size",
        STREAM = "stream",
        TIME_US = "time_us",
        FRAMES = "frames",
        DEVICE_FREE = "device_free",
        ALLOC = "alloc",
        FREE_REQUESTED = "free_requested",
        FREE_COMPLETED = "free_completed",
        FREE = "free",
        SEGMENT_ALLOC = "segment_alloc",
        SEGMENT_FREE = "segment_free",
        SEGMENT_MAP = "segment_map",
        SEGMENT_UNMAP = "segment_unmap",
        OOM = "oom",
        FILENAME = "filename",
        NAME = "name",
        LINE = "line",
        STATE = "state",
        REQUESTED_SIZE = "requested_size",
        ADDRESS = "address",
        ACTIVE_ALLOCATED = "active_allocated",
        ACTIVE_PENDING_FREE = "active_pending_free",
        ACTIVE_AWAITING_FREE = "active_awaiting_free",
        INACTIVE = "inactive",
        HISTORY = "history",
        REAL_SIZE = "real_size",
        BLOCKS = "blocks",
        DEVICE = "device",
        TOTAL_SIZE = "total_size",
        ALLOCATED_SIZE = "allocated_size",
        SEGMENT_TYPE = "segment_type",
        SMALL = "small",
        LARGE = "large",
        SEGMENT_POOL_ID = "segment_pool_id",
        IS_EXPANDABLE = "is_expandable",
        SEGMENTS = "segments",
        DEVICE_TRACES = "device_traces",
        HOST_SEGMENTS = "host_segments",
        HOST_TRACES = "host_traces",
        ALLOCATOR_SETTINGS = "allocator_settings",
        OVERFLOWED = "trace_alloc_overflowed",
        MAX_ENTRIES = "trace_alloc_max_entries",
        CUDA_CONF = "PYTORCH_CUDA_ALLOC_CONF",
        ALLOC_CONF = "PYTORCH_ALLOC_CONF",
        MAX_SPLIT_SIZE = "max_split_size",
        GARBAGE_COLLECTION = "garbage_collection_threshold",
        EXPANDABLE = "expandable_segments",
    }
}
