//! The thread that writes: the only one that waits for the disk.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, Sender},
    },
};

use trace::{Batch, BatchWriter, SegmentName, WriteError};

use super::{
    folder::{Folder, FolderError},
    status::{Cause, Monitor},
};

/// What is to be done. Each order is answered by a [`Told`].
#[derive(Debug)]
pub(super) enum Order {
    /// Begins a segment; one that is still open ends as it is.
    Open {
        name: SegmentName,
        header: Vec<Batch>,
    },
    /// Goes into the open segment; into none, where that has failed.
    Write { number: u64, batch: Batch },
    /// Ends it.
    Close { number: u64 },
}

/// What became of a segment by an order.
#[derive(Debug)]
pub(super) struct Told {
    /// The segment.
    pub(super) number: u64,
    /// What is in it by now; `None` if nothing was done, since it had failed before.
    pub(super) written: Option<Written>,
    /// It failed: nothing more goes into it.
    pub(super) failure: Option<Failure>,
}

/// What lies on the disk of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) is_closed: bool,
}

/// Why nothing more could be written.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) cause: Cause,
    pub(super) text: String,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let cause = if is_full(&error) {
            Cause::DiskFull
        } else {
            Cause::DiskError
        };
        Self {
            cause,
            text: error.to_string(),
        }
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        Self {
            cause: Cause::DiskError,
            text: error.to_string(),
        }
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        Self {
            cause: Cause::DiskError,
            text: error.to_string(),
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Writes segments.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    budget: u64,
    monitor: Arc<Monitor>,
    /// `None` after a failure, until the next segment is begun: what lies there is looked at anew.
    folder: Option<Folder>,
    open: Option<OpenSegment>,
}

#[derive(Debug)]
struct OpenSegment {
    name: SegmentName,
    file: File,
    encoder: BatchWriter<Vec<u8>>,
    header_rows: u64,
    written: Written,
}

impl Disk {
    pub(super) fn new(path: PathBuf, budget: u64, folder: Folder, monitor: Arc<Monitor>) -> Self {
        Self {
            path,
            budget,
            monitor,
            folder: Some(folder),
            open: None,
        }
    }

    /// Does what is ordered, until nobody orders any more.
    pub(super) fn run(mut self, orders: Receiver<Order>, answers: &Sender<Told>) {
        for order in orders {
            let told = self.obey(order);
            // Nobody listens any more only when all has ended.
            let _ = answers.send(told);
        }
        self.end_open();
    }

    pub(super) fn obey(&mut self, order: Order) -> Told {
        match order {
            Order::Open { name, header } => {
                self.end_open();
                let number = name.number;
                let result = self.begin(name, &header);
                self.told(number, result)
            }
            Order::Write { number, batch } => self.go_on(number, |open, folder| {
                open.encoder.write(&batch)?;
                open.append(folder, batch.rows())
            }),
            Order::Close { number } => {
                let mut told = self.go_on(number, |open, folder| {
                    open.encoder.end()?;
                    open.append(folder, 0)
                });
                if told.failure.is_none()
                    && let Some(written) = &mut told.written
                {
                    written.is_closed = true;
                    self.end_open();
                }
                told
            }
        }
    }

    fn begin(&mut self, name: SegmentName, header: &[Batch]) -> Result<(), Failure> {
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => Folder::open(&self.path, self.budget, Arc::clone(&self.monitor))?,
        };
        let folder = self.folder.insert(folder);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(folder.path_of(&name))?;
        let mut open = OpenSegment {
            name,
            file,
            encoder: BatchWriter::new(Vec::new())?,
            header_rows: header.iter().map(|batch| batch.rows() as u64).sum(),
            written: Written::default(),
        };
        let mut write = || {
            for batch in header {
                open.encoder.write(batch)?;
                open.append(folder, batch.rows())?;
            }
            Ok(())
        };
        if let Err(failure) = write() {
            folder.discard(&open.name);
            return Err(failure);
        }
        self.monitor.lock().segments_begun += 1;
        self.open = Some(open);
        Ok(())
    }

    fn go_on(
        &mut self,
        number: u64,
        act: impl FnOnce(&mut OpenSegment, &mut Folder) -> Result<(), Failure>,
    ) -> Told {
        let result = match (&mut self.open, &mut self.folder) {
            (Some(open), Some(folder)) if open.name.number == number => act(open, folder),
            _ => {
                return Told {
                    number,
                    written: None,
                    failure: None,
                };
            }
        };
        self.told(number, result)
    }

    fn told(&mut self, number: u64, result: Result<(), Failure>) -> Told {
        let mut written = self.open.as_ref().map(|open| open.written);
        let failure = result.err();
        if failure.is_some() {
            // A segment without an event says nothing that the next one does not.
            if let (Some(open), Some(folder)) = (&self.open, &mut self.folder)
                && open.written.rows <= open.header_rows
            {
                folder.discard(&open.name);
                self.open = None;
                written = None;
            }
            self.end_open();
            self.folder = None;
        }
        Told {
            number,
            written: Some(written.unwrap_or_default()),
            failure,
        }
    }

    /// The open segment gets nothing more.
    fn end_open(&mut self) {
        let (Some(open), Some(folder)) = (self.open.take(), &mut self.folder) else {
            return;
        };
        if let Err(error) = folder.close(&open.name, open.written.bytes) {
            tracing::warn!("renaming {} in {}: {error}", open.name, self.path.display());
            // What lies there is not what we think.
            self.folder = None;
        }
    }
}

impl OpenSegment {
    /// Writes what is encoded, all or nothing.
    fn append(&mut self, folder: &mut Folder, rows: usize) -> Result<(), Failure> {
        let bytes = std::mem::take(self.encoder.output_mut());
        let at = self.written.bytes;
        let end = at + bytes.len() as u64;
        if self.file.metadata()?.nlink() == 0 {
            return Err(Failure {
                cause: Cause::DiskError,
                text: format!("{} was removed while it was written", self.name),
            });
        }
        if !folder.make_room(end)? {
            return Err(Failure {
                cause: Cause::OverBudget,
                text: format!(
                    "a segment needs more than {}, since so much is known when it begins",
                    analyzer::text::bytes(end)
                ),
            });
        }
        while let Err(error) = self.file.write_all_at(&bytes, at) {
            // No part of a batch, where that can be helped.
            let cut = self.file.set_len(at);
            // The newest is kept: whoever fills the disk may want all that we give.
            let may_help = is_full(&error) && cut.is_ok() && folder.remove_oldest(1)?;
            if !may_help {
                return Err(error.into());
            }
        }
        self.written.bytes = end;
        self.written.rows += rows as u64;
        folder.wrote(bytes.len() as u64);
        Ok(())
    }
}
