//! Events gathered into batches, and when a batch is due though it is not full.

use std::time::{Duration, Instant};

use trace::{Batch, BatchBuilder, Event};

/// A batch with at least this many rows is written after a second, a smaller one after ten.
const LARGE: usize = 2048;
const LARGE_AGE: Duration = Duration::from_secs(1);
const SMALL_AGE: Duration = Duration::from_secs(10);

/// Gathers events.
#[derive(Debug)]
pub(super) struct Batches {
    builder: BatchBuilder,
    /// When the oldest row that is in no batch yet came.
    oldest: Option<Instant>,
}

impl Batches {
    /// The first row gets this `seq`.
    pub(super) fn starting_at(seq: u64) -> Self {
        Self {
            builder: BatchBuilder::starting_at(seq),
            oldest: None,
        }
    }

    /// Appends an event; the batch that it makes full.
    pub(super) fn push(&mut self, event: &Event) -> Option<Batch> {
        let full = self.builder.push(event).full;
        if full.is_some() {
            self.oldest = None;
        } else if self.oldest.is_none() {
            self.oldest = Some(Instant::now());
        }
        full
    }

    /// The rows that have waited long enough.
    pub(super) fn due(&mut self) -> Option<Batch> {
        let limit = if self.builder.pending() >= LARGE {
            LARGE_AGE
        } else {
            SMALL_AGE
        };
        let is_due = self.oldest.is_some_and(|oldest| oldest.elapsed() >= limit);
        if is_due { self.flush() } else { None }
    }

    /// The rows that are in no batch yet.
    pub(super) fn flush(&mut self) -> Option<Batch> {
        self.oldest = None;
        self.builder.flush()
    }
}
