//! Segments and the blocks inside them.

use serde::{Deserialize, Serialize};

use crate::{AddressRange, Moment, Pool, Ranged};

/// A contiguous stretch of device memory that the caching allocator manages: one device
/// allocation of its own, or neighbouring mappings of physical memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    pub(crate) range: AddressRange,
    /// The pool that it serves: that of the first block seen in it.
    pub pool: Pool,
    /// Whether it consists of mappings, and can grow at its end (`expandable_segments:True`).
    pub is_expandable: bool,
    /// When the allocator took it from the device.
    pub at: Moment,
    /// The thread that took it.
    pub tid: u32,
}

impl Ranged for Segment {
    fn range(&self) -> AddressRange {
        self.range
    }
}

/// A block that the caching allocator handed to the program and has not taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TorchBlock {
    pub(crate) range: AddressRange,
    /// The thread that asked for it.
    pub tid: u32,
    /// When it was handed out.
    pub at: Moment,
}

impl Ranged for TorchBlock {
    /// Where it lies. Its size is the rounded one, or that of a whole free block that was not
    /// split; never the size that the program asked for.
    fn range(&self) -> AddressRange {
        self.range
    }
}
