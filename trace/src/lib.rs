//! The recording: what is in it, and how it is written and read.
//!
//! A recording is one Arrow IPC stream with one table (docs/format.md). [`Writer`] makes
//! one, [`Reader`] reads it, whole or torn; both speak [`Event`].
#![forbid(unsafe_code)]

pub mod batch;
mod batch_builder;
mod columns;
mod decode;
pub mod event;
pub mod fact;
mod message;
mod reader;
mod repair;
mod schema;
mod segment_name;
mod writer;

pub use batch::EventBatch;
pub use batch_builder::{Batch, BatchBuilder, Pushed, TEXT_CAPACITY};
pub use decode::device_identity;
pub use event::{Event, Kind};
pub use fact::Fact;
pub use message::{Cause, End};
pub use reader::{ReadError, Reader};
pub use repair::{RepairError, Repaired, repair};
pub use schema::{COLUMNS, FORMAT_VERSION, FORMAT_VERSION_KEY};
pub use segment_name::SegmentName;
pub use writer::{BatchWriter, WriteError, Writer};
