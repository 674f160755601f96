//! From batches to rows of a sink.

use std::io;

use trace::{EventBatch, Fact, Kind};

use super::live::Live;
use super::{Names, Row, Sink};
use crate::selection::Selection;

/// Takes the batches of a recording in order, and gives the selected rows to a [`Sink`].
pub struct Exporter {
    selection: Selection,
    /// The window, ns of `CLOCK_MONOTONIC`; known from the first row on.
    window: Option<(u64, u64)>,
    most: u64,
    names: Names,
    live: Live,
    sink: Box<dyn Sink>,
    exported: Exported,
}

/// What an export has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Rows, each one event of the output.
    pub events: u64,
    /// Launches whose kernel had no name yet: it came later, or never.
    pub unnamed_launches: u64,
    /// Whether rows were left out because of the limit on their number.
    pub is_cut: bool,
    /// Whether the last row of the recording was its end.
    pub is_complete: bool,
    /// Bytes of the output.
    pub bytes: u64,
    /// The most by which the wall clock ran ahead of `CLOCK_MONOTONIC` or fell behind it, ns: it
    /// was set, or the machine slept.
    pub clock_step: u64,
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Exporter")
            .field("exported", &self.exported)
            .finish_non_exhaustive()
    }
}

impl Exporter {
    /// An export of the selected rows, the first `most` of them. `names` has what is known of the
    /// recording already; what its batches tell is added.
    pub fn new(selection: Selection, most: u64, names: Names, sink: Box<dyn Sink>) -> Self {
        Self {
            selection,
            window: None,
            most,
            names,
            live: Live::default(),
            sink,
            exported: Exported::default(),
        }
    }

    /// Takes in the next batch. `false`: no more rows are wanted.
    pub fn batch(&mut self, batch: &EventBatch) -> io::Result<bool> {
        self.names.learn(batch);
        for index in 0..batch.len() {
            self.row(batch, index)?;
            if self.exported.is_cut {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn row(&mut self, batch: &EventBatch, index: usize) -> io::Result<()> {
        let moment = batch.ts()[index];
        let pid = batch.pid()[index];
        let (from, to) = *self.window.get_or_insert_with(|| {
            let Selection {
                from,
                to,
                pids: _,
                devices: _,
                device_uuids: _,
                places: _,
            } = &self.selection;
            let bound = |time: Option<crate::selection::Time>| time.map(|time| time.after(moment));
            (bound(*from).unwrap_or(0), bound(*to).unwrap_or(u64::MAX))
        });
        let is_fact = batch.kind().get(index) == Some(Kind::Fact);
        let fact = is_fact
            .then(|| batch.text().get(index).and_then(Fact::parse))
            .flatten();
        self.exported.is_complete = fact == Some(Fact::End);
        if let Some(Fact::Process(process)) = &fact {
            self.names.introduce(process);
        }
        self.live.apply(batch, index);
        let is_in_window = from <= moment && (moment < to || to == u64::MAX);
        // With pid 0 stand the facts about the recording as a whole.
        let device = batch.device().get(index);
        let is_of_device = is_fact || self.selection.has_device(pid, device);
        if !is_in_window || !is_of_device || !(pid == 0 || self.selection.has_process(pid)) {
            return Ok(());
        }
        if self.exported.events == self.most {
            self.exported.is_cut = true;
            return Ok(());
        }
        let changes = self.live.take_changes(pid);
        let row = Row {
            batch,
            index,
            names: &self.names,
            fact: fact.as_ref(),
            live: self.live.of_last_row(),
            changes: &changes,
        };
        self.exported.unnamed_launches +=
            u64::from(batch.kernel().get(index).is_some() && row.kernel().is_none());
        self.exported.events += 1;
        self.sink.row(&row)
    }

    /// Writes the end.
    pub fn finish(self) -> io::Result<Exported> {
        let Self {
            names,
            sink,
            exported,
            ..
        } = self;
        Ok(Exported {
            bytes: sink.finish(&names)?,
            clock_step: names.clocks().step(),
            ..exported
        })
    }
}
