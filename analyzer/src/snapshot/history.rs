//! The history of an allocator: its trace entries, summed up as they are read.
//!
//! PyTorch keeps the last entries in a ring, so a history may begin in the middle. Its curves
//! are therefore counted back from the state at its end, which the segments tell.

use rustc_hash::FxHashMap;

use super::intern::StackId;

/// The most points of a curve.
const POINTS: usize = 256;
/// The most times of running out of memory that are kept.
const OUT_OF_MEMORY: usize = 256;

/// What a trace entry says happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A block was handed out; its size is the one asked for.
    Alloc,
    /// The program gave a block back.
    FreeRequested,
    /// A block that was given back can be used again.
    FreeCompleted,
    /// A segment came, or pages of an expandable one.
    SegmentAdded,
    /// A segment went, or pages of an expandable one.
    SegmentRemoved,
    /// Memory ran out.
    OutOfMemory,
    /// Something that changes nothing, or of a later PyTorch.
    Other,
}

/// A trace entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) action: Action,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) time_us: Option<i64>,
    pub(crate) device_free: Option<u64>,
    pub(crate) stack: StackId,
}

/// Memory ran out, by the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RanOut {
    /// Place among the entries.
    pub index: u64,
    /// When, µs since 1970.
    pub time_us: Option<i64>,
    /// What was asked for, rounded as PyTorch rounds, bytes.
    pub asked: u64,
    /// Free bytes of the device then.
    pub device_free: Option<u64>,
    /// Where it was asked for.
    pub stack: StackId,
    /// Bytes whose free was completed right before: while the request was failing.
    pub completed_just_before: u64,
    /// Whether the same size was handed out later with nothing freed and no segment taken in
    /// between; `None`: no later request of that size.
    pub retry_worked: Option<bool>,
}

/// A point of a curve: the highest values of some entries that follow each other.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    entries: u64,
    time_us: Option<i64>,
    requested: i64,
    reserved: i64,
}

/// A request that failed and may be made again.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    place: usize,
    disturbed: bool,
}

/// The entries of one device, summed up.
#[derive(Debug, Default)]
pub struct History {
    entries: u64,
    allocations: u64,
    frees: u64,
    unknown_frees: u64,
    unknown_free_bytes: u64,
    first_us: Option<i64>,
    last_us: Option<i64>,
    requested: i64,
    peak_requested: Option<(i64, Option<i64>)>,
    reserved: i64,
    peak_reserved: Option<(i64, Option<i64>)>,
    buckets: Vec<Bucket>,
    width: u64,
    live: FxHashMap<u64, u64>,
    completed: u64,
    ran_out: Vec<RanOut>,
    ran_out_count: u64,
    awaited: Option<Awaited>,
}

/// A point of the curve of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Entries up to here.
    pub entries: u64,
    /// When the last of them was made, µs since 1970.
    pub time_us: Option<i64>,
    /// The most bytes handed out since the point before, as asked for.
    pub requested: u64,
    /// The most bytes reserved since the point before.
    pub reserved: u64,
}

impl History {
    #[expect(
        clippy::cast_possible_wrap,
        reason = "sizes beyond 63 bits are refused by the reader"
    )]
    pub(crate) fn push(&mut self, entry: &Entry) {
        let Entry {
            action,
            address,
            size,
            time_us,
            device_free,
            stack,
        } = *entry;
        self.entries += 1;
        if time_us.is_some() {
            self.first_us = self.first_us.or(time_us);
            self.last_us = time_us;
        }
        let change = size as i64;
        match action {
            Action::Alloc => {
                self.allocations += 1;
                self.live.insert(address, size);
                self.requested = self.requested.saturating_add(change);
                self.note_retry(size);
            }
            Action::FreeRequested => {
                self.frees += 1;
                if self.live.remove(&address).is_none() {
                    self.unknown_frees += 1;
                    self.unknown_free_bytes = self.unknown_free_bytes.saturating_add(size);
                }
                self.requested = self.requested.saturating_sub(change);
                self.disturb();
            }
            Action::SegmentAdded => {
                self.reserved = self.reserved.saturating_add(change);
                self.disturb();
            }
            Action::SegmentRemoved => self.reserved = self.reserved.saturating_sub(change),
            Action::OutOfMemory => self.run_out(size, time_us, device_free, stack),
            Action::FreeCompleted | Action::Other => {}
        }
        // PyTorch gives back free segments before it fails: they may come in between.
        match action {
            Action::FreeCompleted => self.completed = self.completed.saturating_add(size),
            Action::SegmentRemoved | Action::Other => {}
            Action::Alloc | Action::FreeRequested | Action::SegmentAdded | Action::OutOfMemory => {
                self.completed = 0;
            }
        }
        let peak = |peak: &mut Option<(i64, Option<i64>)>, value: i64| {
            if peak.is_none_or(|(most, _)| value > most) {
                *peak = Some((value, time_us));
            }
        };
        peak(&mut self.peak_requested, self.requested);
        peak(&mut self.peak_reserved, self.reserved);
        self.draw(time_us);
    }

    fn run_out(
        &mut self,
        asked: u64,
        time_us: Option<i64>,
        device_free: Option<u64>,
        stack: StackId,
    ) {
        self.ran_out_count += 1;
        self.awaited = None;
        if self.ran_out.len() >= OUT_OF_MEMORY {
            return;
        }
        self.awaited = Some(Awaited {
            place: self.ran_out.len(),
            disturbed: false,
        });
        self.ran_out.push(RanOut {
            index: self.entries - 1,
            time_us,
            asked,
            device_free,
            stack,
            completed_just_before: self.completed,
            retry_worked: None,
        });
    }

    /// The program's frees, and new segments, explain a success by themselves.
    const fn disturb(&mut self) {
        if let Some(awaited) = &mut self.awaited {
            awaited.disturbed = true;
        }
    }

    fn note_retry(&mut self, size: u64) {
        let Some(Awaited { place, disturbed }) = self.awaited else {
            return;
        };
        let ran_out = &mut self.ran_out[place];
        if ledger::torch::rules::round_size(size) == Some(ran_out.asked) || size == ran_out.asked {
            ran_out.retry_worked = Some(!disturbed);
            self.awaited = None;
        }
    }

    fn draw(&mut self, time_us: Option<i64>) {
        let point = Bucket {
            entries: self.entries,
            time_us,
            requested: self.requested,
            reserved: self.reserved,
        };
        let width = self.width.max(1);
        match self.buckets.last_mut() {
            Some(last) if !(self.entries - 1).is_multiple_of(width) => *last = join(*last, point),
            Some(_) | None => self.buckets.push(point),
        }
        if self.buckets.len() == POINTS && self.entries.is_multiple_of(width) {
            self.buckets = self
                .buckets
                .chunks(2)
                .map(|pair| pair.iter().copied().reduce(join).unwrap_or(pair[0]))
                .collect();
            self.width = width * 2;
        }
    }

    /// Entries.
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// Entries that handed out a block.
    pub const fn allocations(&self) -> u64 {
        self.allocations
    }

    /// Entries in which the program gave a block back.
    pub const fn frees(&self) -> u64 {
        self.frees
    }

    /// Frees of blocks that the history did not see handed out, and their bytes.
    pub const fn unknown_frees(&self) -> (u64, u64) {
        (self.unknown_frees, self.unknown_free_bytes)
    }

    /// When the first and the last entry were made, µs since 1970.
    pub const fn times_us(&self) -> (Option<i64>, Option<i64>) {
        (self.first_us, self.last_us)
    }

    /// The first times that memory ran out, and how often it did.
    pub fn ran_out(&self) -> (&[RanOut], u64) {
        (&self.ran_out, self.ran_out_count)
    }

    /// Whether the history saw the block at `address` handed out, and not given back.
    pub fn knows(&self, address: u64) -> bool {
        self.live.contains_key(&address)
    }

    /// Blocks that the history saw handed out and not given back.
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Bytes handed out and reserved before the first entry, from those at the end.
    pub fn before(&self, requested: u64, reserved: u64) -> (u64, u64) {
        (
            offset(requested, self.requested, 0),
            offset(reserved, self.reserved, 0),
        )
    }

    /// The highest values: (bytes, when) handed out and reserved.
    pub fn peaks(&self, requested: u64, reserved: u64) -> [Option<(u64, Option<i64>)>; 2] {
        let peak = |end: u64, last: i64, peak: Option<(i64, Option<i64>)>| {
            peak.map(|(value, time)| (offset(end, last, value), time))
        };
        [
            peak(requested, self.requested, self.peak_requested),
            peak(reserved, self.reserved, self.peak_reserved),
        ]
    }

    /// The curve, from the values at its end.
    pub fn curve(&self, requested: u64, reserved: u64) -> Vec<Point> {
        self.buckets
            .iter()
            .map(|bucket| Point {
                entries: bucket.entries,
                time_us: bucket.time_us,
                requested: offset(requested, self.requested, bucket.requested),
                reserved: offset(reserved, self.reserved, bucket.reserved),
            })
            .collect()
    }
}

/// What a relative `value` is, if `last` is `end`.
fn offset(end: u64, last: i64, value: i64) -> u64 {
    let absolute = i128::from(end) - i128::from(last) + i128::from(value);
    u64::try_from(absolute.max(0)).unwrap_or(u64::MAX)
}

fn join(first: Bucket, second: Bucket) -> Bucket {
    Bucket {
        entries: second.entries,
        time_us: second.time_us.or(first.time_us),
        requested: first.requested.max(second.requested),
        reserved: first.reserved.max(second.reserved),
    }
}
