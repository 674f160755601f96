//! Points in a recording.

use serde::{Deserialize, Serialize};
use trace::Event;

/// When something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// The event's place in the recording: this orders moments.
    pub seq: u64,
    /// When the event's call was entered, ns of `CLOCK_MONOTONIC`.
    pub timestamp: u64,
}

impl Moment {
    /// The moment of `event`.
    pub const fn of(event: &Event) -> Self {
        Self {
            seq: event.seq,
            timestamp: event.timestamp,
        }
    }
}

/// The highest value that a total has had, and when it first had it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peak {
    /// Bytes.
    pub bytes: u64,
    /// When; meaningless while `bytes` is 0.
    pub at: Moment,
}

impl Peak {
    pub(crate) const fn note(&mut self, bytes: u64, at: Moment) {
        if bytes > self.bytes {
            *self = Self { bytes, at };
        }
    }
}
