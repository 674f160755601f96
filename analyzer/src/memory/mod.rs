//! Who holds the memory: per process and device, by kind and by holder; now, at the peak, at any
//! moment.
//!
//! [`Collector`] takes the events of a recording and makes a [`Report`]; [`write_text`] shows it
//! to a person, its serialization is the JSON of docs/memory.md.

mod collect;
mod report;
mod text;
mod timeline;

pub use collect::Collector;
pub use ledger::COLUMNS;
pub use report::{
    Curve, Device, Ended, Held, Holder, Kinds, Point, Pool, Process, Recording, Report, SCHEMA,
    Torch,
};
pub use text::write_text;
