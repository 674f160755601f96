//! The thread that knows: it keeps the state that a segment begins with, and decides when the
//! next one does. It never waits for the disk.

use std::{
    sync::{Arc, mpsc::Receiver},
    time::{Duration, Instant},
};

use agent_common::ApiId;
use ledger::{Ledger, concerns_memory};
use trace::{Batch, Event, Fact, Kind, SegmentName, fact};

use super::{
    accounts::Accounts, away::Away, delivery::Delivery, disk::Told, resume::Resumed, stamp::stamp,
    standing::Standing, status::Monitor,
};
use crate::sink::{Counts, Sources, batches::Batches};

/// How long a segment that is full waits for names that its rows refer to.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the drain sends.
#[derive(Debug)]
pub(super) enum Message {
    Events(Vec<Event>),
    /// A quarter of a second has passed.
    Tick,
}

/// What it takes to keep a recording.
pub(super) struct Keeper {
    pub(super) delivery: Delivery,
    pub(super) sources: Sources,
    pub(super) monitor: Arc<Monitor>,
    /// Bytes of a segment.
    pub(super) segment_bytes: u64,
    pub(super) boot_id: String,
    pub(super) ledger: Ledger,
    pub(super) standing: Standing,
    /// Processes of an earlier run that nobody has claimed yet.
    pub(super) away: Away,
    pub(super) next_number: u64,
    pub(super) last_stamp: String,
    pub(super) next_seq: u64,
    /// Events taken, those of earlier runs included.
    pub(super) events: u64,
}

/// [`Keeper`] at work.
pub(super) struct Working {
    keeper: Keeper,
    accounts: Accounts,
    batches: Batches,
    /// Events in `batches`.
    gathered: u64,
    /// Since when the segment is full and waits for names.
    full_since: Option<Instant>,
    /// The session's last rows have begun to come.
    is_ending: bool,
    /// Events taken by this run.
    taken: u64,
}

impl Keeper {
    /// Goes on from what an earlier run left.
    pub(super) fn go_on_from(&mut self, resumed: Resumed, carry_on: bool) {
        let Resumed {
            ledger,
            mut standing,
            next_seq,
            events,
            boot_id,
            last_moment,
        } = resumed;
        self.next_seq = next_seq;
        self.events = events;
        standing.hand_on();
        // Of another boot neither the processes nor the clock are the same.
        if boot_id == self.boot_id {
            self.away = Away::of(&ledger, last_moment, carry_on);
            self.ledger = ledger;
            self.standing = standing;
        }
    }

    /// Orders the first segment.
    pub(super) fn start(self) -> Working {
        let mut working = Working {
            accounts: Accounts::new(),
            batches: Batches::starting_at(self.next_seq),
            gathered: 0,
            full_since: None,
            is_ending: false,
            taken: 0,
            keeper: self,
        };
        working.begin();
        for event in working
            .keeper
            .away
            .found_at_start((working.keeper.sources.clock)())
        {
            working.take(event);
        }
        working
    }
}

impl Working {
    /// Works until the drain has ended.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        for message in messages {
            match message {
                Message::Events(events) => {
                    for event in events {
                        self.take(event);
                    }
                }
                Message::Tick => {
                    if let Some(batch) = self.batches.due() {
                        self.hand_over(batch);
                    }
                    let now = (self.keeper.sources.clock)().monotonic;
                    for event in self.keeper.away.given_up(now) {
                        self.take(event);
                    }
                }
            }
            self.look_after();
        }
        self.finish();
    }

    /// Takes an event.
    fn take(&mut self, mut event: Event) {
        let mut fact = None;
        if event.kind == Kind::Fact {
            fact = event.text.as_deref().and_then(Fact::parse);
            if let Some(known) = fact.take() {
                let Some(told) = self.as_told(known.clone()) else {
                    return;
                };
                if told != known {
                    event.text = Some(told.to_text());
                }
                fact = Some(told);
            }
        } else {
            self.accounts.row(&event);
        }
        self.keeper.events += 1;
        self.taken += 1;
        self.note(&mut event, fact.as_ref());
        if self.keeper.delivery.is_writing() {
            self.gathered += 1;
            if let Some(batch) = self.batches.push(&event) {
                self.hand_over(batch);
            }
        } else {
            self.keeper.delivery.lose(1);
        }
    }

    /// A fact as this recording tells it: of a session that knows one recording from its start to
    /// its end, this is a segment. `None`: not at all.
    fn as_told(&mut self, fact: Fact) -> Option<Fact> {
        match fact {
            Fact::Account(account) => {
                self.is_ending = true;
                self.accounts.last(account).map(Fact::Account)
            }
            Fact::RecursionMisses { count } => {
                let count = self.accounts.last_recursion_misses(count);
                (count > 0).then_some(Fact::RecursionMisses { count })
            }
            Fact::Process(mut process) => {
                if self.keeper.away.claim(&process)
                    && let Some(known) = self.keeper.ledger.process(process.pid)
                {
                    // What came before this run is in the checkpoint.
                    process.from_start |= known.from_start();
                }
                Some(Fact::Process(process))
            }
            other => Some(other),
        }
    }

    /// Numbers a row and takes note of what it says.
    fn note(&mut self, event: &mut Event, fact: Option<&Fact>) {
        event.seq = self.keeper.next_seq;
        self.keeper.next_seq += 1;
        let api = event.api.and_then(ApiId::api);
        if api.is_none_or(|api| concerns_memory(api.effect)) {
            self.keeper.ledger.apply(event);
        }
        if let Some(fact) = fact {
            self.keeper.standing.fact(event, fact);
        } else {
            self.keeper.standing.used(event.kernel, event.caller);
        }
    }

    /// Hands a batch over to the disk, where that has room for it.
    fn hand_over(&mut self, batch: Batch) {
        let events = std::mem::take(&mut self.gathered);
        self.keeper.delivery.write(batch, events);
    }

    /// Hears what the disk says, and does what is due.
    fn look_after(&mut self) {
        self.keeper.delivery.listen();
        self.keeper.monitor.lock().events = self.taken;
        if !self.keeper.delivery.is_writing() {
            let gathered = std::mem::take(&mut self.gathered);
            self.keeper.delivery.lose(gathered);
        }
        // The last segment's accounts are the session's: they are not torn apart.
        if self.is_ending {
            return;
        }
        if self.keeper.delivery.may_begin() {
            self.begin();
        } else if self.keeper.delivery.must_turn() {
            self.turn();
        } else if self.keeper.delivery.is_full() {
            let since = *self.full_since.get_or_insert_with(Instant::now);
            if !self.keeper.standing.is_awaiting() || since.elapsed() >= PATIENCE {
                self.turn();
            }
        }
    }

    /// The disk has answered the first order.
    pub(super) fn hear(&mut self, told: Told) {
        self.keeper.delivery.hear(told);
    }

    /// Ends the segment and begins the next.
    fn turn(&mut self) {
        let counts = (self.keeper.sources.counts)();
        self.end(counts.as_ref());
        if self.keeper.delivery.is_writing() {
            self.begin_at(counts.as_ref());
        }
    }

    /// Ends the segment as it should be.
    fn end(&mut self, counts: Option<&Counts>) {
        let mut facts = self.accounts.turn(counts);
        facts.push(Fact::End);
        let now = (self.keeper.sources.clock)().monotonic;
        for fact in facts {
            let mut event = row(now, &fact);
            self.note(&mut event, Some(&fact));
            if let Some(batch) = self.batches.push(&event) {
                self.hand_over(batch);
            }
        }
        if let Some(batch) = self.batches.flush() {
            self.hand_over(batch);
        }
        self.keeper.delivery.close();
    }

    /// Begins a segment after a time without one.
    fn begin(&mut self) {
        let counts = (self.keeper.sources.counts)();
        self.accounts.begin(counts.as_ref());
        self.begin_at(counts.as_ref());
    }

    fn begin_at(&mut self, counts: Option<&Counts>) {
        if counts.is_none() {
            tracing::debug!("the kernel's counters cannot be read: this segment has no accounts");
        }
        let number = self.keeper.next_number;
        let clock = (self.keeper.sources.clock)();
        let stamp = stamp(&clock).max(self.keeper.last_stamp.clone());
        let name = SegmentName {
            stamp: stamp.clone(),
            number,
            is_open: true,
        };
        let header = self.header(number, clock);
        let limit = self.keeper.segment_bytes;
        if self.keeper.delivery.begin(name, header, limit) {
            self.keeper.next_number += 1;
            self.keeper.last_stamp = stamp;
        }
        self.full_since = None;
    }

    /// What a segment begins with.
    fn header(&mut self, number: u64, clock: fact::Clock) -> Vec<Batch> {
        let now = clock.monotonic;
        let segment = fact::Segment {
            number,
            events_before: self.keeper.events,
            boot_id: self.keeper.boot_id.clone(),
            forgotten_facts: self.keeper.standing.forgotten(),
        };
        let mut rows = vec![
            row(now, &Fact::Segment(segment)),
            row(now, &Fact::Clock(clock)),
        ];
        rows.extend(
            self.keeper
                .delivery
                .unwritten()
                .iter()
                .map(|(cause, events)| {
                    let unwritten = fact::Unwritten {
                        events: *events,
                        cause: cause.name().to_owned(),
                    };
                    row(now, &Fact::Unwritten(unwritten))
                }),
        );
        rows.extend(self.keeper.standing.events());
        let checkpoint = self.keeper.ledger.checkpoint();
        rows.extend(checkpoint.iter().map(|fact| row(now, fact)));
        let samples = self.keeper.ledger.samples();
        rows.extend(samples.map(|(pid, fact)| Event {
            pid,
            tid: pid,
            ..row(now, &fact)
        }));
        self.batches = Batches::starting_at(self.keeper.next_seq);
        self.keeper.next_seq += rows.len() as u64;
        let mut header: Vec<Batch> = rows
            .iter()
            .filter_map(|row| self.batches.push(row))
            .collect();
        header.extend(self.batches.flush());
        header
    }

    /// The drain has ended: its last rows, the end among them, have come.
    fn finish(mut self) {
        if let Some(batch) = self.batches.flush() {
            self.hand_over(batch);
        }
        self.keeper.delivery.finish();
        self.keeper.monitor.lock().events = self.taken;
    }
}

/// The row of a fact about the recording.
fn row(timestamp: u64, fact: &Fact) -> Event {
    Event {
        timestamp,
        kind: Kind::Fact,
        text: Some(fact.to_text()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests;
