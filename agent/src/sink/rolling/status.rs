//! How a rolling recording goes, for whoever shows it.

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Why events could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The file system, or the quota, is full.
    DiskFull,
    /// The disk takes longer than events can wait.
    DiskSlow,
    /// The folder is gone or read-only, or the disk fails.
    DiskError,
    /// What a segment must begin with is larger than the budget.
    OverBudget,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 4] = [
        Self::DiskFull,
        Self::DiskSlow,
        Self::DiskError,
        Self::OverBudget,
    ];

    /// The name in a recording and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DiskFull => "disk_full",
            Self::DiskSlow => "disk_slow",
            Self::DiskError => "disk_error",
            Self::OverBudget => "over_budget",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DiskFull => "the disk is full",
            Self::DiskSlow => "the disk is too slow",
            Self::DiskError => "the disk failed",
            Self::OverBudget => "the budget is too small",
        })
    }
}

/// How it goes. Counts are since this run began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Events taken, facts included.
    pub events: u64,
    /// Segments that lie in the folder, those of earlier runs included.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The most that may lie there.
    pub budget_bytes: u64,
    /// Bytes written, those of segments that are gone included.
    pub written_bytes: u64,
    /// Segments begun.
    pub segments_begun: u64,
    /// Segments removed, to stay within the budget or because the disk was full.
    pub segments_removed: u64,
    /// The newest segment that is not being written.
    pub newest: Option<PathBuf>,
    /// Whether a segment is being written; if not, events are being lost.
    pub is_writing: bool,
    /// Events that could not be written.
    pub unwritten: BTreeMap<Cause, u64>,
    /// Why writing failed last.
    pub last_error: Option<String>,
}

impl Status {
    /// Events that could not be written, for whatever cause.
    pub fn all_unwritten(&self) -> u64 {
        self.unwritten.values().sum()
    }
}

/// The status, shared by those who make it and those who look.
#[derive(Debug, Default)]
pub struct Monitor(Mutex<Status>);

impl Monitor {
    /// How it goes now.
    pub fn status(&self) -> Status {
        self.lock().clone()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Status> {
        // Plain counters: whoever panicked left nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
