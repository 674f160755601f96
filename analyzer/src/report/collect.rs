//! From the batches of a recording to a report: two passes over each batch.
//!
//! ```text
//! batches ─► MemoryPass ─► batches, and what each copy's host side was ─► CallPass ─► Report
//! ```
//!
//! Memory is a state that has to be followed; all else is counted, and asks it one thing: what
//! memory a copy was from or to. So the two passes may run in threads of their own.

use trace::{End, EventBatch};

use super::Report;
use super::call_pass::CallPass;
use super::memory_pass::{HostSides, MemoryPass};
use crate::Error;
use crate::ahead::Ahead;
use crate::input::{Ended, Recording};
use crate::selection::Selection;

/// The columns that a [`Collector`] reads, for [`trace::Reader::select`].
pub const COLUMNS: &[&str] = &[
    "duration",
    "api",
    "parent",
    "result",
    "device",
    "location",
    "location_id",
    "address",
    "source",
    "size",
    "offset",
    "copy_kind",
    "stream",
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "handle",
    "related",
    "option",
    "count",
    "device_free",
    "device_total",
    "flags",
    "kernel",
    "caller",
    "allocated",
    "reserved",
    "text",
];

/// Makes a [`Report`]: batches go in by [`Collector::batch`], in the order of
/// the recording.
#[derive(Debug)]
pub struct Collector {
    memory: MemoryPass,
    calls: CallPass,
}

impl Collector {
    /// A report about the selected part of a recording.
    pub fn new(selection: Selection) -> Self {
        Self {
            memory: MemoryPass::new(selection.clone()),
            calls: CallPass::new(selection),
        }
    }

    /// Takes in the next batch.
    pub fn batch(&mut self, batch: &EventBatch) {
        let hosts = self.memory.batch(batch);
        self.calls.batch(batch, &hosts);
    }

    /// Takes in a recording: as [`Self::batch`] does, in two threads besides the one that reads.
    /// Others may take the batches, too.
    pub(crate) fn read(
        self,
        recording: Recording,
        mut also: impl FnMut(&EventBatch),
    ) -> Result<(Self, Ended), Error> {
        let Self { memory, mut calls } = self;
        let mut followed = Ahead::start("memory", Followed { recording, memory })?;
        for batch in &mut followed {
            let (batch, hosts) = batch?;
            calls.batch(&batch, &hosts);
            also(&batch);
        }
        let Followed { recording, memory } = followed.into_inner();
        Ok((Self { memory, calls }, recording.ended()))
    }

    /// The recording goes on: what comes later was not there when it was read.
    pub fn goes_on(&mut self) {
        self.calls.goes_on();
    }

    /// The report of all batches, of a recording that ended so.
    pub fn finish(self, end_of_file: &End) -> Report {
        let Self { memory, calls } = self;
        calls.finish(memory, end_of_file)
    }
}

/// A recording whose memory is followed.
#[derive(Debug)]
struct Followed {
    recording: Recording,
    memory: MemoryPass,
}

impl Iterator for Followed {
    type Item = Result<(EventBatch, HostSides), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.recording.next()?;
        Some(batch.map(|batch| {
            let hosts = self.memory.batch(&batch);
            (batch, hosts)
        }))
    }
}
