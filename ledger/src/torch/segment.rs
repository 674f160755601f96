//! Segments and the blocks inside them.

use crate::{AddressRange, Moment, Pool, Ranged};

/// A contiguous stretch of device memory that the caching allocator manages: one device
/// allocation of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    pub(crate) range: AddressRange,
    /// The pool that it serves: that of the first block seen in it.
    pub pool: Pool,
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
