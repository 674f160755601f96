//! Where readings come from: a session of our own, or a server.

mod local;
mod remote;

use std::{fs::File, sync::Arc};

use super::{Reading, Subject, TopError};
use crate::session::Outcome;
use local::Local;
use remote::Remote;
pub use remote::{Address, ServerError};

/// Something to read from.
#[derive(Debug)]
pub(super) enum Source {
    /// A session of our own.
    Local(Box<Local>),
    /// A server.
    Remote(Remote),
}

/// How a source goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// On.
    Running,
    /// What was traced is over; what was read of it stays.
    Ended,
    /// It failed: [`Source::finish`] says why.
    Failed,
}

/// Reads, in a thread of its own.
#[derive(Debug)]
pub(super) enum Reader {
    Local(local::Reader),
    Remote(Remote),
}

impl Source {
    /// Begins; a command's output goes to `output`.
    pub(super) fn start(subject: Subject, output: Option<Arc<File>>) -> Result<Self, TopError> {
        match subject {
            Subject::Session(mut options) => {
                options.command_output = output;
                Ok(Self::Local(Box::new(Local::start(*options)?)))
            }
            Subject::Server(address) => Ok(Self::Remote(Remote::new(address))),
        }
    }

    /// What reads from it.
    pub(super) fn reader(&self) -> Reader {
        match self {
            Self::Local(local) => Reader::Local(local.reader()),
            Self::Remote(remote) => Reader::Remote(remote.clone()),
        }
    }

    /// What is looked at, in a few words.
    pub(super) fn title(&self) -> String {
        match self {
            Self::Local(local) => local.title().to_owned(),
            Self::Remote(remote) => remote.title(),
        }
    }

    /// How it goes.
    pub(super) fn progress(&self) -> Progress {
        match self {
            Self::Local(local) => local.progress(),
            Self::Remote(_) => Progress::Running,
        }
    }

    /// Ends it: a command is asked to end, and waited for. `is_told`: by a signal, it has been
    /// asked already. The session's outcome.
    pub(super) fn finish(self, is_told: bool) -> Result<Option<Outcome>, TopError> {
        match self {
            Self::Local(local) => local.finish(is_told).map(Some),
            Self::Remote(_) => Ok(None),
        }
    }
}

impl Reader {
    pub(super) fn read(&mut self) -> Result<Reading, TopError> {
        match self {
            Self::Local(reader) => reader.read(),
            Self::Remote(remote) => Ok(remote.read()?),
        }
    }
}
