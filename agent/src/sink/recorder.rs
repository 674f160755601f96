//! Events into a recording: batches are built here, encoded and written in a thread of
//! their own, so that a slow disk does not keep the ring buffer full.

use std::{
    fs::File,
    path::PathBuf,
    sync::mpsc::{SyncSender, sync_channel},
    thread::JoinHandle,
};

use trace::{Batch, BatchWriter, Event, WriteError};

use super::{Sink, SinkError, Summary, batches::Batches};
use crate::priority::{self, Turn};

/// Batches that may wait for the disk: some seconds of a busy process.
const QUEUE: usize = 64;

/// Writes a recording.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    rows: Batches,
    batches: SyncSender<Batch>,
    /// `None` once it was found to have ended.
    writer: Option<JoinHandle<Result<u64, WriteError>>>,
    events: u64,
}

impl Recorder {
    /// Creates the file, or empties it.
    pub fn create(path: PathBuf) -> Result<Self, SinkError> {
        let file = File::create(&path).map_err(|source| SinkError::Create {
            path: path.clone(),
            source,
        })?;
        let mut writer = BatchWriter::new(file).map_err(|source| SinkError::Recording {
            path: path.clone(),
            source,
        })?;
        let (batches, queue) = sync_channel::<Batch>(QUEUE);
        let writer = priority::spawn(Turn::Next, "writer", move || {
            for batch in queue {
                writer.write(&batch)?;
            }
            let written = writer.written();
            writer.finish()?;
            Ok(written)
        })
        .map_err(|source| SinkError::Create {
            path: path.clone(),
            source,
        })?;
        Ok(Self {
            path,
            rows: Batches::starting_at(0),
            batches,
            writer: Some(writer),
            events: 0,
        })
    }

    /// Hands a batch over. A writer that has ended tells why when it is joined.
    fn hand_over(&mut self, batch: Batch) -> Result<(), SinkError> {
        self.batches.send(batch).map_err(|_| self.failure())
    }

    /// Why the writer ended before its time.
    fn failure(&mut self) -> SinkError {
        let path = self.path.clone();
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(Err(source))) => SinkError::Recording { path, source },
            Some(Ok(Ok(_)) | Err(_)) | None => SinkError::Panicked { path },
        }
    }
}

impl Sink for Recorder {
    fn event(&mut self, event: &Event) -> Result<(), SinkError> {
        self.events += 1;
        let full = self.rows.push(event);
        full.map_or(Ok(()), |batch| self.hand_over(batch))
    }

    fn tick(&mut self) -> Result<(), SinkError> {
        let due = self.rows.due();
        due.map_or(Ok(()), |batch| self.hand_over(batch))
    }

    fn finish(mut self: Box<Self>) -> Result<Summary, SinkError> {
        if let Some(batch) = self.rows.flush() {
            self.hand_over(batch)?;
        }
        let Self {
            path,
            batches,
            writer,
            events,
            ..
        } = *self;
        drop(batches);
        match writer.map(JoinHandle::join) {
            Some(Ok(Ok(bytes))) => Ok(Summary { events, bytes }),
            Some(Ok(Err(source))) => Err(SinkError::Recording { path, source }),
            Some(Err(_)) | None => Err(SinkError::Panicked { path }),
        }
    }
}
