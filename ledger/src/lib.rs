//! The memory model: events in, state out.
//!
//! [`Ledger::apply`] takes the events of a recording, or of a running agent, in order of
//! `seq`, and knows afterwards who holds which memory:
//!
//! ```text
//! Ledger ─ Process (pid, incarnation)
//!            ├─ Device ─ live bytes by kind, held and waste bytes, the peak, how memory ended
//!            ├─ Block ─ memory at an address: kind, size, caller, thread, time
//!            ├─ Array ─ device memory known by a handle
//!            ├─ Vmm ─ reservations, physical memory by reference count, mappings
//!            ├─ MemoryPool ─ what allocation in stream order comes from
//!            └─ CachingAllocator (PyTorch, per device)
//!                 ├─ Segment ─ memory that the allocator took from the device
//!                 └─ TorchBlock ─ memory that it handed to the program
//! ```
//!
//! What it promises:
//! - It is pure: the same events give the same state, live or years later.
//! - No total is ever negative, whatever is missing from the events.
//! - What does not fit together is counted ([`Counters`], [`Ended`],
//!   [`CachingAllocator::discontinuities`]), not guessed away.
//! - Its size is bounded ([`Limits`]); what found no place is counted.
//! - [`Ledger::checkpoint`] writes all of it as facts; a ledger that reads them goes on from there.
#![forbid(unsafe_code)]

mod block;
mod change;
mod checkpoint;
mod context;
mod device;
mod free;
mod graph;
mod kind;
mod losses;
mod moment;
mod operation;
mod pages;
mod pool;
mod process;
mod range;
mod registry;
mod renumber;
mod serial;
mod shared;
mod tally;
pub mod torch;
pub mod vmm;

pub use block::{Array, Block, Origin};
pub use change::Change;
pub use device::{Device, Ended, MemoryReading};
pub use kind::MemoryKind;
pub use losses::Losses;
pub use moment::{Moment, Peak};
pub use operation::{concerns_memory, kind_taken};
pub use pool::MemoryPool;
pub use process::{Counters, End, EndCause, Freed, Holder, HostMemory, Process, ProcessKey};
pub use range::{AddressRange, RangeMap, Ranged};
pub use registry::{COLUMNS, Ledger, Limits};
pub use renumber::Renumber;
pub use tally::Tally;
pub use torch::{CachingAllocator, OutOfMemory, Pool, Segment, TorchBlock};
pub use vmm::Vmm;
