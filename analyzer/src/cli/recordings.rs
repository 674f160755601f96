//! What the commands that analyse recordings have in common: which recordings, and which part of
//! them.

use std::path::PathBuf;

use trace::EventBatch;

use crate::Error;
use crate::input::{Ended, Recording};
use crate::selection::{Selection, Time};

/// The recordings, and the part of them that is asked for.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Recordings {
    /// Recordings: files, folders of rolling recordings, or - for standard input; several are
    /// read as one
    #[arg(value_name = "RECORDING", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    part: Part,
}

/// The part of a recording that is asked for.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Part {
    /// Only what happens at this time or later: seconds since the start (12.5 or 12.5s), or @
    /// and ns of `CLOCK_MONOTONIC`
    #[arg(long, value_name = "TIME")]
    from: Option<Time>,
    /// Only what happens before this time
    #[arg(long, value_name = "TIME")]
    to: Option<Time>,
    /// Only this process; may be given more than once
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Only this device, by its ordinal as each process counts; may be given more than once
    #[arg(long, value_name = "N")]
    device: Vec<i32>,
}

impl Recordings {
    /// The part that is asked for.
    pub(super) fn selection(&self) -> Selection {
        self.part.selection()
    }

    /// Opens them, as one recording.
    pub(super) fn open(&self, columns: &'static [&'static str]) -> Result<Recording, Error> {
        Recording::open(&self.paths, columns)
    }

    /// Whether they can be opened again: all are files or folders.
    pub(super) fn can_be_read_twice(&self) -> bool {
        let is_kept = |path: &PathBuf| path.is_file() || path.is_dir();
        self.paths.iter().all(is_kept)
    }

    /// Reads all, in order.
    pub(super) fn read(
        &self,
        columns: &'static [&'static str],
        take: impl FnMut(&EventBatch),
    ) -> Result<Ended, Error> {
        read(&self.paths, columns, take)
    }
}

impl Part {
    /// As the analyses take it.
    pub(super) fn selection(&self) -> Selection {
        let Self {
            from,
            to,
            pid,
            device,
        } = self;
        Selection {
            from: *from,
            to: *to,
            pids: pid.clone(),
            devices: device.clone(),
        }
    }
}

/// Reads what `paths` name as one recording.
pub(super) fn read(
    paths: &[PathBuf],
    columns: &'static [&'static str],
    mut take: impl FnMut(&EventBatch),
) -> Result<Ended, Error> {
    let mut recording = Recording::open(paths, columns)?;
    for batch in &mut recording {
        take(&batch?);
    }
    Ok(recording.ended())
}
