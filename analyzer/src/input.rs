//! Opening recordings.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::Error;

/// Where a recording comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A file.
    File(PathBuf),
    /// Standard input, which is written `-`.
    Stdin,
}

impl Input {
    /// Opens it.
    pub(crate) fn open(&self) -> Result<Box<dyn Read>, Error> {
        Ok(match self {
            Self::File(path) => Box::new(open(path)?),
            Self::Stdin => Box::new(io::stdin().lock()),
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
