//! The folder: which segments lie there, and how room is made for more.

use std::{
    collections::VecDeque,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use thiserror::Error;
use trace::SegmentName;

use super::status::Monitor;

/// What files take of a disk is counted in blocks of this size.
const BLOCK: u64 = 4096;

/// Why a folder cannot be used.
#[derive(Debug, Error)]
pub enum FolderError {
    /// It is not there, and cannot be made.
    #[error("creating the folder {} for the rolling recording: {source}", path.display())]
    Create {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be read.
    #[error("reading the folder {} of the rolling recording: {source}", path.display())]
    Read {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody writes there.
    #[error(
        "another cudasnoop is recording into {}\nhint: give each recorder a folder of its own",
        path.display()
    )]
    Taken {
        /// The folder.
        path: PathBuf,
    },
    /// The first segment cannot be written.
    #[error("writing a segment into {}: {reason}", path.display())]
    Write {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A thread could not be started.
    #[error("starting the threads of the rolling recording: {0}")]
    Start(#[source] io::Error),
}

/// A segment that is not being written.
#[derive(Clone, Debug)]
pub(super) struct Lying {
    pub(super) name: SegmentName,
    pub(super) bytes: u64,
}

/// The folder, while it is ours.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Its lock tells other recorders that we write there.
    _lock: File,
    budget: u64,
    /// Oldest first.
    segments: VecDeque<Lying>,
    /// Bytes of the segment that is being written.
    open: u64,
    monitor: Arc<Monitor>,
}

impl Folder {
    /// Makes the folder, where it is not there.
    pub(super) fn create(path: &Path) -> Result<(), FolderError> {
        fs::create_dir_all(path).map_err(|source| FolderError::Create {
            path: path.to_owned(),
            source,
        })
    }

    /// Takes the folder, finds the segments there, and removes the oldest that are beyond the
    /// budget. Segments that were being written when their recorder died are so no more.
    pub(super) fn open(
        path: &Path,
        budget: u64,
        monitor: Arc<Monitor>,
    ) -> Result<Self, FolderError> {
        let failed = |source| FolderError::Read {
            path: path.to_owned(),
            source,
        };
        let lock = File::open(path).map_err(failed)?;
        match try_lock(&lock) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(FolderError::Taken {
                    path: path.to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => {
                tracing::debug!("{} cannot be locked: {error}", path.display());
            }
        }
        let mut segments = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let Some(name) = name.to_str().and_then(SegmentName::parse) else {
                continue;
            };
            // Not what a link leads to. It may be gone by now.
            if let Ok(file) = entry.metadata()
                && file.is_file()
            {
                let bytes = file.len();
                segments.push(Lying { name, bytes });
            }
        }
        segments.sort_by_key(|segment| segment.name.number);
        let mut folder = Self {
            path: path.to_owned(),
            _lock: lock,
            budget,
            segments: segments.into(),
            open: 0,
            monitor,
        };
        folder.close_leftovers();
        if let Err(error) = folder.make_room(0) {
            tracing::warn!("removing old segments from {}: {error}", path.display());
        }
        Ok(folder)
    }

    /// The segments that are not being written, oldest first.
    pub(super) fn segments(&self) -> impl DoubleEndedIterator<Item = &Lying> {
        self.segments.iter()
    }

    pub(super) fn path_of(&self, name: &SegmentName) -> PathBuf {
        self.path.join(name.to_string())
    }

    /// Makes room for the open segment to have `open` bytes; says whether there is enough.
    pub(super) fn make_room(&mut self, open: u64) -> io::Result<bool> {
        loop {
            let lying = self.segments.iter().map(|segment| on_disk(segment.bytes));
            if lying.sum::<u64>() + on_disk(open) <= self.budget {
                self.open = open;
                self.publish();
                return Ok(true);
            }
            if !self.remove_oldest(0)? {
                return Ok(false);
            }
        }
    }

    /// Removes the oldest segment, unless no more than `keep` are there.
    pub(super) fn remove_oldest(&mut self, keep: usize) -> io::Result<bool> {
        if self.segments.len() <= keep {
            return Ok(false);
        }
        if let Some(Lying { name, .. }) = self.segments.front() {
            match fs::remove_file(self.path_of(name)) {
                Ok(()) => {}
                // Somebody else has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            self.segments.pop_front();
            self.monitor.lock().segments_removed += 1;
            self.publish();
        }
        Ok(true)
    }

    /// The open segment is whole, or will not go on.
    pub(super) fn close(&mut self, name: &SegmentName, bytes: u64) -> io::Result<()> {
        self.open = 0;
        let renamed = fs::rename(self.path_of(name), self.path_of(&name.closed()));
        let name = if renamed.is_ok() {
            name.closed()
        } else {
            name.clone()
        };
        self.segments.push_back(Lying { name, bytes });
        self.publish();
        renamed
    }

    /// The open segment is not worth keeping: it has nothing but a part of its header.
    pub(super) fn discard(&mut self, name: &SegmentName) {
        self.open = 0;
        if let Err(error) = fs::remove_file(self.path_of(name)) {
            tracing::debug!("removing {name}: {error}");
        }
        self.publish();
    }

    /// So many bytes more went into the open segment.
    pub(super) fn wrote(&self, bytes: u64) {
        self.monitor.lock().written_bytes += bytes;
    }

    fn close_leftovers(&mut self) {
        let Self { path, segments, .. } = self;
        for segment in segments.iter_mut().filter(|segment| segment.name.is_open) {
            let (from, to) = (segment.name.to_string(), segment.name.closed());
            match fs::rename(path.join(&from), path.join(to.to_string())) {
                Ok(()) => segment.name = to,
                Err(error) => tracing::warn!("renaming {from} in {}: {error}", path.display()),
            }
        }
    }

    fn publish(&self) {
        let lying = self.segments.iter().map(|segment| segment.bytes);
        let newest = self.segments.back();
        let newest = newest.map(|segment| self.path_of(&segment.name));
        let mut status = self.monitor.lock();
        status.newest = newest;
        status.bytes = lying.sum::<u64>() + self.open;
        status.segments = self.segments.len() as u64 + u64::from(self.open > 0);
    }
}

fn on_disk(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK).saturating_mul(BLOCK)
}

/// Locks the folder. A reader who wants to know whether somebody writes there holds the lock for a
/// moment, too.
fn try_lock(folder: &File) -> Result<(), TryLockError> {
    for _ in 0..5 {
        match folder.try_lock() {
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(10)),
            other => return other,
        }
    }
    folder.try_lock()
}
