//! When the caching allocator ran out of memory.

use serde::{Deserialize, Serialize};

use crate::{MemoryReading, Moment, Pool, torch::Completeness};

/// PyTorch is about to raise `torch.OutOfMemoryError`. By then it has given back every wholly
/// free segment and asked the device once more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutOfMemory {
    /// When.
    pub at: Moment,
    /// The thread that asked.
    pub tid: u32,
    /// What it asked for, rounded, bytes.
    pub asked: u64,
    /// Bytes allocated on the device, as PyTorch reported.
    pub allocated: u64,
    /// Bytes reserved on the device, likewise.
    pub reserved: u64,
    /// Free bytes inside the known segments of the pool that serves `asked`.
    pub free_in_pool: u64,
    /// The largest free block among them, bytes.
    pub largest_free: u64,
    /// Whether all segments and blocks were known.
    pub map: Completeness,
    /// The device's free memory, where the program asked before: PyTorch itself does, on the
    /// same thread, right before it reports.
    pub reading: Option<MemoryReading>,
    /// The same request made again at once, if it was.
    pub retry: Option<Retry>,
}

impl OutOfMemory {
    /// The pool that serves what was asked for.
    pub const fn pool(&self) -> Pool {
        Pool::of_size(self.asked)
    }
}

/// The next allocation of a thread after it ran out of memory, of the same size: it succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// When.
    pub at: Moment,
    /// Bytes that the program freed in between, on any thread.
    pub freed: u64,
    /// Whether the allocator took a new segment in between.
    pub new_segment: bool,
}

impl Retry {
    /// Whether nothing that was seen explains the success: then a block freed earlier had
    /// still been waiting for another stream when the memory ran out.
    pub const fn shows_pending_free(&self) -> bool {
        self.freed == 0 && !self.new_segment
    }
}
