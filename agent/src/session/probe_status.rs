//! Which probes are on now: control says it, anybody reads it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::budget::Standing;

/// What control last said.
#[derive(Debug, Default)]
pub struct ProbeStatus(Mutex<Status>);

#[derive(Clone, Debug, Default)]
struct Status {
    attached: Vec<(String, usize)>,
    idle: usize,
    budget: Option<Standing>,
}

impl ProbeStatus {
    /// File names of libraries, and how many of their functions have probes.
    pub fn attached(&self) -> Vec<(String, usize)> {
        self.status().attached.clone()
    }

    /// Processes that go without probes, since they do not use CUDA.
    pub fn idle(&self) -> usize {
        self.status().idle
    }

    /// How the overhead budget does, where there is one.
    pub fn budget(&self) -> Option<Standing> {
        self.status().budget
    }

    pub(super) fn set_attached(&self, attached: Vec<(String, usize)>, idle: usize) {
        let mut status = self.status();
        status.attached = attached;
        status.idle = idle;
    }

    pub(super) fn set_budget(&self, budget: Standing) {
        self.status().budget = Some(budget);
    }

    /// Should a thread have panicked over it, it is still the best that there is.
    fn status(&self) -> MutexGuard<'_, Status> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
