//! What the commands that analyse recordings have in common: which recordings, and which part of
//! them.

use std::path::{Path, PathBuf};

use trace::EventBatch;

use crate::Error;
use crate::device_choice::{DeviceChoice, Uuids};
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
    /// Only this device: its ordinal as each process counts, or the beginning of its UUID (GPU-...);
    /// may be given more than once
    #[arg(long, value_name = "N|UUID")]
    device: Vec<DeviceChoice>,
}

impl Recordings {
    /// The part that is asked for.
    pub(super) fn selection(&self) -> Result<Selection, Error> {
        self.part.selection(&self.paths)
    }

    /// Opens them, as one recording.
    pub(super) fn open(&self, columns: &'static [&'static str]) -> Result<Recording, Error> {
        Recording::open(&self.paths, columns)
    }

    /// Whether they can be read again.
    pub(super) fn can_be_read_twice(&self) -> bool {
        self.paths.iter().all(|path| is_kept(path))
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
    /// As the analyses of `paths` take it. Devices that are named by UUID are looked up in them first.
    pub(super) fn selection(&self, paths: &[PathBuf]) -> Result<Selection, Error> {
        let Self {
            from,
            to,
            pid,
            device,
        } = self;
        let mut selection = Selection {
            from: *from,
            to: *to,
            pids: pid.clone(),
            ..Selection::default()
        };
        let mut known = None;
        for device in device {
            match device {
                DeviceChoice::Ordinal(ordinal) => selection.devices.push(*ordinal),
                DeviceChoice::Uuid(beginning) => {
                    let known = match &mut known {
                        Some(known) => known,
                        unread => unread.insert(uuids(paths)?),
                    };
                    let (uuid, places) = known.find(beginning)?;
                    selection.places.extend(places);
                    selection.device_uuids.push(uuid.to_owned());
                }
            }
        }
        Ok(selection)
    }
}

/// Whether what is read from there is still there the next time: it is no pipe. That nothing is
/// there is told when it is opened.
fn is_kept(path: &Path) -> bool {
    path != Path::new("-") && (path.is_file() || path.is_dir() || !path.exists())
}

/// The UUIDs that the recordings tell.
fn uuids(paths: &[PathBuf]) -> Result<Uuids, Error> {
    if !paths.iter().all(|path| is_kept(path)) {
        return Err(Error::ReadTwice);
    }
    let mut uuids = Uuids::default();
    let mut recording = Recording::open(paths, Uuids::COLUMNS)?;
    for batch in &mut recording {
        uuids.learn(&batch?);
    }
    Ok(uuids)
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
