//! PyTorch's caching allocator, seen from outside.
//!
//! `libc10` reports every block that the allocator hands out or takes back, with the
//! allocator's own totals (`c10::reportMemoryUsageToProfiler`). Device allocations in which
//! such blocks lie are its segments. Both together are the map that
//! `torch.cuda.memory_snapshot()` shows, but for what is not reported: the size that the
//! program asked for before rounding, the stream and the private pool of a block, and whether
//! a freed block still waits for another stream.

mod allocator;
mod oom;
pub mod rules;
mod segment;

pub use allocator::{CachingAllocator, Completeness};
pub use oom::{OutOfMemory, Retry};
pub use rules::Pool;
pub use segment::{Segment, TorchBlock};

pub(crate) use allocator::{Account, ReleasedSegment};
