//! A report as one HTML page: everything in one file, for a browser without a network.
//!
//! ```text
//! report ──► its JSON, as `--json` prints it ─┐
//! rows ────► Collector ─► Supplement ─────────┼─► Page::write ─► file
//! assets (style, scripts, uPlot) ─────────────┘
//! ```
//!
//! The page draws from the two JSON documents in it: the report's own, so that its figures
//! cannot differ, and beside it what only a page shows ([`Supplement`]).

pub mod assets;
mod collect;
mod curve;
mod frame;
mod live;
mod map;
mod page;
mod snapshot;
mod supplement;

pub(crate) use collect::Collector;
pub use frame::Frame;
pub use live::MemoryMap;
pub(crate) use page::Page;
pub(crate) use snapshot::supplement as of_snapshot;
pub(crate) use supplement::Supplement;
