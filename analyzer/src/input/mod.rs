//! Where recordings come from: files, folders of rolling recordings, standard input; one, or
//! several that are read as one.
//!
//! ```text
//! paths ─► Chain: a file, or segments one after the other ─┬─ one ─────────► batches as they are
//!                                                          └─ several ─ Merge ─► one recording:
//!                                      one clock, ids that do not clash, rows in order of time
//! ```
//!
//! All of this is done ahead of whoever looks at the batches, by a thread of its own ([`Ahead`]):
//! to decompress them takes about as long as to look at them.

mod chain;
mod folder;
mod merge;
mod numbering;
mod origin;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use trace::{End, EventBatch};

use crate::Error;
use crate::ahead::Ahead;
use chain::Chain;
use merge::Merge;

/// One file, or standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A file.
    File(PathBuf),
    /// Standard input, which is written `-`.
    Stdin,
}

impl Input {
    /// Opens it.
    pub(crate) fn open(&self) -> Result<Box<dyn Read + Send>, Error> {
        Ok(match self {
            Self::File(path) => Box::new(open(path)?),
            Self::Stdin => Box::new(io::stdin()),
        })
    }
}

/// Opens a recording's file.
pub(crate) fn open(path: &Path) -> Result<File, Error> {
    File::open(path).map_err(|source| Error::Open {
        path: path.to_owned(),
        source,
    })
}

impl From<&Path> for Input {
    fn from(path: &Path) -> Self {
        if path == Path::new("-") {
            Self::Stdin
        } else {
            Self::File(path.to_owned())
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(formatter),
            Self::Stdin => formatter.write_str("standard input"),
        }
    }
}

/// One recording, of whatever it is made: its batches in order, read ahead.
#[derive(Debug)]
pub(crate) struct Recording(Ahead<Batches>);

/// Its batches, read when they are asked for.
#[derive(Debug)]
enum Batches {
    /// As they are.
    One(Box<Chain>),
    /// Of several recordings, as of one.
    Several(Box<Merge>),
}

/// How what was read ended, and what the reader is to know.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The end of all of it: complete, or how the first one that was cut ended.
    pub(crate) end: End,
    /// The files that were cut.
    pub(crate) cut: Vec<Cut>,
    /// Other things to tell on standard error, each one line.
    pub(crate) notes: Vec<String>,
    /// Whether it goes on: the last segment is being written.
    pub(crate) is_live: bool,
}

/// A file that breaks off.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// Its name.
    pub(crate) input: String,
    /// Where and how.
    pub(crate) end: End,
}

impl Recording {
    /// Opens what `paths` name, for the rows' `columns`: files, folders of rolling recordings,
    /// and `-` for standard input.
    pub(crate) fn open(paths: &[PathBuf], columns: &'static [&'static str]) -> Result<Self, Error> {
        let batches = Batches::open(paths, columns)?;
        Ahead::start("reader", batches).map(Self)
    }

    /// How it ended; complete when all batches were taken.
    pub(crate) fn ended(self) -> Ended {
        self.0.into_inner().ended()
    }
}

impl Iterator for Recording {
    type Item = Result<EventBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl Batches {
    fn open(paths: &[PathBuf], columns: &'static [&'static str]) -> Result<Self, Error> {
        let mut chains = folder::chains(paths, columns)?;
        if chains.len() > 1 {
            return Ok(Self::Several(Box::new(Merge::new(chains)?)));
        }
        let only = chains.pop().unwrap_or_else(|| Chain::empty(columns));
        Ok(Self::One(Box::new(only)))
    }

    /// How it ended; complete when all batches were taken.
    fn ended(self) -> Ended {
        let (cut, notes, is_live) = match self {
            Self::One(chain) => chain.ended(),
            Self::Several(merge) => merge.ended(),
        };
        let end = cut.first().map_or(End::Complete, |cut| cut.end.clone());
        Ended {
            end,
            cut,
            notes,
            is_live,
        }
    }
}

impl Iterator for Batches {
    type Item = Result<EventBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::One(chain) => chain.next_batch().transpose(),
            Self::Several(merge) => merge.next_batch().transpose(),
        }
    }
}

#[cfg(test)]
mod tests;
