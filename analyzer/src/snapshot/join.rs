//! A snapshot beside a recording of the same run, block by block.
//!
//! The moment of the snapshot is found by the blocks themselves: after each of PyTorch's
//! reports the recording has some blocks, and the snapshot was taken where these differ least
//! from its own. That needs no clock. Where several moments differ equally little, the reserved
//! bytes decide (segments can go without a report), then the last entry of the snapshot's
//! history, which was made right before it, and without one the first moment.

use std::collections::{BTreeMap, VecDeque};

use ledger::{Ledger, Ranged};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use trace::{Event, Fact, Kind};

use super::model::{Snapshot, State};
use super::report::hex;

/// The most differences that are listed.
const LISTED: usize = 100;

/// A snapshot and a recording.
#[derive(Clone, Debug, Serialize)]
pub struct Join {
    /// Whether every device has a counterpart that is equal.
    pub equal: bool,
    /// By device of the snapshot.
    pub devices: Vec<JoinedDevice>,
}

/// A device of a snapshot, and its counterpart.
#[derive(Clone, Debug, Serialize)]
pub struct JoinedDevice {
    /// Ordinal.
    pub device: i64,
    /// The process in the recording; null: none has a block in common.
    pub pid: Option<u32>,
    /// The moment in the recording, ns of `CLOCK_MONOTONIC`.
    pub at_ns: Option<u64>,
    /// Whether all blocks and segments are equal.
    pub equal: bool,
    /// Blocks of the same address and size.
    pub blocks_equal: u64,
    /// Blocks that only the snapshot has.
    pub blocks_only_in_snapshot: u64,
    /// Blocks that only the recording has.
    pub blocks_only_in_recording: u64,
    /// Segments of the same address and size.
    pub segments_equal: u64,
    /// Segments that only the snapshot has.
    pub segments_only_in_snapshot: u64,
    /// Segments that only the recording has.
    pub segments_only_in_recording: u64,
    /// Handed out, by the snapshot.
    pub allocated_in_snapshot: u64,
    /// Handed out, by the recording.
    pub allocated_in_recording: Option<u64>,
    /// Reserved, by the snapshot.
    pub reserved_in_snapshot: u64,
    /// Reserved, by the recording.
    pub reserved_in_recording: Option<u64>,
    /// The first differences.
    pub differences: Vec<Difference>,
}

/// Something that one side lacks.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Difference {
    /// `block` or `segment`.
    pub what: &'static str,
    /// `snapshot` or `recording`.
    pub only_in: &'static str,
    /// Its address.
    #[serde(serialize_with = "hex")]
    pub address: u64,
    /// Its size.
    pub size: u64,
}

type Places = FxHashSet<(u64, u64)>;

/// One device of the snapshot.
struct Wanted {
    device: i64,
    blocks: Places,
    segments: Places,
    allocated: u64,
    reserved: u64,
    /// When the last entry of its history was made, µs since 1970.
    last_us: Option<i64>,
}

/// The blocks of one allocator in the recording.
#[derive(Default)]
struct Candidate {
    live: FxHashMap<u64, u64>,
    /// Blocks that the snapshot has too.
    common: usize,
    best: Option<Best>,
}

/// The moments at which an allocator differs least from the snapshot.
struct Best {
    differing: usize,
    common: usize,
    /// The latest of them.
    moments: VecDeque<Moment>,
}

#[derive(Clone, Copy)]
struct Moment {
    seq: u64,
    /// From the last entry of the snapshot's history, ns; 0 where that is not known.
    distance: u64,
}

/// The most moments that are looked at again.
const MOMENTS: usize = 4096;

/// First pass: takes the events of a recording, and finds the moment of the snapshot.
pub struct Search {
    wanted: Vec<Wanted>,
    candidates: BTreeMap<(u32, i64), Candidate>,
    /// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`, ns.
    clock: Option<i128>,
}

impl std::fmt::Debug for Search {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Search").finish_non_exhaustive()
    }
}

impl Search {
    /// For the devices of `snapshot`.
    pub fn new(snapshot: &Snapshot) -> Self {
        let mut wanted: BTreeMap<i64, Wanted> = BTreeMap::new();
        for segment in &snapshot.segments {
            let device = wanted.entry(segment.device).or_insert_with(|| Wanted {
                device: segment.device,
                blocks: Places::default(),
                segments: Places::default(),
                allocated: 0,
                reserved: 0,
                last_us: usize::try_from(segment.device)
                    .ok()
                    .and_then(|place| snapshot.histories.get(place)?.times_us().1),
            });
            device.segments.insert((segment.address, segment.size));
            device.reserved = device.reserved.saturating_add(segment.size);
            for block in snapshot.blocks_of(segment) {
                if block.state == State::Allocated {
                    device.blocks.insert((block.address, block.size));
                    device.allocated = device.allocated.saturating_add(block.size);
                }
            }
        }
        Self {
            wanted: wanted.into_values().collect(),
            candidates: BTreeMap::new(),
            clock: None,
        }
    }

    /// Takes in the next event.
    pub fn push(&mut self, event: &Event) {
        match event.kind {
            Kind::Fact => {
                let fact = event.text.as_deref().and_then(Fact::parse);
                match fact {
                    Some(Fact::Clock(clock)) if self.clock.is_none() => {
                        self.clock = Some(i128::from(clock.realtime) - i128::from(clock.monotonic));
                    }
                    Some(Fact::Exec | Fact::Exit) => {
                        // The memory is gone; the best moment stays.
                        for ((pid, _), candidate) in &mut self.candidates {
                            if *pid == event.pid {
                                candidate.live.clear();
                                candidate.common = 0;
                            }
                        }
                    }
                    Some(_) | None => {}
                }
            }
            Kind::Call => self.report(event),
            Kind::Begin | Kind::Abandoned | Kind::InFlight => {}
        }
    }

    /// One of PyTorch's reports: a block came or went.
    fn report(&mut self, event: &Event) {
        let (Some(address), Some(change), Some(_), Some(device)) =
            (event.address, event.size, event.allocated, event.device)
        else {
            return;
        };
        let device = i64::from(device);
        let Some(wanted) = self.wanted.iter().find(|wanted| wanted.device == device) else {
            return;
        };
        let candidate = self.candidates.entry((event.pid, device)).or_default();
        let old = if change > 0 {
            candidate.live.insert(address, change.unsigned_abs())
        } else {
            candidate.live.remove(&address)
        };
        if old.is_some_and(|size| wanted.blocks.contains(&(address, size))) {
            candidate.common -= 1;
        }
        if change > 0 && wanted.blocks.contains(&(address, change.unsigned_abs())) {
            candidate.common += 1;
        }
        let common = candidate.common;
        let differing = wanted.blocks.len() + candidate.live.len() - 2 * common;
        let distance = self.clock.zip(wanted.last_us).map_or(0, |(clock, us)| {
            let real = i128::from(event.timestamp) + clock;
            u64::try_from((real - i128::from(us) * 1000).unsigned_abs()).unwrap_or(u64::MAX)
        });
        let moment = Moment {
            seq: event.seq,
            distance,
        };
        match &mut candidate.best {
            Some(best) if best.differing < differing => {}
            Some(best) if best.differing == differing => {
                if best.moments.len() == MOMENTS {
                    best.moments.pop_front();
                }
                best.moments.push_back(moment);
            }
            best => {
                *best = Some(Best {
                    differing,
                    common,
                    moments: VecDeque::from([moment]),
                });
            }
        }
    }

    /// The second pass.
    pub fn finish(self) -> Comparison {
        let Self {
            wanted,
            mut candidates,
            clock: _,
        } = self;
        let found = wanted
            .into_iter()
            .map(|wanted| {
                let key = candidates
                    .iter()
                    .filter(|((_, device), _)| *device == wanted.device)
                    .filter_map(|(key, candidate)| Some((*key, candidate.best.as_ref()?)))
                    .filter(|(_, best)| best.common > 0)
                    .min_by_key(|(_, best)| best.differing)
                    .map(|(key, _)| key);
                let best = key.and_then(|key| candidates.remove(&key)?.best);
                Found {
                    pid: key.map(|(pid, _)| pid),
                    moments: best.map_or_else(VecDeque::new, |best| best.moments),
                    wanted,
                    current: None,
                    nearest: None,
                    joined: None,
                }
            })
            .collect();
        Comparison {
            ledger: Ledger::default(),
            found,
        }
    }
}

/// A device of the snapshot and where it may be in the recording.
struct Found {
    wanted: Wanted,
    pid: Option<u32>,
    moments: VecDeque<Moment>,
    /// The moment whose blocks are there until the next report.
    current: Option<Moment>,
    /// How far the best so far is off: reserved bytes, and time.
    nearest: Option<(u64, u64)>,
    joined: Option<JoinedDevice>,
}

/// Second pass: takes the same events again, and compares at the moments that were found.
pub struct Comparison {
    ledger: Ledger,
    found: Vec<Found>,
}

impl std::fmt::Debug for Comparison {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Comparison").finish_non_exhaustive()
    }
}

impl Comparison {
    /// Takes in the next event.
    pub fn push(&mut self, event: &Event) {
        self.ledger.apply(event);
        for found in &mut self.found {
            if found.pid == Some(event.pid) {
                found.look(event, &self.ledger);
            }
        }
    }

    /// What was found.
    pub fn finish(mut self) -> Join {
        let devices: Vec<JoinedDevice> = self
            .found
            .drain(..)
            .map(|found| found.joined.unwrap_or_else(|| nothing(&found.wanted)))
            .collect();
        Join {
            equal: devices.iter().all(|device| device.equal),
            devices,
        }
    }
}

impl Found {
    fn look(&mut self, event: &Event, ledger: &Ledger) {
        let is_report = event.allocated.is_some()
            && event.size.is_some()
            && event.device.map(i64::from) == Some(self.wanted.device);
        if is_report {
            self.current = self.moments.pop_front_if(|moment| moment.seq == event.seq);
        }
        let Some(moment) = self.current else { return };
        let Some(allocator) = allocator(ledger, event.pid, self.wanted.device) else {
            return;
        };
        let off = (
            allocator.reserved().abs_diff(self.wanted.reserved),
            moment.distance,
        );
        if self.nearest.is_none_or(|nearest| off < nearest) {
            self.nearest = Some(off);
            self.joined = Some(compare(&self.wanted, event, allocator));
        }
    }
}

fn allocator(ledger: &Ledger, pid: u32, device: i64) -> Option<&ledger::CachingAllocator> {
    let ordinal = i32::try_from(device).ok()?;
    ledger.process(pid)?.allocators().get(&ordinal)
}

fn nothing(wanted: &Wanted) -> JoinedDevice {
    JoinedDevice {
        device: wanted.device,
        pid: None,
        at_ns: None,
        equal: false,
        blocks_equal: 0,
        blocks_only_in_snapshot: wanted.blocks.len() as u64,
        blocks_only_in_recording: 0,
        segments_equal: 0,
        segments_only_in_snapshot: wanted.segments.len() as u64,
        segments_only_in_recording: 0,
        allocated_in_snapshot: wanted.allocated,
        allocated_in_recording: None,
        reserved_in_snapshot: wanted.reserved,
        reserved_in_recording: None,
        differences: Vec::new(),
    }
}

fn compare(wanted: &Wanted, event: &Event, allocator: &ledger::CachingAllocator) -> JoinedDevice {
    let mut joined = JoinedDevice {
        pid: Some(event.pid),
        at_ns: Some(event.timestamp),
        ..nothing(wanted)
    };
    let place = |range: ledger::AddressRange| (range.start(), range.size());
    let blocks: Places = allocator
        .active()
        .iter()
        .map(|block| place(block.range()))
        .collect();
    let segments: Places = allocator
        .segments()
        .iter()
        .map(|segment| place(segment.range()))
        .collect();
    let mut differences = Vec::new();
    let [blocks_equal, blocks_snapshot, blocks_recording] =
        difference("block", &wanted.blocks, &blocks, &mut differences);
    let [segments_equal, segments_snapshot, segments_recording] =
        difference("segment", &wanted.segments, &segments, &mut differences);
    joined.blocks_equal = blocks_equal;
    joined.blocks_only_in_snapshot = blocks_snapshot;
    joined.blocks_only_in_recording = blocks_recording;
    joined.segments_equal = segments_equal;
    joined.segments_only_in_snapshot = segments_snapshot;
    joined.segments_only_in_recording = segments_recording;
    joined.allocated_in_recording = Some(allocator.allocated());
    joined.reserved_in_recording = Some(allocator.reserved());
    joined.equal = differences.is_empty() && allocator.allocated() == wanted.allocated;
    differences.truncate(LISTED);
    joined.differences = differences;
    joined
}

/// How many are equal, only in the snapshot, only in the recording.
fn difference(
    what: &'static str,
    snapshot: &Places,
    recording: &Places,
    differences: &mut Vec<Difference>,
) -> [u64; 3] {
    let mut only = |only_in, of: &Places, not: &Places| {
        let mut places: Vec<(u64, u64)> = of.difference(not).copied().collect();
        places.sort_unstable();
        differences.extend(places.iter().map(|(address, size)| Difference {
            what,
            only_in,
            address: *address,
            size: *size,
        }));
        places.len() as u64
    };
    let in_snapshot = only("snapshot", snapshot, recording);
    let in_recording = only("recording", recording, snapshot);
    [
        snapshot.len() as u64 - in_snapshot,
        in_snapshot,
        in_recording,
    ]
}
