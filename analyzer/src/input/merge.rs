//! Several recordings, as one: rows in order of time, on one clock, with ids that do not clash.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use trace::{BatchBuilder, Event, EventBatch, Fact};

use super::Cut;
use super::chain::Chain;
use super::numbering::{APART, Free, Numbering};
use super::origin::Origin;
use crate::Error;
use crate::text;

/// Most batches in which a recording's settings and clock are looked for: they are its first
/// rows, but for the names that a segment begins with.
const LOOK_AT: usize = 16;

/// Reads several recordings together.
#[derive(Debug)]
pub(crate) struct Merge {
    sources: Vec<Source>,
    builder: BatchBuilder,
    ready: VecDeque<EventBatch>,
    free: Free,
    /// Which recording told of a process, by id and start time.
    tellers: FxHashMap<(u32, u64), usize>,
    notes: Vec<String>,
    is_over: bool,
}

#[derive(Debug)]
struct Source {
    chain: Chain,
    origin: Origin,
    numbering: Numbering,
    /// Batches that were read; `row` is the next one of the first.
    ahead: VecDeque<EventBatch>,
    row: usize,
    /// The moment of the next row: when its call returned. Never goes back, so that rows stay in
    /// the order in which they were recorded.
    moment: u64,
    /// Its end, until it is known that no segment follows.
    end: Option<Event>,
}

impl Merge {
    pub(super) fn new(chains: Vec<Chain>) -> Result<Self, Error> {
        let mut sources = Vec::new();
        for chain in chains {
            sources.push(Source::new(chain)?);
        }
        let origins: Vec<Origin> = sources.iter().map(|source| source.origin.clone()).collect();
        let same = |is_same: fn(&Origin, &Origin) -> bool| -> Vec<usize> {
            let first = |(place, origin)| {
                let before: &[Origin] = &origins[..place];
                before
                    .iter()
                    .position(|other| is_same(origin, other))
                    .unwrap_or(place)
            };
            origins.iter().enumerate().map(first).collect()
        };
        let clocks = same(Origin::has_clock_of);
        let processes = same(Origin::has_processes_of);
        let shifts = shifts(&sources, &clocks)?;
        let mut notes = Vec::new();
        let mut next = 0;
        let mut bases: Vec<u32> = Vec::new();
        for (place, &first) in processes.iter().enumerate() {
            let base = if first == place {
                let base = APART.checked_mul(next).ok_or(Error::TooMany)?;
                next += 1;
                base
            } else {
                bases[first]
            };
            bases.push(base);
            let source = &mut sources[place];
            source.numbering = Numbering::new(base, shifts[place]);
            source.look();
            if base > 0 {
                notes.push(apart(source, base));
            }
        }
        Ok(Self {
            sources,
            builder: BatchBuilder::new(),
            ready: VecDeque::new(),
            free: Free::default(),
            tellers: FxHashMap::default(),
            notes,
            is_over: false,
        })
    }

    /// The next rows of all; `None` at the end.
    pub(super) fn next_batch(&mut self) -> Result<Option<EventBatch>, Error> {
        while self.ready.is_empty() && !self.is_over {
            if let Some(place) = self.earliest() {
                self.take(place)?;
            } else {
                self.finish();
            }
        }
        Ok(self.ready.pop_front())
    }

    /// What was cut, what else there is to tell, and whether one of them goes on.
    pub(super) fn ended(self) -> (Vec<Cut>, Vec<String>, bool) {
        let Self {
            sources, mut notes, ..
        } = self;
        let (mut cut, mut is_live) = (Vec::new(), false);
        for source in sources {
            let (cut_here, notes_here, is_live_here) = source.chain.ended();
            is_live |= is_live_here;
            cut.extend(cut_here);
            notes.extend(notes_here);
        }
        (cut, notes, is_live)
    }

    /// The recording whose next row is the earliest.
    fn earliest(&self) -> Option<usize> {
        let sources = self.sources.iter().enumerate();
        let with_rows = sources.filter(|(_, source)| source.has_row());
        with_rows
            .min_by_key(|(_, source)| source.moment)
            .map(|(place, _)| place)
    }

    /// Takes the next row of a recording.
    fn take(&mut self, place: usize) -> Result<(), Error> {
        let source = &mut self.sources[place];
        let mut event = source.take()?;
        let fact = source.numbering.event(&mut event, &mut self.free);
        let before = source.end.take();
        if fact == Some(Fact::End) {
            source.end = Some(event);
            return Ok(());
        }
        if let Some(Fact::Process(process)) = fact {
            self.told((process.pid, process.start_time), place);
        }
        // A segment's end, and its successor's beginning.
        for event in before.into_iter().chain([event]) {
            self.push(&event);
        }
        Ok(())
    }

    /// The end, if all recordings have one.
    fn finish(&mut self) {
        self.is_over = true;
        if self.sources.iter().all(|source| source.end.is_some()) {
            let ends = self.sources.iter_mut().map(|source| source.end.take());
            for end in ends.collect::<Vec<_>>().into_iter().flatten() {
                self.push(&end);
            }
        }
        let rest = self.builder.flush();
        self.ready.extend(rest.map(|batch| batch.events()));
    }

    fn push(&mut self, event: &Event) {
        let full = self.builder.push(event).full;
        self.ready.extend(full.map(|batch| batch.events()));
    }

    /// Notes when two recordings tell of one process at the same time: its calls count twice.
    fn told(&mut self, process: (u32, u64), place: usize) {
        let Some(other) = self.tellers.insert(process, place) else {
            return;
        };
        let (ours, theirs) = (&self.sources[place], &self.sources[other]);
        if other != place && theirs.has_row() && ours.origin.shares_families_with(&theirs.origin) {
            self.notes.push(format!(
                "{} and {} both have process {} at the same time: what both saw counts twice",
                theirs.chain.name(),
                ours.chain.name(),
                process.0
            ));
        }
    }
}

impl Source {
    fn new(chain: Chain) -> Result<Self, Error> {
        let mut source = Self {
            chain,
            origin: Origin::default(),
            numbering: Numbering::new(0, 0),
            ahead: VecDeque::new(),
            row: 0,
            moment: 0,
            end: None,
        };
        for _ in 0..LOOK_AT {
            let Some(batch) = source.chain.next_batch()? else {
                break;
            };
            let is_known = source.origin.learn(&batch);
            source.ahead.push_back(batch);
            if is_known {
                break;
            }
        }
        source.ahead.retain(|batch| !batch.is_empty());
        Ok(source)
    }

    fn has_row(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Looks at the time of the next row.
    fn look(&mut self) {
        if let Some(batch) = self.ahead.front() {
            let duration = batch.duration().get(self.row).unwrap_or(0);
            let returned = batch.ts()[self.row].saturating_add(duration);
            self.moment = self.moment.max(self.numbering.time(returned));
        }
    }

    /// The next row, which is there, as it was recorded.
    fn take(&mut self) -> Result<Event, Error> {
        let batch = &self.ahead[0];
        let event = batch.event(self.row);
        self.row += 1;
        if self.row == batch.len() {
            self.row = 0;
            self.ahead.pop_front();
            while self.ahead.is_empty() {
                let Some(batch) = self.chain.next_batch()? else {
                    break;
                };
                if !batch.is_empty() {
                    self.ahead.push_back(batch);
                }
            }
        }
        self.look();
        Ok(event)
    }
}

/// What is added to the times of each recording, so that all are on the clock of the machine that
/// booted first; `clocks` has for each the first one with the same clock.
fn shifts(sources: &[Source], clocks: &[usize]) -> Result<Vec<u64>, Error> {
    if clocks.iter().all(|clock| *clock == clocks[0]) {
        return Ok(vec![0; sources.len()]);
    }
    let mut moments = Vec::new();
    for clock in clocks {
        let source = &sources[*clock];
        let input = || source.chain.name().to_owned();
        let moment = source.origin.boot_moment();
        moments.push(moment.ok_or_else(|| Error::NoClock { input: input() })?);
    }
    let first = moments.iter().copied().min().unwrap_or(0);
    let after = moments.into_iter().map(|moment| moment.abs_diff(first));
    Ok(after
        .map(|shift| u64::try_from(shift).unwrap_or(u64::MAX))
        .collect())
}

/// Tells a person where a recording's processes are found.
fn apart(source: &Source, base: u32) -> String {
    let host = source.origin.host.as_deref();
    format!(
        "{}{} has other processes than the recordings before it: {} is added to their ids",
        source.chain.name(),
        host.map(|host| format!(" (host {host})"))
            .unwrap_or_default(),
        text::count(base.into()),
    )
}
