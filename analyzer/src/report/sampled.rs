//! Families that were traced in windows, for the sake of an overhead budget.

use std::collections::BTreeSet;

use serde::Serialize;
use trace::fact::{self, Settings};

/// Families whose calls are those of windows: their counts are not totals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sampled {
    /// The budget, as a share of a thread's time; `None`: the recording does not say.
    pub max_overhead: Option<f64>,
    /// The families.
    pub families: Vec<String>,
    /// Windows that the recording tells of.
    pub windows: u64,
    /// Time in them, ns.
    pub open_ns: u64,
}

/// What is sampled for the sake of any budget.
const ALWAYS: [&str; 3] = ["launch", "copy", "sync"];

/// Gathers windows.
#[derive(Debug, Default)]
pub(super) struct Windows {
    families: BTreeSet<String>,
    count: u64,
    open_ns: u64,
    until: Option<u64>,
}

impl Windows {
    /// A window, or the next stretch of one that stayed open.
    pub(super) fn add(&mut self, window: fact::Window) {
        let fact::Window {
            since,
            until,
            families,
            weight: _,
        } = window;
        self.count += u64::from(self.until != Some(since));
        self.open_ns = self.open_ns.saturating_add(until.saturating_sub(since));
        self.until = Some(until);
        self.families.extend(families);
    }

    /// What was sampled; `None`: all was traced all the time.
    pub(super) fn finish(mut self, settings: Option<&Settings>) -> Option<Sampled> {
        let max_overhead = settings.and_then(|settings| settings.max_overhead);
        if max_overhead.is_some() {
            self.families.extend(ALWAYS.map(str::to_owned));
        } else if self.count == 0 {
            return None;
        }
        Some(Sampled {
            max_overhead,
            families: self.families.into_iter().collect(),
            windows: self.count,
            open_ns: self.open_ns,
        })
    }
}
