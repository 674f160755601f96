//! Copies by process, direction, host memory and timing.

use std::hash::{BuildHasher, Hash};

use agent_common::flags;
use ledger::HostMemory;
use rustc_hash::FxBuildHasher;
use serde::{Serialize, Serializer};

use super::threads::Run;
use crate::histogram::{Histogram, Percentiles, Precision};
use crate::report::Durations;
use crate::report::capped::Capped;
use crate::report::row::Row;

/// Most rows of copies.
const ROWS: usize = 1024;

/// Copies of at least so many bytes have a rate worth a figure: below, the call itself takes
/// most of the time.
pub(crate) const BULK_BYTES: u64 = 64 << 10;

/// Device addresses that are remembered, to tell a copy that recurs.
const ADDRESSES: usize = 1 << 16;

/// From where to where, as `cudaMemcpyKind` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Inside the host.
    HostToHost,
    /// To the device.
    HostToDevice,
    /// To the host.
    DeviceToHost,
    /// Inside the device, or between two.
    DeviceToDevice,
    /// CUDA inferred it from the addresses.
    Default,
    /// Not told.
    Unknown,
}

impl Direction {
    fn of(kind: Option<u8>) -> Self {
        match kind {
            Some(0) => Self::HostToHost,
            Some(1) => Self::HostToDevice,
            Some(2) => Self::DeviceToHost,
            Some(3) => Self::DeviceToDevice,
            Some(4) => Self::Default,
            Some(_) | None => Self::Unknown,
        }
    }

    /// As people read it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::HostToHost => "host to host",
            Self::HostToDevice => "host to device",
            Self::DeviceToHost => "device to host",
            Self::DeviceToDevice => "device to device",
            Self::Default => "by address",
            Self::Unknown => "unknown",
        }
    }

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HostToHost => "host_to_host",
            Self::HostToDevice => "host_to_device",
            Self::DeviceToHost => "device_to_host",
            Self::DeviceToDevice => "device_to_device",
            Self::Default => "default",
            Self::Unknown => "unknown",
        }
    }
}

/// What the time in the call is ("API synchronization behavior" in the documentation of the
/// CUDA runtime).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// All of the copy, and what the stream had to do before: the host goes on when it is done.
    Whole,
    /// Until the bytes are in the driver's own buffer: an asynchronous copy from pageable
    /// memory. The host waits for that, whatever the call's name says.
    Staged,
    /// Its submission: the copy goes on while the host does.
    Submitted,
    /// It became part of a graph, and copied nothing.
    Captured,
    /// One of these: what the host's memory is is not known.
    Unknown,
}

impl Timing {
    fn of(is_async: bool, row: &Row<'_>, direction: Direction, host: Option<HostMemory>) -> Self {
        if row.flags() & flags::CAPTURED != 0 {
            return Self::Captured;
        }
        match (direction, host) {
            (Direction::DeviceToDevice, _) => Self::Submitted,
            _ if !is_async => Self::Whole,
            (Direction::HostToDevice, Some(HostMemory::Pageable)) => Self::Staged,
            (Direction::DeviceToHost, Some(HostMemory::Pageable)) => Self::Whole,
            (_, Some(HostMemory::Pinned | HostMemory::Registered | HostMemory::Managed)) => {
                Self::Submitted
            }
            (
                Direction::HostToHost
                | Direction::HostToDevice
                | Direction::DeviceToHost
                | Direction::Default
                | Direction::Unknown,
                Some(HostMemory::Pageable | HostMemory::Unknown) | None,
            ) => Self::Unknown,
        }
    }

    /// Whether the host waits for the bytes to move.
    pub const fn blocks(self) -> bool {
        match self {
            Self::Whole | Self::Staged => true,
            Self::Submitted | Self::Captured | Self::Unknown => false,
        }
    }

    /// As people read it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Staged => "staged",
            Self::Submitted => "submitted",
            Self::Captured => "captured",
            Self::Unknown => "unknown",
        }
    }
}

/// Copies of one process with the same direction, host memory and timing.
#[derive(Clone, Debug, Serialize)]
pub struct Transfers {
    /// Process id; `None`: all beyond the first 1,024 rows.
    pub pid: Option<u32>,
    /// From where to where.
    pub direction: Direction,
    /// What the host's side was; `None`: it has none, or the direction is not known.
    #[serde(serialize_with = "host")]
    pub host: Option<HostMemory>,
    /// What the time in the calls is.
    pub timing: Timing,
    /// Copies, failed ones left out.
    pub copies: u64,
    /// Copies that returned an error.
    pub failed: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their sizes, bytes.
    pub sizes: Option<Percentiles>,
    /// Time in the calls, ns.
    pub duration_ns: Option<Durations>,
    /// Those of at least 64 KiB.
    pub bulk: Bulk,
    /// Entry of the first one, ns of `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// Return of the last one.
    pub to_ns: u64,
}

/// Copies of at least 64 KiB.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Bulk {
    /// How many.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time in the calls, ns.
    pub total_ns: u64,
    /// Of them, those of device memory that had been copied before: what runs in a loop, not what
    /// is loaded once.
    pub recurring_copies: u64,
    /// Their bytes.
    pub recurring_bytes: u64,
    /// Their time, ns.
    pub recurring_ns: u64,
    /// Bytes over time of single copies, where the call lasts as long as the copy.
    pub bytes_per_second: Option<Percentiles>,
    /// Single copies, where the copy goes on after the call, that the thread waited for at once.
    pub waited_copies: u64,
    /// Their bytes.
    pub waited_bytes: u64,
    /// From their entry to the end of the wait, ns.
    pub waited_ns: u64,
    /// The same of copies and runs of copies, bytes over that time: at least the copy's own rate.
    pub waited_bytes_per_second: Option<Percentiles>,
}

#[expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn host<S: Serializer>(host: &Option<HostMemory>, serializer: S) -> Result<S::Ok, S::Error> {
    host.map(HostMemory::name).serialize(serializer)
}

/// What tells rows of [`Transfers`] apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pid: u32,
    pub(super) direction: Direction,
    host: Option<HostMemory>,
    pub(super) timing: Timing,
}

/// A copy, as it was counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied {
    pub(super) key: Key,
    pub(super) bytes: u64,
    pub(super) failed: bool,
}

#[derive(Debug)]
struct Sums {
    copies: u64,
    failed: u64,
    sizes: Histogram,
    durations: Histogram,
    bulk: Bulk,
    rates: Histogram,
    waited_rates: Histogram,
    from: u64,
    to: u64,
}

/// All copies.
#[derive(Debug)]
pub(super) struct Table {
    rows: Capped<Key, Sums>,
    /// Hashes of device addresses of bulk copies, each in its place: a newer one takes the place
    /// of an older, so that memory is bounded.
    addresses: Box<[u64]>,
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            rows: Capped::new(ROWS),
            addresses: vec![0; ADDRESSES].into_boxed_slice(),
        }
    }

    /// A copy, by a function that is asynchronous by its name or not.
    pub(super) fn copy(
        &mut self,
        is_async: bool,
        row: &Row<'_>,
        host: Option<HostMemory>,
    ) -> Copied {
        let direction = Direction::of(row.copy_kind());
        let key = Key {
            pid: row.pid(),
            direction,
            host,
            timing: Timing::of(is_async, row, direction, host),
        };
        let (entered, duration) = (row.timestamp(), row.duration());
        let failed = row.result().is_some_and(|result| result != 0);
        let bytes = row.size().unwrap_or(0);
        let is_bulk = !failed && bytes >= BULK_BYTES && key.timing != Timing::Captured;
        let recurs = is_bulk && self.recurs(key, row);
        let sums = self.rows.entry(key, || Sums::new(entered));
        sums.from = sums.from.min(entered);
        sums.to = sums.to.max(row.end());
        if failed {
            sums.failed += 1;
        } else {
            sums.copies += 1;
            sums.sizes.record(bytes);
            if let Some(duration) = duration {
                sums.durations.record(duration);
            }
        }
        if is_bulk {
            sums.bulk(bytes, duration.unwrap_or(0), recurs);
            if let Some(rate) = duration
                .filter(|_| key.timing.blocks())
                .and_then(|ns| rate(bytes, ns))
            {
                sums.rates.record(rate);
            }
        }
        Copied { key, bytes, failed }
    }

    /// The thread waited for these copies right away; `total` ns from the first one's entry on.
    pub(super) fn waited_for(&mut self, run: Run, total: u64) {
        let is_bulk = run.bytes / run.copies.max(1) >= BULK_BYTES;
        if run.key.timing != Timing::Submitted || !is_bulk {
            return;
        }
        let sums = self.rows.entry(run.key, || Sums::new(run.entered));
        if run.copies == 1 {
            sums.bulk.waited_copies += 1;
            sums.bulk.waited_bytes = sums.bulk.waited_bytes.saturating_add(run.bytes);
            sums.bulk.waited_ns = sums.bulk.waited_ns.saturating_add(total);
        }
        if let Some(rate) = rate(run.bytes, total) {
            sums.waited_rates.record(rate);
        }
    }

    /// Whether this device memory was copied before, the same way.
    fn recurs(&mut self, key: Key, row: &Row<'_>) -> bool {
        let address = match key.direction {
            Direction::HostToDevice => row.address(),
            Direction::DeviceToHost => row.source(),
            Direction::HostToHost
            | Direction::DeviceToDevice
            | Direction::Default
            | Direction::Unknown => None,
        };
        let Some(address) = address else { return false };
        let hash = FxBuildHasher.hash_one((key, address)) | 1;
        let place = usize::try_from(hash >> 1).unwrap_or(0) % ADDRESSES;
        std::mem::replace(&mut self.addresses[place], hash) == hash
    }

    pub(super) fn finish(self) -> Vec<Transfers> {
        let rows = self.rows.into_sorted().into_iter();
        let mut rows: Vec<Transfers> = rows.map(|(key, sums)| sums.finish(key)).collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.bytes), row.direction, row.timing));
        rows
    }
}

impl Sums {
    fn new(from: u64) -> Self {
        Self {
            copies: 0,
            failed: 0,
            sizes: Histogram::new(Precision::Coarse),
            durations: Histogram::new(Precision::Coarse),
            bulk: Bulk::default(),
            rates: Histogram::new(Precision::Coarse),
            waited_rates: Histogram::new(Precision::Coarse),
            from,
            to: from,
        }
    }

    fn bulk(&mut self, bytes: u64, duration: u64, recurs: bool) {
        let bulk = &mut self.bulk;
        bulk.copies += 1;
        bulk.bytes = bulk.bytes.saturating_add(bytes);
        bulk.total_ns = bulk.total_ns.saturating_add(duration);
        if recurs {
            bulk.recurring_copies += 1;
            bulk.recurring_bytes = bulk.recurring_bytes.saturating_add(bytes);
            bulk.recurring_ns = bulk.recurring_ns.saturating_add(duration);
        }
    }

    fn finish(self, key: Option<Key>) -> Transfers {
        let Self {
            copies,
            failed,
            sizes,
            durations,
            bulk,
            rates,
            waited_rates,
            from,
            to,
        } = self;
        Transfers {
            pid: key.map(|key| key.pid),
            direction: key.map_or(Direction::Unknown, |key| key.direction),
            host: key.and_then(|key| key.host),
            timing: key.map_or(Timing::Unknown, |key| key.timing),
            copies,
            failed,
            bytes: sizes.total(),
            sizes: sizes.percentiles(),
            duration_ns: Durations::of(&durations),
            bulk: Bulk {
                bytes_per_second: rates.percentiles(),
                waited_bytes_per_second: waited_rates.percentiles(),
                ..bulk
            },
            from_ns: from,
            to_ns: to,
        }
    }
}

/// Bytes a second; `None` in no time.
fn rate(bytes: u64, ns: u64) -> Option<u64> {
    let scaled = u128::from(bytes) * 1_000_000_000;
    u64::try_from(scaled.checked_div(u128::from(ns))?).ok()
}
