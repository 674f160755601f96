//! What crosses from the kernel to user space: record layouts, API ids, flags,
//! the probe table, and the pure logic that both sides share.
//!
//! The eBPF programs (`agent-ebpf`) and every user-space crate compile this one
//! definition, so a layout cannot drift between them.
#![cfg_attr(not(feature = "user"), no_std)]
#![forbid(unsafe_code)]

mod api;
mod counters;
pub mod launch;
mod pairing;
mod record;
mod site;
mod table;
#[cfg(feature = "user")]
mod unprobed;
mod value;
mod windows;

pub use api::{Api, ApiId, Effect, Family, Layer, Probe, Shape};
pub use counters::Counters;
pub use pairing::{MAX_DEPTH, Pending, ThreadState};
pub use record::{
    BEFORE_13, CallRecord, HEADER_LEN, Header, KERNEL_NAME_CAPACITY, LongCallRecord, NameRecord,
    RecordKind, TaskRecord, flags,
};
pub use site::{Cookie, OWN_LINKS, Site, SiteFile, Twin};
pub use table::{APIS, MAX_APIS, TASKS};
#[cfg(feature = "user")]
pub use unprobed::Unprobed;
pub use value::{
    Field, MAX_VALUES, Place, PlaceKind, SHORT_VALUES, SizeFactors, Value, fingerprint,
    size_factors,
};
pub use windows::{CLASSES, ProbeClass, Windows};
