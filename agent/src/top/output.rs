//! What the traced command prints, which must not end up on the screen.

use std::{
    fs::File,
    io::{self, Seek as _},
    path::PathBuf,
    sync::Arc,
};

use super::{Subject, TopError};
use crate::session::Target;

/// A place for it.
#[derive(Debug)]
pub(super) enum Output {
    /// There is no command.
    None,
    /// Where the user wanted it.
    Named(Arc<File>),
    /// In a file without a name, until it can be shown.
    Kept(Arc<File>),
}

impl Output {
    pub(super) fn for_command_of(
        subject: &Subject,
        named: Option<PathBuf>,
    ) -> Result<Self, TopError> {
        let is_command = match subject {
            Subject::Session(options) => matches!(options.target, Target::Command(_)),
            Subject::Server(_) => false,
        };
        if !is_command {
            return Ok(Self::None);
        }
        match named {
            Some(path) => match File::create(&path) {
                Ok(file) => Ok(Self::Named(Arc::new(file))),
                Err(source) => Err(TopError::Output {
                    place: path.display().to_string(),
                    source,
                }),
            },
            None => match tempfile::tempfile() {
                Ok(file) => Ok(Self::Kept(Arc::new(file))),
                Err(source) => Err(kept(source)),
            },
        }
    }

    /// Where the command is to write.
    pub(super) fn file(&self) -> Option<Arc<File>> {
        match self {
            Self::None => None,
            Self::Named(file) | Self::Kept(file) => Some(Arc::clone(file)),
        }
    }

    /// Prints what was kept.
    pub(super) fn show(&mut self) -> Result<(), TopError> {
        let Self::Kept(file) = self else {
            return Ok(());
        };
        let mut file: &File = file;
        file.rewind().map_err(kept)?;
        let mut stdout = io::stdout().lock();
        io::copy(&mut file, &mut stdout).map_err(TopError::Stdout)?;
        Ok(())
    }
}

fn kept(source: io::Error) -> TopError {
    TopError::Output {
        place: std::env::temp_dir().display().to_string(),
        source,
    }
}
