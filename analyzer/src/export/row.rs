//! A row, and what is known beyond it.

use trace::fact::{Gap, Process};
use trace::{EventBatch, Fact, Kind};

use super::Names;
use super::live::Change;
use super::names::Kernel;

/// A row of a recording, with the names of what its ids mean.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub(super) batch: &'a EventBatch,
    pub(super) index: usize,
    pub(super) names: &'a Names,
    /// Of a row of kind `fact`, where this build knows it.
    pub(super) fact: Option<&'a Fact>,
    /// Live device memory of the process after this row, bytes; of rows about memory.
    pub(super) live: Option<u64>,
    /// By device, what has become of it since the last row of the process.
    pub(super) changes: &'a [Change],
}

/// The id of the track that holds the facts about a process: no thread has it.
pub(super) const FACTS: u32 = 0;

impl<'a> Row<'a> {
    pub(super) fn moment(&self) -> u64 {
        self.batch.ts()[self.index]
    }

    pub(super) fn pid(&self) -> u32 {
        self.batch.pid()[self.index]
    }

    pub(super) fn kind(&self) -> Kind {
        // Every row's kind was checked when the batch was read.
        self.batch.kind().get(self.index).unwrap_or_default()
    }

    pub(super) fn kernel(&self) -> Option<&'a Kernel> {
        self.names.kernel(self.batch.kernel().get(self.index)?)
    }

    pub(super) fn caller(&self) -> Option<&'a str> {
        self.names.caller(self.batch.caller().get(self.index)?)
    }

    pub(super) fn process(&self) -> Option<&'a Process> {
        self.names.process(self.pid())
    }

    /// The fact, but for the parts of a checkpoint: they are long and concern the ledger alone.
    pub(super) fn text(&self) -> Option<&'a str> {
        match self.fact {
            Some(Fact::Checkpoint { .. }) => Some(r#"{"fact":"checkpoint"}"#),
            Some(_) | None => self.batch.text().get(self.index),
        }
    }

    /// Process and thread on whose track the row is shown; facts have one of their own.
    pub(super) fn track(&self) -> (u32, u32) {
        let tid = match self.kind() {
            Kind::Fact => FACTS,
            Kind::Call | Kind::Begin | Kind::Abandoned | Kind::InFlight => {
                self.batch.tid()[self.index]
            }
        };
        (self.pid(), tid)
    }

    /// When it began and ended, ns of `CLOCK_MONOTONIC`; `None` for what has no length.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        let moment = self.moment();
        // A fact about a stretch is learnt at its end.
        let until = |length| Some((moment.saturating_sub(length), moment));
        match self.fact {
            Some(Fact::Gap(Gap { duration, .. })) => until((*duration)?),
            Some(Fact::Hold { duration }) => until(*duration),
            Some(_) | None => {
                let duration = self.batch.duration().get(self.index)?;
                Some((moment, moment.saturating_add(duration)))
            }
        }
    }

    /// What its process is called.
    pub(super) fn process_name(&self) -> String {
        match (self.pid(), self.process()) {
            (pid, Some(process)) => format!("{} {pid}", process.title),
            (0, None) => "recording".to_owned(),
            (pid, None) => format!("process {pid}"),
        }
    }

    /// What a lane, from 0, of its track is called.
    pub(super) fn track_name(&self, lane: usize) -> String {
        let name = match self.track() {
            (_, FACTS) => "facts".to_owned(),
            (_, tid) => format!("thread {tid}"),
        };
        if lane == 0 {
            name
        } else {
            format!("{name}, lane {}", lane + 1)
        }
    }

    /// PyTorch's totals after it, where it is a report of the caching allocator: bytes allocated
    /// and reserved.
    pub(super) fn torch(&self) -> Option<(u64, u64)> {
        let Self { batch, index, .. } = *self;
        Some((batch.allocated().get(index)?, batch.reserved().get(index)?))
    }

    /// What it is called on a track.
    pub(super) fn title(&self) -> String {
        let api = || self.batch.api().name(self.index).unwrap_or("unknown call");
        match self.kind() {
            Kind::Call | Kind::Abandoned | Kind::InFlight => api().to_owned(),
            Kind::Begin => format!("{} begins", api()),
            Kind::Fact => self.fact_name(),
        }
    }

    /// What it is about: the function's family, or `fact`.
    pub(super) fn category(&self) -> &'a str {
        self.batch.family().name(self.index).unwrap_or("fact")
    }

    fn fact_name(&self) -> String {
        let text = self.batch.text().get(self.index).unwrap_or_default();
        serde_json::from_str::<Tag>(text).map_or_else(|_| "fact".to_owned(), |tag| tag.fact)
    }
}

/// The tag of a fact, known to this build or not.
#[derive(serde::Deserialize)]
struct Tag {
    fact: String,
}
