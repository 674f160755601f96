//! Where an export goes.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// Where an export goes. A file is removed when this is dropped, unless it was said to be whole:
/// half an export would look like a short one.
#[derive(Debug)]
pub(super) struct Target {
    /// `None`: standard output.
    path: Option<PathBuf>,
    is_whole: bool,
    is_file: bool,
}

impl Target {
    /// Opens the file `path`, which must not exist, or standard output.
    pub(super) fn open(path: Option<&Path>) -> Result<(Self, Box<dyn Write>), Error> {
        let output: Box<dyn Write> = match path {
            None => Box::new(io::stdout().lock()),
            Some(path) => {
                let file = OpenOptions::new().write(true).create_new(true).open(path);
                Box::new(file.map_err(|source| Error::Create {
                    path: path.to_owned(),
                    source,
                })?)
            }
        };
        let target = Self {
            path: path.map(Path::to_owned),
            is_whole: false,
            is_file: path.is_some(),
        };
        Ok((target, Box::new(BufWriter::with_capacity(1 << 18, output))))
    }

    /// As [`Self::open`], for what a terminal cannot show.
    pub(super) fn open_binary(path: Option<&Path>) -> Result<(Self, Box<dyn Write>), Error> {
        if path.is_none() && io::stdout().is_terminal() {
            return Err(Error::Terminal);
        }
        Self::open(path)
    }

    /// A directory, in which the format's writer makes its files.
    #[cfg(feature = "parquet")]
    pub(super) fn directory(path: &Path) -> Self {
        Self {
            path: Some(path.to_owned()),
            is_whole: false,
            is_file: false,
        }
    }

    /// What to say of a failure to write.
    pub(super) fn error(&self, source: io::Error) -> Error {
        match &self.path {
            None => Error::Output(source),
            Some(path) => Error::Write {
                path: path.clone(),
                source,
            },
        }
    }

    /// All is written. Says so on standard error, unless the export went to standard output.
    pub(super) fn finish(mut self, what: &str, bytes: u64) {
        self.is_whole = true;
        if let Some(path) = &self.path {
            eprintln!("{what} in {bytes} bytes: {}", path.display());
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && self.is_file
            && !self.is_whole
        {
            // Ours, and of no use to anyone.
            let _ = fs::remove_file(path);
        }
    }
}
