//! Where events go: a recording, lines on stdout, or nowhere.

mod apart;
mod arguments;
mod fan;
mod json;
mod lines;
mod recorder;

use std::{fmt, io, path::PathBuf};

use thiserror::Error;
use trace::Event;

pub use apart::Apart;
pub use fan::Fan;
pub use lines::{Filter, Lines};
pub use recorder::Recorder;

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

/// Takes events in the order of the ring buffer.
pub trait Sink: Send + fmt::Debug {
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
