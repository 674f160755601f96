//! What the keeper has ordered of the disk: what became of it, what was lost, when to try again.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender},
    },
    time::{Duration, Instant},
};

use trace::{Batch, SegmentName};

use super::{
    disk::{Failure, Order, Told, Written},
    size::SegmentSize,
    status::{Cause, Monitor},
};

/// Orders that may wait for the disk: some seconds of a busy process.
pub(super) const QUEUE: usize = 16;

/// How soon writing is tried again after a failure; twice as long after each one more.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// How often a failure that goes on is told of.
const REMIND: Duration = Duration::from_mins(1);

/// Events by why they could not be written.
pub(super) type Unwritten = BTreeMap<Cause, u64>;

/// A segment that was ordered and is not known to be whole.
#[derive(Debug)]
struct Ordered {
    header_rows: u64,
    /// Events handed over.
    events: u64,
    /// The losses that its header tells of.
    tells: Unwritten,
}

/// Whether there is a segment to write into.
#[derive(Debug)]
enum Mode {
    Writing {
        number: u64,
        size: SegmentSize,
    },
    /// Not since something failed; it is tried again then.
    Waiting {
        cause: Cause,
        until: Instant,
    },
}

/// Gives orders, and never waits for them to be obeyed.
#[derive(Debug)]
pub(super) struct Delivery {
    /// `None` when the last was given.
    orders: Option<SyncSender<Order>>,
    told: Receiver<Told>,
    monitor: Arc<Monitor>,
    mode: Mode,
    /// How long the next failure is waited out.
    retry: Duration,
    /// By the number of the segment.
    ordered: BTreeMap<u64, Ordered>,
    /// Orders that are not answered.
    unanswered: usize,
    /// To be told by the next segment.
    unwritten: Unwritten,
    /// A segment is under way that does not tell of all that was lost before it.
    tells_too_little: bool,
    reminded: Option<Instant>,
}

impl Delivery {
    /// Nothing is ordered yet.
    pub(super) fn new(
        orders: SyncSender<Order>,
        told: Receiver<Told>,
        monitor: Arc<Monitor>,
    ) -> Self {
        Self {
            orders: Some(orders),
            told,
            monitor,
            mode: Mode::Waiting {
                cause: Cause::DiskError,
                until: Instant::now(),
            },
            retry: FIRST_RETRY,
            ordered: BTreeMap::new(),
            unanswered: 0,
            unwritten: Unwritten::new(),
            tells_too_little: false,
            reminded: None,
        }
    }

    /// Whether there is a segment to write into; if not, events are lost.
    pub(super) const fn is_writing(&self) -> bool {
        matches!(self.mode, Mode::Writing { .. })
    }

    /// Whether the segment has its size, or its time.
    pub(super) fn is_full(&self) -> bool {
        matches!(&self.mode, Mode::Writing { size, .. } if size.is_full())
    }

    /// Whether the segment must end though it is not full, for the next one to tell what was lost.
    pub(super) const fn must_turn(&self) -> bool {
        self.is_writing() && self.tells_too_little
    }

    /// Whether it is time to begin a segment after a time without one.
    pub(super) fn may_begin(&self) -> bool {
        match self.mode {
            Mode::Writing { .. } => false,
            Mode::Waiting { until, .. } => Instant::now() >= until && self.unanswered == 0,
        }
    }

    /// What the next segment has to tell.
    pub(super) const fn unwritten(&self) -> &Unwritten {
        &self.unwritten
    }

    /// Orders a segment of `limit` bytes, whose header tells of [`Delivery::unwritten`]; says
    /// whether there was room for the order.
    pub(super) fn begin(&mut self, name: SegmentName, header: Vec<Batch>, limit: u64) -> bool {
        let number = name.number;
        let header_rows = header.iter().map(|batch| batch.rows() as u64).sum();
        if !self.order(Order::Open { name, header }) {
            self.fall_behind();
            return false;
        }
        let ordered = Ordered {
            header_rows,
            events: 0,
            tells: std::mem::take(&mut self.unwritten),
        };
        self.ordered.insert(number, ordered);
        self.tells_too_little = false;
        let size = SegmentSize::new(limit, header_rows);
        self.mode = Mode::Writing { number, size };
        true
    }

    /// Hands over a batch with so many events in it.
    pub(super) fn write(&mut self, batch: Batch, events: u64) {
        let Mode::Writing { number, size } = &mut self.mode else {
            self.lose(events);
            return;
        };
        let number = *number;
        size.sent(batch.rows() as u64);
        if !self.order(Order::Write { number, batch }) {
            self.fall_behind();
            self.lose(events);
        } else if let Some(ordered) = self.ordered.get_mut(&number) {
            ordered.events += events;
        }
    }

    /// The segment is whole. An order for which there is no room is made up for by the next
    /// segment's.
    pub(super) fn close(&mut self) {
        if let Mode::Writing { number, .. } = self.mode {
            self.order(Order::Close { number });
        }
    }

    /// These events are in no segment, since there is none.
    pub(super) fn lose(&mut self, events: u64) {
        if let Mode::Waiting { cause, .. } = self.mode {
            self.lose_for(cause, events);
        }
    }

    /// Hears what the disk has said meanwhile.
    pub(super) fn listen(&mut self) {
        while let Ok(told) = self.told.try_recv() {
            self.hear(told);
        }
    }

    /// Closes the segment, waits until all is written, and hears what became of it.
    pub(super) fn finish(&mut self) {
        let orders = self.orders.take();
        if let (Mode::Writing { number, .. }, Some(orders)) = (&self.mode, &orders) {
            // Nobody is kept waiting any more but us.
            let _ = orders.send(Order::Close { number: *number });
        }
        drop(orders);
        while let Ok(told) = self.told.recv() {
            self.hear(told);
        }
        self.monitor.lock().is_writing = false;
    }

    /// Gives an order; says whether there was room for it.
    fn order(&mut self, order: Order) -> bool {
        let orders = self.orders.as_ref();
        let has_room = orders.is_some_and(|orders| orders.try_send(order).is_ok());
        self.unanswered += usize::from(has_room);
        has_room
    }

    pub(super) fn hear(&mut self, told: Told) {
        let Told {
            number,
            written,
            failure,
        } = told;
        self.unanswered = self.unanswered.saturating_sub(1);
        let Some(written) = written else { return };
        // Answers come in order: of those before nothing more is heard.
        self.ordered.retain(|earlier, _| *earlier >= number);
        let Some(ordered) = self.ordered.get_mut(&number) else {
            return;
        };
        let is_kept = written.rows > ordered.header_rows || written.is_closed;
        if is_kept {
            // Nobody needs to tell it again.
            ordered.tells.clear();
        }
        if let Some(failure) = failure {
            self.failed(number, written, failure);
            return;
        }
        if written.is_closed {
            self.ordered.remove(&number);
        }
        self.monitor.lock().is_writing = true;
        match &mut self.mode {
            Mode::Writing {
                number: current,
                size,
            } if *current == number => size.written(written),
            Mode::Writing { .. } | Mode::Waiting { .. } => {}
        }
        if is_kept {
            self.recovered();
        }
    }

    /// The disk has given a segment up.
    fn failed(&mut self, number: u64, written: Written, failure: Failure) {
        let Failure { cause, text } = failure;
        if let Some(ordered) = self.ordered.remove(&number) {
            for (cause, events) in ordered.tells {
                *self.unwritten.entry(cause).or_default() += events;
            }
            let kept = written.rows.saturating_sub(ordered.header_rows);
            self.lose_for(cause, ordered.events.saturating_sub(kept));
        }
        match self.mode {
            Mode::Writing {
                number: current, ..
            } if current != number => self.tells_too_little = true,
            Mode::Writing { .. } | Mode::Waiting { .. } => {
                self.stop_writing(cause, &text, self.retry);
                self.retry = (self.retry * 2).min(LAST_RETRY);
            }
        }
    }

    fn lose_for(&mut self, cause: Cause, events: u64) {
        if events > 0 {
            *self.unwritten.entry(cause).or_default() += events;
            let mut status = self.monitor.lock();
            *status.unwritten.entry(cause).or_default() += events;
        }
    }

    /// The disk has no room for an order. It is tried again as soon as it has done all others.
    fn fall_behind(&mut self) {
        self.stop_writing(Cause::DiskSlow, "it has not kept up", Duration::ZERO);
    }

    fn stop_writing(&mut self, cause: Cause, text: &str, wait: Duration) {
        self.mode = Mode::Waiting {
            cause,
            until: Instant::now() + wait,
        };
        let error = format!("{cause}: {text}");
        let is_due = |reminded: Instant| reminded.elapsed() >= REMIND;
        if self.reminded.is_none_or(is_due) {
            self.reminded = Some(Instant::now());
            tracing::error!(
                "events are not recorded, tracing goes on: {error}; they are counted, and \
                 recording is tried again"
            );
        }
        let mut status = self.monitor.lock();
        status.is_writing = false;
        status.last_error = Some(error);
    }

    /// Events are on the disk.
    fn recovered(&mut self) {
        self.retry = FIRST_RETRY;
        if self.reminded.take().is_some() {
            let lost = self.monitor.status().all_unwritten();
            tracing::warn!("events are recorded again; {lost} were not until now");
        }
    }
}
