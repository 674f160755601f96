//! `hist`: how sizes, lifetimes, durations and launches are distributed.
//!
//! The structs here are the JSON: docs/hist.md describes every key.

mod collect;
mod group;
mod log;
mod losses;
mod quantity;
mod table;
mod text;

use serde::{Serialize, Serializer};

use crate::histogram::{Distribution, Histogram};
use crate::report::Window;

pub use collect::{COLUMNS, Collector};
pub use group::{By, Group};
pub use log::write_log;
pub(crate) use losses::Losses;
pub use quantity::{Quantity, Unit};
pub use text::write as write_text;

/// Name and version of the JSON. The version changes when a key goes or changes its meaning;
/// new keys may come without.
pub const SCHEMA: &str = "cudasnoop.hist/1";

/// The report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The recording.
    pub recording: Recording,
    /// What part of it all else is about.
    pub window: Window,
    /// What values are grouped by; `None`: each quantity is one, but calls, which are by function.
    pub by: Option<By>,
    /// By quantity, the group with the most values first. What has no value is not there.
    pub histograms: Vec<Measured>,
}

/// The recording as a whole.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Recording {
    /// Rows of all kinds.
    pub events: u64,
    /// Timestamp of the first row, ns of `CLOCK_MONOTONIC`.
    pub start_ns: Option<u64>,
    /// When the last call in the window returned.
    pub end_ns: Option<u64>,
    /// Whether it ended as it should.
    pub complete: bool,
    /// Whether it lost events: then counts are too low; `None`: it does not say.
    #[serde(rename = "lossy", serialize_with = "any")]
    pub(crate) losses: Losses,
}

impl Recording {
    /// Whether it lost events; `None`: it does not say.
    pub fn is_lossy(&self) -> Option<bool> {
        self.losses.any()
    }
}

fn any<S: Serializer>(losses: &Losses, serializer: S) -> Result<S::Ok, S::Error> {
    losses.any().serialize(serializer)
}

/// The values of one quantity and group.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// What was measured.
    pub quantity: Quantity,
    /// In what.
    pub unit: Unit,
    /// Of whom; `None`: of all.
    pub group: Option<Group>,
    /// The values.
    #[serde(flatten)]
    pub distribution: Distribution,
    #[serde(skip)]
    histogram: Histogram,
}

impl Measured {
    /// `None` where nothing was counted.
    fn new(quantity: Quantity, group: Option<Group>, histogram: Histogram) -> Option<Self> {
        Some(Self {
            quantity,
            unit: quantity.unit(),
            group,
            distribution: histogram.distribution()?,
            histogram,
        })
    }
}
