//! What each thread does, and what follows what.

use agent_common::flags;
use agent_common::launch::Dimensions;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::AT_ONCE_NS;
use super::functions::Function;
use super::stretch::{Finder, Stretches};
use super::transfers::{Copied, Direction, Key};
use crate::histogram::{Histogram, Percentiles, Precision};
use crate::report::Durations;
use crate::report::row::Row;

/// Most threads that are told apart.
const THREADS: usize = 1024;

/// A grid of fewer blocks leaves most of a data-centre GPU without work: it has some 100
/// multiprocessors or more, and each block runs on one.
pub(crate) const SMALL_GRID_BLOCKS: u64 = 64;

/// A copy of at most so many bytes is small.
pub(crate) const SMALL_COPY_BYTES: u64 = 64 << 10;

/// A copy of at most so many bytes to the host brings a number: a `complex128` has 16.
pub(crate) const SCALAR_BYTES: u64 = 16;

/// So many launches may lie between two small copies of one stretch.
const LAUNCHES_BETWEEN: u64 = 4;

/// How one thread drives the device.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadPace {
    /// Process id; `None`: all threads beyond the first 1,024.
    pub pid: Option<u32>,
    /// Thread id.
    pub tid: Option<u32>,
    /// When its first launch, copy or wait was entered, ns of `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// When the last of them returned (a launch: was entered).
    pub to_ns: u64,
    /// Its launches.
    #[serde(flatten)]
    pub launches: LaunchPace,
    /// Its waits.
    #[serde(flatten)]
    pub waits: WaitPattern,
    /// Its copies of at most 64 KiB.
    #[serde(flatten)]
    pub small_copies: SmallCopies,
}

impl ThreadPace {
    /// From its first call to the end of its last.
    pub fn span_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }
}

/// Launches of one thread. Those that were captured ran nothing, and are left out.
#[derive(Clone, Debug, Serialize)]
pub struct LaunchPace {
    /// Kernel launches.
    pub launches: u64,
    /// Graph launches.
    pub graph_launches: u64,
    /// Kernel launches whose grid is known.
    pub grids: u64,
    /// Of them, those with fewer than 64 blocks.
    pub small_grids: u64,
    /// Entries of the first and of the last launch, ns of `CLOCK_MONOTONIC`.
    pub launched_from_ns: Option<u64>,
    /// The last one.
    pub launched_to_ns: Option<u64>,
    /// Launches that follow each other within 1 ms, with no wait between that took long.
    pub back_to_back: Stretches,
    /// From one such launch to the next, ns.
    pub interval_ns: Option<Percentiles>,
    /// Time in launch calls; `None` where they are probed at entry only.
    pub call_ns: Option<Durations>,
    /// Launch calls of more than 50 µs: the queue was full; `None` likewise.
    pub slow_calls: Option<u64>,
}

/// Waits of one thread, by what it had launched since the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WaitPattern {
    /// After one or two launches.
    pub after_few: WaitSum,
    /// After more launches, into the stream that was waited for.
    pub after_many: WaitSum,
    /// After a graph launch.
    pub after_graph: WaitSum,
    /// Right after a copy of at most 16 bytes to the host: `Tensor.item()` and its like.
    pub after_scalar: WaitSum,
    /// All others: for events, other streams, copies, or with nothing launched since.
    pub other: WaitSum,
    /// Launches before the waits of `after_scalar`, in all.
    pub launches_before_scalars: u64,
}

impl WaitPattern {
    /// All waits of the thread.
    pub fn all(&self) -> WaitSum {
        let Self {
            after_few,
            after_many,
            after_graph,
            after_scalar,
            other,
            launches_before_scalars: _,
        } = self;
        [after_few, after_many, after_graph, after_scalar, other]
            .into_iter()
            .copied()
            .fold(WaitSum::default(), WaitSum::and)
    }
}

/// Waits together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WaitSum {
    /// How many.
    pub waits: u64,
    /// Of them, those that took at most 50 µs: what they waited for was done.
    pub at_once: u64,
    /// Time in them, ns. Of `after_scalar`: in the copies too.
    pub total_ns: u64,
}

impl WaitSum {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            waits: self.waits + other.waits,
            at_once: self.at_once + other.at_once,
            total_ns: self.total_ns.saturating_add(other.total_ns),
        }
    }

    fn add(&mut self, duration: u64) {
        self.waits += 1;
        self.at_once += u64::from(duration <= AT_ONCE_NS);
        self.total_ns = self.total_ns.saturating_add(duration);
    }
}

/// Copies of at most 64 KiB between host and device; the scalars of [`WaitPattern`] left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SmallCopies {
    /// How many.
    pub small_copies: u64,
    /// Their bytes.
    pub small_copy_bytes: u64,
    /// Time in the calls, ns.
    pub small_copy_ns: u64,
    /// Those that follow each other within 1 ms, with at most 4 launches between.
    pub small_copy_stretches: Stretches,
}

/// All threads.
#[derive(Debug)]
pub(super) struct Table {
    /// By place.
    threads: Vec<Thread>,
    places: FxHashMap<(u32, u32), usize>,
    /// Of all threads beyond the limit.
    others: Option<usize>,
    /// The thread of the row before: it often makes the next one, too.
    last: Option<((u32, u32), usize)>,
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            threads: Vec::new(),
            places: FxHashMap::default(),
            others: None,
            last: None,
        }
    }

    #[inline]
    pub(super) fn of(&mut self, row: &Row<'_>) -> &mut Thread {
        let key = (row.pid(), row.tid());
        let place = match self.last {
            Some((last, place)) if last == key => place,
            Some(_) | None => self.place(key, row.timestamp()),
        };
        self.last = Some((key, place));
        &mut self.threads[place]
    }

    fn place(&mut self, key: (u32, u32), from: u64) -> usize {
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let is_full = self.places.len() >= THREADS;
        if let Some(others) = self.others.filter(|_| is_full) {
            return others;
        }
        let place = self.threads.len();
        self.threads.push(Thread::new(from));
        if is_full {
            self.others = Some(place);
        } else {
            self.places.insert(key, place);
        }
        place
    }

    pub(super) fn finish(self) -> Vec<ThreadPace> {
        let mut keys: Vec<Option<(u32, u32)>> = vec![None; self.threads.len()];
        for (key, place) in self.places {
            keys[place] = Some(key);
        }
        let threads = self.threads.into_iter().zip(keys);
        let mut threads: Vec<ThreadPace> =
            threads.map(|(thread, key)| thread.finish(key)).collect();
        threads.sort_by_key(|thread| {
            let launches = thread.launches.launches + thread.launches.graph_launches;
            let calls = launches + thread.waits.all().waits + thread.small_copies.small_copies;
            (std::cmp::Reverse(calls), thread.pid, thread.tid)
        });
        threads
    }
}

/// A thread, and what it did last.
#[derive(Debug)]
pub(super) struct Thread {
    from: u64,
    to: u64,
    launches: u64,
    graph_launches: u64,
    grids: u64,
    small_grids: u64,
    launched: Option<(u64, u64)>,
    back_to_back: Finder,
    intervals: Histogram,
    calls: Histogram,
    slow_calls: u64,
    waits: WaitPattern,
    small: SmallCopies,
    small_stretches: Finder,
    since_wait: SinceWait,
    since_small_copy: u64,
}

/// What the thread did since its last wait.
#[derive(Clone, Copy, Debug, Default)]
struct SinceWait {
    launches: u64,
    graphs: bool,
    stream: Option<u64>,
    /// The last calls, if they were copies of one kind into one stream.
    copies: Option<Run>,
}

/// Copies with nothing between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) key: Key,
    pub(super) copies: u64,
    pub(super) bytes: u64,
    pub(super) entered: u64,
    stream: Option<u64>,
}

impl Thread {
    fn new(from: u64) -> Self {
        Self {
            from,
            to: from,
            launches: 0,
            graph_launches: 0,
            grids: 0,
            small_grids: 0,
            launched: None,
            back_to_back: Finder::default(),
            intervals: Histogram::new(Precision::Coarse),
            calls: Histogram::new(Precision::Coarse),
            slow_calls: 0,
            waits: WaitPattern::default(),
            small: SmallCopies::default(),
            small_stretches: Finder::default(),
            since_wait: SinceWait::default(),
            since_small_copy: 0,
        }
    }

    fn seen(&mut self, row: &Row<'_>) {
        self.from = self.from.min(row.timestamp());
        self.to = self.to.max(row.end());
    }

    #[inline]
    pub(super) fn launch(&mut self, row: &Row<'_>, shape: Option<Dimensions>) {
        if row.flags() & flags::CAPTURED != 0 {
            return;
        }
        self.seen(row);
        let entered = row.timestamp();
        self.launches += 1;
        if let Some(shape) = shape {
            let [x, y, z] = shape.grid.map(u64::from);
            self.grids += 1;
            let blocks = x.saturating_mul(y).saturating_mul(z);
            self.small_grids += u64::from(blocks < SMALL_GRID_BLOCKS);
        }
        let (first, last) = self.launched.unwrap_or((entered, entered));
        self.launched = Some((first.min(entered), last.max(entered)));
        if let Some(interval) = self.back_to_back.call(entered) {
            self.intervals.record(interval);
        }
        if let Some(duration) = row.duration() {
            self.calls.record(duration);
            self.slow_calls += u64::from(duration > AT_ONCE_NS);
        }
        self.since_wait.launches += 1;
        self.since_wait.stream = row.stream();
        self.since_wait.copies = None;
        self.since_small_copy += 1;
    }

    pub(super) fn graph_launch(&mut self, row: &Row<'_>) {
        self.seen(row);
        self.graph_launches += 1;
        self.back_to_back.close();
        self.since_wait.graphs = true;
        self.since_wait.copies = None;
        self.since_small_copy += 1;
    }

    pub(super) fn copy(&mut self, row: &Row<'_>, copy: Copied) {
        self.seen(row);
        let Copied { key, bytes, failed } = copy;
        if failed {
            return;
        }
        let crosses = matches!(
            key.direction,
            Direction::HostToDevice | Direction::DeviceToHost
        );
        let is_scalar = key.direction == Direction::DeviceToHost && bytes <= SCALAR_BYTES;
        if crosses && bytes <= SMALL_COPY_BYTES && !is_scalar {
            if self.since_small_copy > LAUNCHES_BETWEEN {
                self.small_stretches.close();
            }
            self.since_small_copy = 0;
            self.small.small_copies += 1;
            self.small.small_copy_bytes = self.small.small_copy_bytes.saturating_add(bytes);
            let duration = row.duration().unwrap_or(0);
            self.small.small_copy_ns = self.small.small_copy_ns.saturating_add(duration);
            self.small_stretches.call(row.timestamp());
        }
        let (stream, entered) = (row.stream(), row.timestamp());
        let run = self.since_wait.copies;
        let run = run.filter(|run| run.key == key && run.stream == stream && !is_scalar);
        let mut run = run.unwrap_or(Run {
            key,
            copies: 0,
            bytes: 0,
            entered,
            stream,
        });
        run.copies += 1;
        run.bytes = run.bytes.saturating_add(bytes);
        self.since_wait.copies = Some(run);
    }

    /// A wait; the copies that it came right after, if it waited for their stream, and the ns
    /// from their first entry to its end.
    pub(super) fn wait(&mut self, function: Function, row: &Row<'_>) -> Option<(Run, u64)> {
        self.seen(row);
        let duration = row.duration()?;
        let since = std::mem::take(&mut self.since_wait);
        let Function {
            is_async: _,
            waits_for_event: for_event,
            waits_for_stream: for_stream,
        } = function;
        let is_about = |stream: Option<u64>| !for_stream || stream == row.stream();
        let copies = since
            .copies
            .filter(|run| !for_event && is_about(run.stream));
        let scalar = copies.filter(|run| {
            run.copies == 1
                && run.bytes <= SCALAR_BYTES
                && run.key.direction == Direction::DeviceToHost
        });
        let sum = if let Some(scalar) = scalar {
            self.waits.launches_before_scalars += since.launches;
            let before = row.timestamp().saturating_sub(scalar.entered);
            let sum = &mut self.waits.after_scalar;
            sum.total_ns = sum.total_ns.saturating_add(before);
            sum
        } else if for_event || copies.is_some() {
            &mut self.waits.other
        } else if since.graphs {
            &mut self.waits.after_graph
        } else if since.launches == 0 || !is_about(since.stream) {
            &mut self.waits.other
        } else if since.launches <= 2 {
            &mut self.waits.after_few
        } else {
            &mut self.waits.after_many
        };
        sum.add(duration);
        if duration > AT_ONCE_NS {
            self.back_to_back.close();
        }
        copies.map(|run| (run, row.end().saturating_sub(run.entered)))
    }

    fn finish(self, key: Option<(u32, u32)>) -> ThreadPace {
        let Self {
            from,
            to,
            launches,
            graph_launches,
            grids,
            small_grids,
            launched,
            back_to_back,
            intervals,
            calls,
            slow_calls,
            waits,
            small,
            small_stretches,
            since_wait: _,
            since_small_copy: _,
        } = self;
        let call_ns = Durations::of(&calls);
        ThreadPace {
            pid: key.map(|(pid, _)| pid),
            tid: key.map(|(_, tid)| tid),
            from_ns: from,
            to_ns: to,
            launches: LaunchPace {
                launches,
                graph_launches,
                grids,
                small_grids,
                launched_from_ns: launched.map(|(first, _)| first),
                launched_to_ns: launched.map(|(_, last)| last),
                back_to_back: back_to_back.finish(),
                interval_ns: intervals.percentiles(),
                slow_calls: call_ns.map(|_| slow_calls),
                call_ns,
            },
            waits,
            small_copies: SmallCopies {
                small_copy_stretches: small_stretches.finish(),
                ..small
            },
        }
    }
}
