//! Why a command failed.

use std::io;
use std::path::PathBuf;

/// Why a command failed. Each says what to do next where there is something to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is no recording, or one that this version cannot read.
    #[error("cannot read {input}: {source}")]
    Read {
        /// The file, or standard input.
        input: String,
        /// What is wrong with it.
        source: trace::ReadError,
    },
    /// A thread that reads, or works on what was read, could not be started.
    #[error("cannot start a thread: {0}; raise the limit of processes (ulimit -u)")]
    Thread(#[source] io::Error),
    /// A folder could not be listed.
    #[error("cannot read the folder {}: {source}", path.display())]
    Folder {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder holds no rolling recording.
    #[error(
        "{} holds no segments of a rolling recording (cudasnoop-*.arrows): name the recordings \
         in it one by one",
        path.display()
    )]
    NoSegments {
        /// Its path.
        path: PathBuf,
    },
    /// A recording of another boot or host than the others does not say when it was made.
    #[error(
        "{input} has no clock fact near its beginning, so its place in time among recordings of \
         other boots or hosts is unknown: read it alone"
    )]
    NoClock {
        /// The recording.
        input: String,
    },
    /// A device that is named by its UUID was not found.
    #[error(transparent)]
    Device(#[from] crate::device_choice::DeviceLookupError),
    /// A recording would have to be read twice, and cannot be.
    #[error(
        "a device's UUID is looked up before the recording is read, and a pipe cannot be read \
         twice: name a file"
    )]
    ReadTwice,
    /// More recordings of different hosts or pid namespaces than there are ids.
    #[error("recordings of more than 429 hosts or pid namespaces: read fewer at once")]
    TooMany,
    /// The file is no PyTorch memory snapshot.
    #[error("cannot read the snapshot {input}: {source}")]
    Snapshot {
        /// The file, or standard input.
        input: String,
        /// What is wrong with it.
        source: crate::snapshot::PickleError,
    },
    /// A log could not be read.
    #[error("cannot read {input}: {source}")]
    Log {
        /// The file, or standard input.
        input: String,
        /// What the system said.
        source: io::Error,
    },
    /// The output could not be made.
    #[error("cannot create {}: {source}", path.display())]
    Create {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The recording could not be repaired.
    #[error("cannot repair {}: {source}", path.display())]
    Repair {
        /// Its path.
        path: PathBuf,
        /// What went wrong.
        source: trace::RepairError,
    },
    /// An export could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Two documents would be on standard output, one after the other.
    #[error(
        "both the page and the JSON are to go to standard output: name a file for the page \
         (--html FILE)"
    )]
    TwoOutputs,
    /// The output is binary, and a terminal would show it.
    #[error("a Perfetto trace is binary: name a file (`-o trace.pftrace`), or redirect the output")]
    Terminal,
    /// Standard output refused the report.
    #[error("cannot write to standard output: {0}")]
    Output(#[source] io::Error),
}
