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

use agent_common::ApiId;
use serde::{Serialize, Serializer};

use crate::histogram::{Distribution, Histogram};
use crate::report::{LeftOut, Sampled, Window};

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
#[derive(Clone, Debug, Default, Serialize)]
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
    /// Families that were traced in windows alone; `None`: all was traced all the time.
    pub sampled: Option<Sampled>,
    /// Gaps between launches that are not in one window, or not known to be: they are not counted,
    /// since launches between were not seen.
    pub launch_gaps_left_out: u64,
    /// What is left out, since there was more of it than is kept; empty: nothing.
    pub left_out: Vec<LeftOut>,
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
    /// Whether they are those of windows: their count is no total.
    pub sampled: bool,
    /// The values.
    #[serde(flatten)]
    pub distribution: Distribution,
    #[serde(skip)]
    histogram: Histogram,
}

impl Measured {
    /// `None` where nothing was counted.
    fn new(
        quantity: Quantity,
        group: Option<Group>,
        sampled: Option<&Sampled>,
        histogram: Histogram,
    ) -> Option<Self> {
        let is_sampled = sampled.is_some_and(|sampled| match (quantity, &group) {
            (Quantity::CallNs, Some(Group::Api { api: Some(api) })) => {
                let api = ApiId::by_name(api).and_then(ApiId::api);
                api.is_some_and(|api| sampled.has(api))
            }
            // Of all families.
            (Quantity::CallNs, _) => true,
            (quantity, _) => quantity
                .sampled_with()
                .is_some_and(|family| sampled.families.iter().any(|name| name == family.name())),
        });
        Some(Self {
            sampled: is_sampled,
            quantity,
            unit: quantity.unit(),
            group,
            distribution: histogram.distribution()?,
            histogram,
        })
    }
}
