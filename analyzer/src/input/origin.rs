//! Where a recording was made: which clock its times are of, and which processes its ids mean.

use trace::fact::Clock;
use trace::{EventBatch, Fact};

/// Moments of boot that differ by less, ns, are of one boot: the time of day is set meanwhile.
const SAME_BOOT: u64 = 1_000_000_000;

/// What a recording tells of the machine it was made on, at its beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    /// The kernel's id of the boot; `None` in recordings of the first versions.
    boot_id: Option<String>,
    /// The number of the recorder's pid namespace; likewise.
    pid_namespace: Option<u64>,
    /// `None`: it does not say.
    pub(super) host: Option<String>,
    pub(super) clock: Option<Clock>,
    /// Families of functions that it has.
    pub(super) families: Vec<String>,
}

impl Origin {
    /// Takes in the next rows; whether all is known.
    pub(super) fn learn(&mut self, batch: &EventBatch) -> bool {
        for fact in batch
            .text()
            .iter()
            .filter_map(|(_, text)| Fact::parse(text))
        {
            if let Fact::Settings(settings) = fact {
                self.host.get_or_insert(settings.host);
                self.pid_namespace = self.pid_namespace.or(settings.pid_namespace);
                self.boot_id = self.boot_id.take().or(settings.boot_id);
                self.families = settings.events;
            } else if let Fact::Segment(segment) = fact {
                let told = Some(segment.boot_id).filter(|id| !id.is_empty());
                self.boot_id = self.boot_id.take().or(told);
            } else if let Fact::Clock(clock) = fact {
                self.clock.get_or_insert(clock);
            }
        }
        self.host.is_some() && self.clock.is_some()
    }

    /// Whether `CLOCK_MONOTONIC` of both is one clock.
    pub(super) fn has_clock_of(&self, other: &Self) -> bool {
        if let (Some(ours), Some(theirs)) = (&self.boot_id, &other.boot_id) {
            return ours == theirs;
        }
        let (Some(ours), Some(theirs)) = (self.clock, other.clock) else {
            return false;
        };
        let booted = |clock: Clock| i128::from(clock.realtime) - i128::from(clock.boottime);
        let is_near = booted(ours).abs_diff(booted(theirs)) < u128::from(SAME_BOOT);
        self.host.is_some() && self.host == other.host && is_near
    }

    /// Whether a process id means the same process in both.
    pub(super) fn has_processes_of(&self, other: &Self) -> bool {
        let is_same_namespace = match (self.pid_namespace, other.pid_namespace) {
            (Some(ours), Some(theirs)) => ours == theirs,
            // A pod's host name is its own.
            (Some(_), None) | (None, _) => self.host.is_some() && self.host == other.host,
        };
        self.has_clock_of(other) && is_same_namespace
    }

    /// ns from 0 on its `CLOCK_MONOTONIC` to 0 on the time of day, counted backwards; `None`
    /// where it has no clock.
    pub(super) fn boot_moment(&self) -> Option<i128> {
        let clock = self.clock?;
        Some(i128::from(clock.realtime) - i128::from(clock.monotonic))
    }

    /// Families that both have.
    pub(super) fn shares_families_with(&self, other: &Self) -> bool {
        let unknown = self.families.is_empty() || other.families.is_empty();
        let has = |family| other.families.contains(family);
        unknown || self.families.iter().any(has)
    }
}
