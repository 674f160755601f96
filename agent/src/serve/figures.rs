//! What is known live, as documents: what the API answers, and what `cudasnoop top` shows of a
//! session of its own.

use std::sync::Arc;

use analyzer::{html::MemoryMap, memory::Report};

use super::{live::Live, metrics::Page};
#[cfg(feature = "tui")]
use crate::{
    serve::status::Status,
    session::{ProbeStatus, ProbeSwitch, Vitals},
    sink::Sink,
};

/// Fed by a session, read by whoever wants to know.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    live: Arc<Live>,
}

impl Figures {
    /// Of what `live` is fed with.
    pub(super) const fn of(live: Arc<Live>) -> Self {
        Self { live }
    }

    /// All metrics, now.
    pub(crate) fn metrics(&self) -> Page {
        let at = crate::session::monotonic();
        Page::new(&self.live.samples(), at)
    }

    /// Who holds which memory, now.
    pub(crate) fn memory(&self) -> Report {
        self.live.memory()
    }

    /// Memory piece by piece, now.
    pub(super) fn map(&self) -> MemoryMap {
        let at = crate::session::monotonic();
        MemoryMap::of(&self.live.collector(), at)
    }
}

/// Without HTTP.
#[cfg(feature = "tui")]
impl Figures {
    /// Of a session to come, whose probes are on while `switch` is, and as `probes` tells.
    pub(crate) fn new(switch: Arc<ProbeSwitch>, probes: Arc<ProbeStatus>) -> Self {
        Self::of(Arc::new(Live::new(
            Arc::new(Status::new(switch)),
            probes,
            false,
        )))
    }

    /// The sink to be fed in the next session.
    pub(crate) fn sink(&self) -> Box<dyn Sink> {
        Box::new(self.live.sink())
    }

    /// How the kernel's side does now.
    pub(crate) fn observe(&self, vitals: &Vitals) {
        self.live.observe(vitals);
    }
}
