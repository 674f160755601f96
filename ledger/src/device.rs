//! What one process holds on one device.

use serde::{Deserialize, Serialize};

use crate::{AddressRange, Limits, MemoryKind, Moment, Peak, Tally, pages::Pages};

/// Distance of what shares a page, bytes.
const SHARED_UNIT: u64 = 512;

/// How memory stopped being live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// It was given back.
    pub freed: Tally,
    /// The process, or the context that it lay in, ended. No leak.
    pub implicit: Tally,
    /// It was given back unseen: its address or handle was handed out again, or PyTorch has a
    /// block there that reaches out of it.
    pub lost_free: Tally,
    /// A free of it began whose result is not known.
    pub unknown: Tally,
}

impl Ended {
    /// Adds up what ended elsewhere.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            freed,
            implicit,
            lost_free,
            unknown,
        } = other;
        self.freed.merge(*freed);
        self.implicit.merge(*implicit);
        self.lost_free.merge(*lost_free);
        self.unknown.merge(*unknown);
    }
}

/// An answer of the driver to "how much memory is free".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

impl MemoryReading {
    /// Used bytes of the device that no allocation of this process accounts for: contexts,
    /// modules, graphs, what pools keep, managed memory, other processes. `None` where the
    /// ledger knew more than the device had in use: something known had been freed unseen.
    pub const fn unattributed(&self) -> Option<u64> {
        match self.total.checked_sub(self.free) {
            Some(used) => used.checked_sub(self.held),
            None => None,
        }
    }
}

/// How much room something takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// At addresses; may share its first and last page with others.
    Addresses(AddressRange),
    /// So many bytes, nobody knows where: in whole pages of its own, or in one that it shares with
    /// others of less than a page.
    Pages(u64),
    /// Not known.
    Unknown,
}

impl Extent {
    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::Addresses(range) => range.size(),
            Self::Pages(bytes) => bytes,
            Self::Unknown => 0,
        }
    }
}

/// What one process holds on one device.
#[derive(Clone, Debug)]
pub struct Device {
    by_kind: [Tally; MemoryKind::ALL.len()],
    /// Of the process's own device memory at addresses, but for pools.
    pages: Pages,
    /// What pools must have taken from the device for their live blocks.
    pool_pages: Pages,
    /// Bytes of whole pages besides.
    own_pages: u64,
    /// Bytes of what is less than a page and has no address: arrays. These share pages, one
    /// cannot tell which: at least as many are held as they fill. (On an H200 with driver 580,
    /// just as many at 52 of 60 moments of a random program, and one more at the others.)
    packed: u64,
    peak: Peak,
    peak_by_kind: [u64; MemoryKind::ALL.len()],
    pub(crate) ended: Ended,
    pub(crate) reading: Option<MemoryReading>,
}

impl Device {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            by_kind: [Tally::default(); MemoryKind::ALL.len()],
            pages: Pages::new(limits.page_bytes),
            pool_pages: Pages::new(limits.pool_page_bytes),
            own_pages: 0,
            packed: 0,
            peak: Peak::default(),
            peak_by_kind: [0; MemoryKind::ALL.len()],
            ended: Ended::default(),
            reading: None,
        }
    }

    /// Live device memory of the process's own (device, pool, VMM): how many, and the bytes that
    /// the program asked for.
    pub fn live(&self) -> Tally {
        let own = MemoryKind::ALL
            .into_iter()
            .filter(|kind| kind.is_own_device_memory());
        own.fold(Tally::default(), |mut live, kind| {
            live.merge(self.of_kind(kind));
            live
        })
    }

    /// Live memory of one kind.
    pub const fn of_kind(&self, kind: MemoryKind) -> Tally {
        self.by_kind[kind as usize]
    }

    /// Bytes of the distinct pages that the process's own device memory touches.
    pub fn held_bytes(&self) -> u64 {
        let at_addresses = self.pages.held().saturating_add(self.pool_pages.held());
        at_addresses
            .saturating_add(self.own_pages)
            .saturating_add(self.pages.whole(self.packed))
    }

    /// The sum that `bytes` without an address belong to, and what they add to it.
    fn without_address(&mut self, bytes: u64) -> (&mut u64, u64) {
        if self.pages.is_shared(bytes) {
            let unit = bytes.next_multiple_of(SHARED_UNIT);
            (&mut self.packed, unit)
        } else {
            let whole = self.pages.whole(bytes);
            (&mut self.own_pages, whole)
        }
    }

    fn pages_of(&mut self, kind: MemoryKind) -> &mut Pages {
        if kind == MemoryKind::Pool {
            &mut self.pool_pages
        } else {
            &mut self.pages
        }
    }

    /// Held bytes that nothing live uses.
    pub fn waste_bytes(&self) -> u64 {
        self.held_bytes().saturating_sub(self.live().bytes)
    }

    /// The highest number of live bytes.
    pub const fn peak(&self) -> Peak {
        self.peak
    }

    /// Live bytes of a kind at the moment of [`Self::peak`].
    pub const fn at_peak(&self, kind: MemoryKind) -> u64 {
        self.peak_by_kind[kind as usize]
    }

    /// How memory ended.
    pub const fn ended(&self) -> Ended {
        self.ended
    }

    /// The last time that the process asked how much memory of the device is free.
    pub const fn reading(&self) -> Option<MemoryReading> {
        self.reading
    }

    pub(crate) fn add(&mut self, kind: MemoryKind, extent: Extent, at: Moment) {
        self.by_kind[kind as usize].add(extent.bytes());
        if kind.is_own_device_memory() {
            match extent {
                Extent::Addresses(range) => self.pages_of(kind).add(range),
                Extent::Pages(bytes) => {
                    let (sum, bytes) = self.without_address(bytes);
                    *sum = sum.saturating_add(bytes);
                }
                Extent::Unknown => {}
            }
            self.note_peak(at);
        }
    }

    /// Takes back what was added.
    pub(crate) fn remove(&mut self, kind: MemoryKind, extent: Extent) {
        self.by_kind[kind as usize].remove(extent.bytes());
        if kind.is_own_device_memory() {
            match extent {
                Extent::Addresses(range) => self.pages_of(kind).remove(range),
                Extent::Pages(bytes) => {
                    let (sum, bytes) = self.without_address(bytes);
                    *sum = sum.saturating_sub(bytes);
                }
                Extent::Unknown => {}
            }
        }
    }

    fn note_peak(&mut self, at: Moment) {
        let live = self.live().bytes;
        if live > self.peak.bytes {
            self.peak.note(live, at);
            self.peak_by_kind = self.by_kind.map(|tally| tally.bytes);
        }
    }

    /// Peaks count from `at` on: what is live now is the first.
    pub(crate) fn restart_peak(&mut self, at: Moment) {
        self.peak = Peak::default();
        self.peak_by_kind = [0; MemoryKind::ALL.len()];
        self.note_peak(at);
    }

    /// Of a checkpoint: its peak is the highest of all times. Where that was before `from`, the
    /// highest since then is what `known` has seen, or what is live at the checkpoint.
    pub(crate) fn keep_peak_since(&mut self, from: Moment, known: Option<&Self>, at: Moment) {
        if self.peak.at.timestamp < from.timestamp {
            self.peak = known.map(|known| known.peak).unwrap_or_default();
            self.peak_by_kind =
                known.map_or([0; MemoryKind::ALL.len()], |known| known.peak_by_kind);
            self.note_peak(at);
        }
    }

    /// What was learnt before this stretch of a recording began.
    pub(crate) fn resume(
        &mut self,
        peak: Peak,
        peak_by_kind: [u64; MemoryKind::ALL.len()],
        ended: Ended,
        reading: Option<MemoryReading>,
    ) {
        self.peak = peak;
        self.peak_by_kind = peak_by_kind;
        self.ended = ended;
        self.reading = reading;
    }
}
