//! `--html`: where a page goes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use trace::EventBatch;

use super::output;
use super::recordings::Recordings;
use crate::Error;
use crate::html::{Collector, Page, Supplement};
use crate::input::Ended;
use crate::selection::{Selection, Time};
use crate::text::Colour;

/// Whether a page is wanted, and where.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Html {
    /// Write one HTML page, for a browser without a network, in place of text; an older file of
    /// that name is replaced; - is standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Html {
    pub(super) const fn is_wanted(&self) -> bool {
        self.html.is_some()
    }

    /// Refuses to print a page and JSON one after the other.
    pub(super) fn check(&self, json: bool) -> Result<(), Error> {
        match &self.html {
            Some(path) if json && is_stdout(path) => Err(Error::TwoOutputs),
            Some(_) | None => Ok(()),
        }
    }

    /// Reads recordings for `take`; gives how they ended, and what a page of the selected part
    /// shows beyond the report, at the moment `at`, if one is wanted.
    pub(super) fn read(
        &self,
        recordings: &Recordings,
        columns: &'static [&'static str],
        (selection, at): (&Selection, Option<Time>),
        mut take: impl FnMut(&EventBatch),
    ) -> Result<(Ended, Option<Supplement>), Error> {
        let mut beside = self
            .is_wanted()
            .then(|| Collector::new(selection.clone(), at));
        let ended = recordings.read(columns, |batch| {
            take(batch);
            if let Some(beside) = &mut beside {
                beside.batch(batch);
            }
        })?;
        let supplement = beside.map(|beside| beside.finish(&ended));
        Ok((ended, supplement))
    }

    /// Prints the report of a command: as a page where there is a supplement for it, else as the
    /// text that `write_text` makes of it, and as JSON.
    pub(super) fn print<T: Serialize>(
        &self,
        command: &'static str,
        report: &T,
        supplement: Option<&Supplement>,
        json: bool,
        write_text: impl FnOnce(&T, Colour, &mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Error> {
        let Some(supplement) = supplement else {
            return output::print(report, json, write_text);
        };
        self.write(&Page {
            command,
            report,
            supplement,
        })?;
        output::print_json(report, json)
    }

    /// Writes the page, if one is wanted.
    fn write<T: Serialize>(&self, page: &Page<'_, T>) -> Result<(), Error> {
        let Some(path) = &self.html else {
            return Ok(());
        };
        if is_stdout(path) {
            let mut output = BufWriter::new(io::stdout().lock());
            return page
                .write(&mut output)
                .and_then(|()| output.flush())
                .map_err(Error::Output);
        }
        write_file(path, |output| page.write(output)).map_err(|source| Error::Write {
            path: path.clone(),
            source,
        })?;
        eprintln!("the page is in {}", path.display());
        Ok(())
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// A file that is whole or not there: it takes its name when all is written. What is no file
/// (a pipe, a terminal) is written to as it is.
fn write_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let mut output = BufWriter::new(File::create(path)?);
        write(&mut output)?;
        return output.flush();
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".cudasnoop-").suffix(".html");
    let file =
        with_usual_permissions(&mut builder).tempfile_in(folder.unwrap_or(Path::new(".")))?;
    let mut output = BufWriter::new(file);
    write(&mut output)?;
    let file = output
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    file.persist(path)?;
    Ok(())
}

/// Those of any file that a program makes: temporary ones are their owner's alone.
#[cfg(unix)]
fn with_usual_permissions<'a, 'b, 'c>(
    builder: &'a mut tempfile::Builder<'b, 'c>,
) -> &'a mut tempfile::Builder<'b, 'c> {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    builder.permissions(Permissions::from_mode(0o666))
}

#[cfg(not(unix))]
fn with_usual_permissions<'a, 'b, 'c>(
    builder: &'a mut tempfile::Builder<'b, 'c>,
) -> &'a mut tempfile::Builder<'b, 'c> {
    builder
}
