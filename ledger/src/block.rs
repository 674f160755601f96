//! One live device allocation.

use agent_common::ApiId;

use crate::{AddressRange, Moment, Ranged};

/// A block of device memory that a call allocated and none has freed.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    pub(crate) range: AddressRange,
    pub(crate) device: Option<i32>,
    pub(crate) segment_of: Option<i32>,
    /// The function that allocated it.
    pub api: ApiId,
    /// Id of the module that called; a `caller` fact of the recording defines it.
    pub caller: Option<u32>,
    /// The thread that allocated it.
    pub tid: u32,
    /// When that call was entered.
    pub at: Moment,
    /// When it returned, ns of `CLOCK_MONOTONIC`.
    pub returned: u64,
}

impl Block {
    /// Ordinal of the device it lies on, as the process counts; `None` where not known. Fixed
    /// at allocation; learnt later where PyTorch reports on memory inside it.
    pub const fn device(&self) -> Option<i32> {
        self.device
    }

    /// Whether PyTorch's caching allocator made it: the device whose allocator did.
    pub const fn segment_of(&self) -> Option<i32> {
        self.segment_of
    }
}

impl Ranged for Block {
    fn range(&self) -> AddressRange {
        self.range
    }
}
