//! What the overhead budget is kept with, and what is told of it.

use std::{sync::Arc, time::Instant};

use agent_common::{Api, ApiId, Family, ProbeClass, Windows};
use aya::maps::{Array, MapData};
use trace::{Fact, fact};

use super::clock;
use crate::{
    budget::{Meter, Policy, Prices, Share, Standing, Uses},
    programs::State,
};

/// What the budget is kept with.
pub(in crate::session) struct Budget {
    pub(super) share: Share,
    pub(super) policy: Policy,
    meter: Meter,
    /// Which functions windows look at.
    pub(super) uses: Uses,
    /// Probes that were put on for the open window, at most on one process.
    pub(super) switched: usize,
    pub(super) state: Arc<State>,
    /// The word that the programs look at, and what is in it.
    word: Array<MapData, u32>,
    pub(super) windows: Windows,
    /// When the open window, or its last stretch, began.
    pub(super) opened: u64,
    /// Until when it is known what happened: the end of the last window.
    pub(super) known_until: u64,
    /// When return probes were last taken off: calls from before cannot be seen to return.
    pub(super) cut: Option<u64>,
    pub(super) warned: bool,
    pub(super) looked: Instant,
}

impl Budget {
    pub(in crate::session) fn new(
        share: Share,
        prices: Prices,
        state: Arc<State>,
        word: Array<MapData, u32>,
    ) -> Self {
        let now = clock::monotonic();
        let mut budget = Self {
            share,
            policy: Policy::new(share, now),
            meter: Meter::new(prices),
            uses: Uses::default(),
            switched: 0,
            state,
            word,
            windows: Windows::default(),
            opened: now,
            known_until: now,
            cut: None,
            warned: false,
            looked: Instant::now(),
        };
        budget.set(budget.windows.sampling(ProbeClass::Hot));
        budget
    }

    pub(super) fn set(&mut self, windows: Windows) {
        self.windows = windows;
        if let Err(error) = self.word.set(0, &windows.0, 0) {
            tracing::error!("telling the eBPF programs of a window: {error}");
        }
    }

    /// What windows are for.
    pub(super) fn sampled(&self) -> Vec<ProbeClass> {
        self.policy.samples().collect()
    }

    /// Whether probes of a class belong on what is attached now.
    pub(super) fn is_on(&self, class: ProbeClass) -> bool {
        match class {
            ProbeClass::Capture => self.policy.follows_captures(),
            ProbeClass::Steady | ProbeClass::Torch | ProbeClass::Hot | ProbeClass::Memory => {
                self.policy.is_open() || !self.sampled().contains(&class)
            }
        }
    }

    /// Takes note of which functions were called in a window.
    pub(super) fn note_uses(&mut self) {
        let sampled = self.sampled();
        let is_sampled = |api: &Api| sampled.contains(&api.class());
        let called = ApiId::all().filter(|id| {
            // What cannot be read counts as called.
            let counters = || self.state.counters(id.0);
            id.api().is_some_and(is_sampled)
                && counters().map_or(true, |of| of.made != 0 || of.folded != 0)
        });
        self.uses.closed(called);
    }

    pub(super) fn charge(&mut self) {
        let cost = self.meter.read(self.state.hits());
        self.policy.charge(clock::monotonic(), cost);
    }

    /// When the next look is due.
    pub(super) fn due(&self) -> Instant {
        self.looked + self.policy.wait()
    }

    pub(super) fn standing(&self) -> Standing {
        Standing {
            budget: self.share.ratio(),
            overhead: self.policy.overhead(),
            window: self.policy.window(),
            prices: self.meter.prices(),
        }
    }

    /// The window, or the stretch of it, that ends now: the fact that tells of it.
    pub(super) fn told(&mut self, until: u64) -> Fact {
        let since = self.opened;
        let families = self.policy.samples().flat_map(families);
        let window = fact::Window {
            since,
            until,
            families: families.map(|family| family.name().to_owned()).collect(),
            weight: weight(self.known_until, since, until),
        };
        self.known_until = until;
        self.opened = until;
        Fact::Window(window)
    }
}

/// Return probes of sampled calls were taken off: those from before are lost from sight.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Cut {
    /// When, ns.
    pub(in crate::session) at: u64,
    /// Says which are sampled.
    pub(in crate::session) windows: Windows,
}

/// The fact that tells of a process what nobody knows once a class comes in windows.
pub(super) const fn loss_of(class: ProbeClass) -> Option<Fact> {
    match class {
        ProbeClass::Torch => Some(Fact::TorchSampled),
        ProbeClass::Memory => Some(Fact::MemorySampled),
        ProbeClass::Steady | ProbeClass::Hot | ProbeClass::Capture => None,
    }
}

/// What a call in a window stands for: the time since the window before, too.
#[expect(
    clippy::cast_precision_loss,
    reason = "104 days of nanoseconds are exact"
)]
fn weight(known_until: u64, since: u64, until: u64) -> f64 {
    let length = until.saturating_sub(since).max(1);
    let all = until.saturating_sub(known_until).max(length);
    all as f64 / length as f64
}

fn families(class: ProbeClass) -> &'static [Family] {
    match class {
        ProbeClass::Steady | ProbeClass::Capture => &[],
        ProbeClass::Memory => &[Family::Memory],
        ProbeClass::Torch => &[Family::Torch],
        ProbeClass::Hot => &[Family::Launch, Family::Copy, Family::Sync],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "exact quotients")]
    fn a_window_stands_for_the_time_before_it() {
        assert_eq!(weight(0, 800, 1000), 5.0);
        assert_eq!(weight(1000, 1000, 2000), 1.0);
        // Clocks that do not fit together make no call count less than once.
        assert_eq!(weight(2000, 1000, 1500), 1.0);
    }
}
