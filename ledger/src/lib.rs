//! The memory model: events in, state out.
//!
//! [`Ledger::apply`] takes the events of a recording, or of a running agent, in order of
//! `seq`, and knows afterwards who holds which device memory:
//!
//! ```text
//! Ledger ─ Process (pid, incarnation)
//!            ├─ Device ─ live, held and waste bytes, their peak, how blocks ended
//!            ├─ Block ─ one live device allocation: address, size, caller, thread, time
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
#![forbid(unsafe_code)]

mod block;
mod device;
mod free;
mod losses;
mod moment;
mod pages;
mod process;
mod range;
mod registry;
mod tally;
pub mod torch;

pub use block::Block;
pub use device::{Device, Ended, MemoryReading};
pub use losses::Losses;
pub use moment::{Moment, Peak};
pub use process::{Counters, End, EndCause, Process, ProcessKey};
pub use range::{AddressRange, RangeMap, Ranged};
pub use registry::{Ledger, Limits};
pub use tally::Tally;
pub use torch::{CachingAllocator, OutOfMemory, Pool, Segment, TorchBlock};
