//! What the kernel's side lost, and how it does.

use agent_common::{Counters, Family};

use crate::{
    serve::metrics::{Metric, Samples},
    session::Vitals,
};

/// What was last seen of the kernel's side, over all sessions.
#[derive(Debug, Default)]
pub(super) struct KernelSide {
    /// Of sessions before this one.
    before: Losses,
    now: Losses,
    ring_fill: f64,
}

/// Records that were lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    ring: u64,
    pairing: u64,
    extra: u64,
    tasks: u64,
    pub(super) recursion: u64,
    /// Of them, those of memory calls, and PyTorch's reports.
    pub(super) memory: u64,
    pub(super) torch: u64,
}

impl KernelSide {
    /// Another session begins, whose counters begin at 0.
    pub(super) fn begin(&mut self) {
        *self = Self {
            before: self.losses(),
            ..Self::default()
        };
    }

    /// How it does now.
    pub(super) fn observe(&mut self, vitals: &Vitals) {
        self.now = Losses::of(vitals);
        self.ring_fill = vitals.ring_fill;
    }

    pub(super) const fn losses(&self) -> Losses {
        self.before.plus(self.now)
    }

    /// Losses, and how full the ring is.
    pub(super) fn collect(&self, samples: &mut Samples) {
        let Losses {
            ring,
            pairing,
            extra,
            tasks,
            recursion,
            memory: _,
            torch: _,
        } = self.losses();
        let causes = [
            ("ring_full", ring),
            ("pairing_full", pairing),
            ("extra", extra),
            ("tasks", tasks),
            ("recursion", recursion),
        ];
        for (cause, count) in causes {
            samples.count(Metric::EventsLost, vec![cause.into()], count);
        }
        samples.number(Metric::RingFill, vec![], self.ring_fill);
    }
}

impl Losses {
    fn of(vitals: &Vitals) -> Self {
        let mut losses = Self {
            tasks: vitals.unseen_tasks,
            recursion: vitals.recursion_misses,
            ..Self::default()
        };
        for totals in &vitals.totals {
            let Counters {
                lost_ring,
                lost_pairing,
                lost_extra,
                ..
            } = totals.counters;
            losses.ring += lost_ring;
            losses.pairing += lost_pairing;
            losses.extra += lost_extra;
            let all = lost_ring + lost_pairing + lost_extra;
            match totals.api.api().map(|api| api.family) {
                Some(Family::Memory) => losses.memory += all,
                Some(Family::Torch) => losses.torch += all,
                Some(
                    Family::Launch
                    | Family::Graph
                    | Family::Copy
                    | Family::Sync
                    | Family::Module
                    | Family::Device,
                )
                | None => {}
            }
        }
        losses
    }

    const fn plus(self, other: Self) -> Self {
        let Self {
            ring,
            pairing,
            extra,
            tasks,
            recursion,
            memory,
            torch,
        } = other;
        Self {
            ring: self.ring + ring,
            pairing: self.pairing + pairing,
            extra: self.extra + extra,
            tasks: self.tasks + tasks,
            recursion: self.recursion + recursion,
            memory: self.memory + memory,
            torch: self.torch + torch,
        }
    }

    /// Of all causes.
    pub(super) const fn all(self) -> u64 {
        self.ring + self.pairing + self.extra + self.tasks + self.recursion
    }
}
