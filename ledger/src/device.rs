//! What one process holds on one device.

use std::num::NonZeroU64;

use crate::{AddressRange, Moment, Peak, Tally, pages::Pages};

/// How blocks stopped being live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// A free of theirs succeeded.
    pub freed: Tally,
    /// The process ended, or replaced its program, while they were live. No leak.
    pub implicit: Tally,
    /// Their address was handed out again, so a free of theirs was not seen.
    pub lost_free: Tally,
    /// A free of theirs began whose result is not known.
    pub unknown: Tally,
}

/// An answer of the driver to "how much memory is free".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryReading {
    /// Free bytes of the device, all processes considered.
    pub free: u64,
    /// Bytes of the device.
    pub total: u64,
    /// When the question was asked.
    pub at: Moment,
    /// The thread that asked.
    pub tid: u32,
    /// What the ledger knew this process to hold on the device then, bytes.
    pub held: u64,
}

/// What one process holds on one device.
#[derive(Clone, Debug)]
pub struct Device {
    live: Tally,
    pages: Pages,
    peak: Peak,
    pub(crate) ended: Ended,
    pub(crate) reading: Option<MemoryReading>,
}

impl Device {
    pub(crate) fn new(page: NonZeroU64) -> Self {
        Self {
            live: Tally::default(),
            pages: Pages::new(page),
            peak: Peak::default(),
            ended: Ended::default(),
            reading: None,
        }
    }

    /// Live blocks, and the bytes that the program asked for.
    pub const fn live(&self) -> Tally {
        self.live
    }

    /// Bytes of the distinct pages that live blocks touch.
    pub fn held_bytes(&self) -> u64 {
        self.pages.held()
    }

    /// Held bytes that no live block uses.
    pub fn waste_bytes(&self) -> u64 {
        self.held_bytes().saturating_sub(self.live.bytes)
    }

    /// The highest number of live bytes.
    pub const fn peak(&self) -> Peak {
        self.peak
    }

    /// How blocks ended.
    pub const fn ended(&self) -> Ended {
        self.ended
    }

    /// The last time that the process asked how much memory of the device is free.
    pub const fn reading(&self) -> Option<MemoryReading> {
        self.reading
    }

    pub(crate) fn add(&mut self, range: AddressRange, at: Moment) {
        self.live.add(range.size());
        self.pages.add(range);
        self.peak.note(self.live.bytes, at);
    }

    pub(crate) fn remove(&mut self, range: AddressRange) {
        self.live.remove(range.size());
        self.pages.remove(range);
    }
}
