//! Memory over time, in fixed memory: bins that become longer instead of more.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{Ledger, MemoryKind, Process, ProcessKey};

use super::supplement::{Curve, Envelope, Whose};
use crate::selection::Selection;

/// Most bins of a curve: a pixel each on a wide screen.
const BINS: usize = 1024;

/// Most curves: those of the selected processes and devices that came first.
const CURVES: usize = 256;

/// The first length of a bin: 1 ms.
const STEP: u64 = 1_000_000;

const KINDS: usize = MemoryKind::ALL.len();

/// What is live at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    live: Option<u64>,
    kinds: [u64; KINDS],
    /// Allocated and reserved.
    torch: Option<[u64; 2]>,
}

/// The least and the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    least: u64,
    most: u64,
}

impl Span {
    const fn of(value: u64) -> Self {
        Self {
            least: value,
            most: value,
        }
    }

    fn merge(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
        }
    }
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bin {
    live: Option<Span>,
    kinds: [u64; KINDS],
    torch: Option<[Span; 2]>,
}

impl Bin {
    fn of(state: &State) -> Self {
        Self {
            live: state.live.map(Span::of),
            kinds: state.kinds,
            torch: state.torch.map(|torch| torch.map(Span::of)),
        }
    }

    fn merge(self, other: Self) -> Self {
        let most = |bin: &Self| bin.live.map(|span| span.most);
        let kinds_at_most = if most(&other) > most(&self) {
            other.kinds
        } else {
            self.kinds
        };
        // Of own memory, what adds up to the most.
        let mut kinds = kinds_at_most;
        for (kind, place) in MemoryKind::ALL.iter().zip(0..KINDS) {
            if !kind.is_own_device_memory() {
                kinds[place] = self.kinds[place].max(other.kinds[place]);
            }
        }
        Self {
            live: either(self.live, other.live, Span::merge),
            kinds,
            torch: either(self.torch, other.torch, |[a, b], [c, d]| {
                [a.merge(c), b.merge(d)]
            }),
        }
    }
}

fn either<T>(one: Option<T>, other: Option<T>, both: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(both(one, other)),
        (one, other) => one.or(other),
    }
}

/// One process on one device.
#[derive(Clone, Debug)]
struct Line {
    step: u64,
    /// `None`: the process was not there.
    bins: Vec<Option<Bin>>,
    /// What it was last; `None`: it has ended.
    state: Option<State>,
}

impl Line {
    const fn new() -> Self {
        Self {
            step: STEP,
            bins: Vec::new(),
            state: None,
        }
    }

    /// The state from `since`, ns after the first bin's beginning, on.
    fn set(&mut self, since: u64, state: Option<State>) {
        let place = self.place(since);
        // What it was before lasted until now.
        self.fill(place);
        self.state = state;
        if let (Some(bin), Some(state)) = (self.bins.get_mut(place), &state) {
            *bin = either(*bin, Some(Bin::of(state)), Bin::merge);
        }
    }

    /// Up to `until`, nothing changed.
    fn pass(&mut self, until: u64) {
        let place = self.place(until);
        self.fill(place);
    }

    fn fill(&mut self, place: usize) {
        let bin = self.state.as_ref().map(Bin::of);
        if self.bins.len() <= place {
            self.bins.resize(place + 1, bin);
        }
    }

    /// The bin of a moment; bins become longer until it has one.
    fn place(&mut self, since: u64) -> usize {
        loop {
            if let Some(place) = usize::try_from(since / self.step)
                .ok()
                .filter(|n| *n < BINS)
            {
                return place;
            }
            self.step = self.step.saturating_mul(2);
            let folded = self.bins.chunks(2).map(|pair| match *pair {
                [one, other] => either(one, other, Bin::merge),
                [one] => one,
                _ => None,
            });
            self.bins = folded.collect();
        }
    }

    fn finish(self, from: u64, whose: Whose) -> Curve {
        let Self { step, bins, .. } = self;
        let envelope = |of: &dyn Fn(&Bin) -> Option<Span>| {
            let spans: Vec<Option<Span>> =
                bins.iter().map(|bin| bin.as_ref().and_then(of)).collect();
            spans.iter().any(Option::is_some).then(|| Envelope {
                least: spans
                    .iter()
                    .map(|span| span.map(|span| span.least))
                    .collect(),
                most: spans
                    .iter()
                    .map(|span| span.map(|span| span.most))
                    .collect(),
            })
        };
        let kinds = MemoryKind::ALL
            .iter()
            .zip(0..KINDS)
            .filter_map(|(kind, place)| {
                let bytes = bins.iter().map(|bin| bin.map(|bin| bin.kinds[place]));
                let bytes: Vec<Option<u64>> = bytes.collect();
                let has_been = bytes.iter().flatten().any(|bytes| *bytes > 0);
                has_been.then_some((kind.name(), bytes))
            });
        Curve {
            whose,
            from,
            step,
            live: envelope(&|bin| bin.live),
            kinds: kinds.collect(),
            allocated: envelope(&|bin| bin.torch.map(|[allocated, _]| allocated)),
            reserved: envelope(&|bin| bin.torch.map(|[_, reserved]| reserved)),
        }
    }
}

/// All curves of a recording.
#[derive(Debug, Default)]
pub(super) struct Curves {
    /// Where they begin, ns of `CLOCK_MONOTONIC`.
    from: u64,
    selection: Selection,
    lines: BTreeMap<(ProcessKey, Option<i32>), (Whose, Line)>,
    left_out: BTreeSet<(ProcessKey, Option<i32>)>,
}

impl Curves {
    /// Curves of what is selected, which begin at `from`.
    pub(super) fn starting(from: u64, selection: Selection) -> Self {
        Self {
            from,
            selection,
            ..Self::default()
        }
    }

    /// What all processes have at `now`.
    pub(super) fn note_all(&mut self, ledger: &Ledger, now: u64) {
        for process in ledger.live() {
            self.note(process, now);
        }
    }

    /// What `process` has at `now`.
    pub(super) fn note(&mut self, process: &Process, now: u64) {
        let since = now.saturating_sub(self.from);
        let allocators = process.allocators();
        for (&ordinal, device) in process.devices() {
            let allocator = ordinal.and_then(|ordinal| allocators.get(&ordinal));
            let state = State {
                live: process.knows_memory().then(|| device.live().bytes),
                kinds: MemoryKind::ALL.map(|kind| device.of_kind(kind).bytes),
                torch: allocator.map(torch),
            };
            self.set(process, ordinal, since, state);
        }
        for (&ordinal, allocator) in allocators {
            if !process.devices().contains_key(&Some(ordinal)) {
                let state = State {
                    torch: Some(torch(allocator)),
                    ..State::default()
                };
                self.set(process, Some(ordinal), since, state);
            }
        }
    }

    fn set(&mut self, process: &Process, device: Option<i32>, since: u64, state: State) {
        let key = (process.key(), device);
        if let Some((_, line)) = self.lines.get_mut(&key) {
            if line.state != Some(state) {
                line.set(since, Some(state));
            }
            return;
        }
        let pid = process.key().pid;
        if !self.selection.has_process(pid) || !self.selection.has_device(pid, device) {
            return;
        }
        if self.lines.len() >= CURVES {
            self.left_out.insert(key);
            return;
        }
        let mut line = Line::new();
        line.set(since, Some(state));
        self.lines.insert(key, (whose(process, device), line));
    }

    /// The process ended at `now`.
    pub(super) fn end(&mut self, process: &Process, now: u64) {
        let since = now.saturating_sub(self.from);
        let key = process.key();
        for ((_, device), (known, line)) in
            self.lines.range_mut((key, None)..=(key, Some(i32::MAX)))
        {
            // Its title may have come after its first call.
            *known = whose(process, *device);
            line.set(since, None);
        }
    }

    /// All curves up to `end`, and how many were left out.
    pub(super) fn finish(mut self, ledger: &Ledger, end: u64) -> (Vec<Curve>, u64) {
        for process in ledger.live() {
            let key = process.key();
            let lines = self.lines.range_mut((key, None)..=(key, Some(i32::MAX)));
            for ((_, device), (known, _)) in lines {
                *known = whose(process, *device);
            }
        }
        let since = end.saturating_sub(self.from);
        let curves = self.lines.into_values().map(|(whose, mut line)| {
            line.pass(since);
            line.finish(self.from, whose)
        });
        let curves = curves.filter(Curve::is_worth_showing).collect();
        (curves, self.left_out.len() as u64)
    }
}

impl Curve {
    /// Whether there ever was anything.
    fn is_worth_showing(&self) -> bool {
        !self.kinds.is_empty() || self.reserved.is_some()
    }
}

fn torch(allocator: &ledger::CachingAllocator) -> [u64; 2] {
    [allocator.allocated(), allocator.reserved()]
}

/// Whose memory on `device` it is.
pub(super) fn whose(process: &Process, device: Option<i32>) -> Whose {
    let name = process.info().map(|info| {
        if info.title.is_empty() {
            info.exe.clone()
        } else {
            info.title.clone()
        }
    });
    Whose {
        pid: Some(process.key().pid),
        incarnation: process.key().incarnation,
        name,
        device,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(live: u64) -> State {
        let mut kinds = [0; KINDS];
        kinds[0] = live;
        State {
            live: Some(live),
            kinds,
            torch: None,
        }
    }

    fn finish(mut line: Line, end: u64) -> Curve {
        line.pass(end);
        let whose = Whose {
            pid: Some(1),
            incarnation: 0,
            name: None,
            device: Some(0),
        };
        line.finish(0, whose)
    }

    #[test]
    fn a_bin_has_what_was_before_the_change_and_after() {
        let mut line = Line::new();
        line.set(2 * STEP, Some(state(5)));
        line.set(4 * STEP + 1, Some(state(90)));
        line.set(4 * STEP + 2, Some(state(7)));
        line.set(6 * STEP, None);
        let curve = finish(line, 7 * STEP);
        let live = curve.live.expect("live bytes");
        let known = |values: [u64; 5]| {
            let mut all = vec![None; 2];
            all.extend(values.map(Some));
            all.push(None);
            all
        };
        assert_eq!(live.most, known([5, 5, 90, 7, 7]));
        assert_eq!(live.least, known([5, 5, 5, 7, 7]));
        assert_eq!(curve.kinds["device"], known([5, 5, 90, 7, 7]));
    }

    #[test]
    fn a_long_curve_keeps_its_highest_and_lowest_values() {
        let mut line = Line::new();
        for n in 0..1_000_000_u64 {
            let live = match n {
                777_777 => 1_000_000,
                888_888 => 1,
                _ => 1000 + n % 7,
            };
            line.set(n * STEP / 3, Some(state(live)));
        }
        let curve = finish(line, 400_000 * STEP);
        let live = curve.live.expect("live bytes");
        assert!(live.most.len() <= BINS);
        let most: Vec<u64> = live.most.into_iter().flatten().collect();
        let least: Vec<u64> = live.least.into_iter().flatten().collect();
        assert_eq!(most.iter().max(), Some(&1_000_000));
        assert_eq!(least.iter().min(), Some(&1));
        assert!(most.iter().zip(&least).all(|(most, least)| most >= least));
    }
}
