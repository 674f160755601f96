//! Processes of an earlier run: which of them still run, and which of these are traced again.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use ledger::Ledger;
use trace::{Event, Fact, Kind, fact};

use crate::discover::Process;

/// How long a process that still runs may be without a recorder that traces it.
const CLAIM_WITHIN: Duration = Duration::from_mins(1);

/// The processes that the earlier run traced, and when it saw them last.
#[derive(Debug)]
pub(super) struct Away {
    /// Ticks after boot when they started, by process id.
    unclaimed: BTreeMap<u32, u64>,
    /// ns of `CLOCK_MONOTONIC`.
    last_seen: u64,
    /// Whether this run may trace them.
    carry_on: bool,
    since: Instant,
}

impl Away {
    /// Nobody was traced.
    pub(super) fn nobody() -> Self {
        Self {
            unclaimed: BTreeMap::new(),
            last_seen: 0,
            carry_on: false,
            since: Instant::now(),
        }
    }

    /// The processes that live in this ledger, last seen then.
    pub(super) fn of(ledger: &Ledger, last_seen: u64, carry_on: bool) -> Self {
        let live = ledger.live().map(|process| {
            let started = process.info().map_or(0, |info| info.start_time);
            (process.key().pid, started)
        });
        Self {
            unclaimed: live.collect(),
            last_seen,
            carry_on,
            since: Instant::now(),
        }
    }

    /// What is found when the recorder comes back: who is gone, and of all others that they went
    /// on unseen.
    pub(super) fn found_at_start(&mut self, now: fact::Clock) -> Vec<Event> {
        let now = now.monotonic;
        let length = now.saturating_sub(self.last_seen);
        let carry_on = self.carry_on;
        let mut events = Vec::new();
        self.unclaimed.retain(|&pid, &mut started| {
            let runs = carry_on && is_running(pid, started);
            events.push(if runs {
                let gap = fact::Gap {
                    pid,
                    reason: "the recorder was not running".to_owned(),
                    duration: Some(length),
                };
                event(pid, now, &Fact::Gap(gap))
            } else {
                event(pid, now, &Fact::Vanished)
            });
            runs
        });
        events
    }

    /// The session traces a process; says whether it is one of these.
    pub(super) fn claim(&mut self, process: &fact::Process) -> bool {
        let is_known = self.unclaimed.get(&process.pid) == Some(&process.start_time);
        if is_known {
            self.unclaimed.remove(&process.pid);
        }
        is_known
    }

    /// Those that nobody has traced again in time are known no more.
    pub(super) fn given_up(&mut self, now: u64) -> Vec<Event> {
        if self.unclaimed.is_empty() || self.since.elapsed() < CLAIM_WITHIN {
            return Vec::new();
        }
        std::mem::take(&mut self.unclaimed)
            .into_keys()
            .map(|pid| event(pid, now, &Fact::Vanished))
            .collect()
    }
}

fn is_running(pid: u32, started: u64) -> bool {
    let facts = Process::open(pid).and_then(|process| process.facts(false));
    facts.is_ok_and(|facts| facts.start_time == started)
}

fn event(pid: u32, timestamp: u64, fact: &Fact) -> Event {
    Event {
        timestamp,
        pid,
        tid: pid,
        kind: Kind::Fact,
        text: Some(fact.to_text()),
        ..Event::default()
    }
}
