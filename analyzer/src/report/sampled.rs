//! Families that were traced in windows, for the sake of an overhead budget.

use std::collections::BTreeSet;

use agent_common::{Api, Family, ProbeClass};
use serde::Serialize;
use trace::fact;

/// Families whose calls are those of windows: their counts are not totals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sampled {
    /// The budget, as a share of a thread's time; `None`: the recording does not say.
    pub max_overhead: Option<f64>,
    /// The families.
    pub families: Vec<String>,
    /// Windows that the recording tells of.
    pub windows: u64,
    /// Time in them, ns, added up: those of several recordings may overlap.
    pub open_ns: u64,
}

impl Sampled {
    /// Whether calls of this function are those of windows.
    pub(crate) fn has(&self, api: &Api) -> bool {
        match api.class() {
            ProbeClass::Steady | ProbeClass::Capture => false,
            ProbeClass::Torch | ProbeClass::Hot | ProbeClass::Memory => {
                self.families.iter().any(|name| name == api.family.name())
            }
        }
    }
}

/// What is sampled for the sake of any budget.
const ALWAYS: [&str; 3] = ["launch", "copy", "sync"];

/// Gathers windows.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    families: BTreeSet<String>,
    count: u64,
    open_ns: u64,
    until: Option<u64>,
}

impl Windows {
    /// A window, or the next stretch of one that stayed open.
    pub(crate) fn add(&mut self, window: &fact::Window) {
        let fact::Window {
            since,
            until,
            families,
            weight: _,
        } = window;
        self.count += u64::from(self.until != Some(*since));
        self.open_ns = self.open_ns.saturating_add(until.saturating_sub(*since));
        self.until = Some(*until);
        self.families.extend(families.iter().cloned());
    }

    /// Calls of a family come in windows from some moment on, whether there is one after it or not.
    pub(crate) fn sample(&mut self, family: Family) {
        self.families.insert(family.name().to_owned());
    }

    /// What was sampled, with the budget that the recorder was given; `None`: all was traced all
    /// the time.
    pub(crate) fn finish(mut self, max_overhead: Option<f64>) -> Option<Sampled> {
        if max_overhead.is_some() {
            self.families.extend(ALWAYS.map(str::to_owned));
        } else if self.families.is_empty() {
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
