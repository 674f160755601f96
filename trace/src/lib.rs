//! The recording: what is in it, and how it is written and read.
//!
//! A recording is one Arrow IPC stream with one table (docs/format.md). [`Writer`] makes
//! one, [`Reader`] reads it, whole or torn; both speak [`Event`].
#![forbid(unsafe_code)]

mod decode;
pub mod event;
pub mod fact;

pub use event::{Event, Kind};
pub use fact::Fact;
