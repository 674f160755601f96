//! The analysis toolkit: recordings in, answers out. Runs without Linux, root or eBPF.
//!
//! The library is pure: [`report::Collector`] takes [`trace::EventBatch`]es, and makes a
//! [`report::Report`]; files, terminals and exit codes are dealt with in [`cli`] alone.
#![forbid(unsafe_code)]

mod ahead;
pub mod cli;
pub mod cuda_error;
pub mod demangle;
pub mod device_choice;
pub mod diff;
mod error;
pub mod export;
pub mod failures;
pub mod findings;
pub mod fragmentation;
pub mod growth;
pub mod hist;
mod histogram;
pub mod host;
pub mod html;
mod input;
pub mod launches;
pub mod memory;
pub mod oom;
pub mod report;
pub mod selection;
pub mod snapshot;
pub mod syncs;
pub mod text;
pub mod transfers;
pub mod wall_clock;
mod windows;

pub use error::Error;
