//! Where events go: a recording, a rolling recording, lines on stdout, or nowhere.

mod apart;
mod arguments;
mod batches;
mod fan;
mod json;
mod lines;
mod recorder;
mod rolling;

use std::{fmt, io, path::PathBuf};

use agent_common::{ApiId, Counters};
use thiserror::Error;
use trace::{Event, fact};

pub use apart::Apart;
pub use fan::Fan;
pub use lines::{Filter, Lines};
pub use recorder::Recorder;
pub use rolling::{
    Cause as UnwrittenCause, FolderError, Monitor, Rolling, RollingOptions, Status as RollingStatus,
};

/// Why events could not be passed on.
#[derive(Debug, Error)]
pub enum SinkError {
    /// The recording could not be written.
    #[error("writing the recording {}: {source}", path.display())]
    Recording {
        /// The file.
        path: PathBuf,
        /// Why.
        source: trace::WriteError,
    },
    /// The recording could not be created.
    #[error("creating the recording {}: {source}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The rolling recording could not be begun.
    #[error(transparent)]
    Rolling(#[from] FolderError),
    /// Lines could not be written.
    #[error("writing to stdout: {0}")]
    Stdout(#[source] io::Error),
    /// A thread for a sink could not be started.
    #[error("starting the thread of {name}: {source}")]
    Thread {
        /// What the sink is for.
        name: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The writing thread ended before its time.
    #[error("the thread that writes the recording {} panicked", path.display())]
    Panicked {
        /// The file.
        path: PathBuf,
    },
}

impl SinkError {
    /// Whether the reader of our lines has gone, which is its right.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// What a sink did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Events that were passed on.
    pub events: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// What a sink may ask of the session.
pub struct Sources {
    /// The same moment on three clocks: now.
    pub clock: fn() -> fact::Clock,
    /// What the kernel has counted until now; `None` where that cannot be read.
    pub counts: Box<dyn Fn() -> Option<Counts> + Send>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

/// What the kernel has counted since the session began.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Of each function that was called.
    pub functions: Vec<(ApiId, Counters)>,
    /// Probe hits that it did not run a program for.
    pub recursion_misses: u64,
}

/// Ids that rows refer to facts by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// In the `kernel` column.
    pub kernel: u32,
    /// In the `caller` column.
    pub caller: u32,
}

impl Ids {
    /// Those that neither of two sinks has.
    #[must_use]
    pub fn after_both(self, other: Self) -> Self {
        Self {
            kernel: self.kernel.max(other.kernel),
            caller: self.caller.max(other.caller),
        }
    }
}

/// Takes events in the order of the ring buffer.
pub trait Sink: Send + fmt::Debug {
    /// The first ids that facts may define: a recording that is gone on with has some.
    fn first_ids(&self) -> Ids {
        Ids::default()
    }

    /// Takes one.
    fn event(&mut self, event: &Event) -> Result<(), SinkError>;

    /// Comes by a few times a second.
    fn tick(&mut self) -> Result<(), SinkError>;

    /// After the last event.
    fn finish(self: Box<Self>) -> Result<Summary, SinkError>;
}

/// Takes events and does nothing: for `count`.
#[derive(Debug, Default)]
pub struct Discard;

impl Sink for Discard {
    fn event(&mut self, _: &Event) -> Result<(), SinkError> {
        Ok(())
    }

    fn tick(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Summary, SinkError> {
        Ok(Summary::default())
    }
}
