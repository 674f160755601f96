//! One recording: a file, or segments that follow each other.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::Path;

use trace::{End, EventBatch, Reader, SegmentName};

use super::{Cut, Input};
use crate::Error;

/// Reads one recording from its first row to its last, file by file.
pub(crate) struct Chain {
    /// As a person named it.
    name: String,
    /// Files that are not opened yet.
    files: VecDeque<Input>,
    /// Whether the files are the segments of a rolling recording, which may go and be renamed
    /// while they are read.
    is_rolling: bool,
    /// Whether the last of them is being written.
    is_live: bool,
    columns: &'static [&'static str],
    reader: Option<(String, Reader<Box<dyn Read + Send>>)>,
    cut: Vec<Cut>,
    notes: Vec<String>,
}

impl Chain {
    /// Of nothing.
    pub(super) fn empty(columns: &'static [&'static str]) -> Self {
        Self {
            name: String::new(),
            files: VecDeque::new(),
            is_rolling: false,
            is_live: false,
            columns,
            reader: None,
            cut: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Of one file.
    pub(super) fn file(input: Input, columns: &'static [&'static str]) -> Self {
        Self {
            name: input.to_string(),
            files: VecDeque::from([input]),
            ..Self::empty(columns)
        }
    }

    /// Of segments, in order.
    pub(super) fn segments(
        name: String,
        segments: impl Iterator<Item = Input>,
        notes: Vec<String>,
        is_live: bool,
        columns: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            is_live,
            files: segments.collect(),
            is_rolling: true,
            notes,
            ..Self::empty(columns)
        }
    }

    /// As a person named it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The next batch; `None` at the end.
    pub(super) fn next_batch(&mut self) -> Result<Option<EventBatch>, Error> {
        loop {
            if let Some((input, reader)) = &mut self.reader {
                match reader.next() {
                    Some(Ok(batch)) => return Ok(Some(batch)),
                    Some(Err(source)) => {
                        let input = input.clone();
                        return Err(Error::Read { input, source });
                    }
                    None => {}
                }
                let is_being_written = self.is_live && self.files.is_empty();
                if let Some(end @ End::Truncated { .. }) = reader.end()
                    && !is_being_written
                {
                    let (input, end) = (input.clone(), end.clone());
                    self.cut.push(Cut { input, end });
                }
                self.reader = None;
            }
            let Some(input) = self.files.pop_front() else {
                return Ok(None);
            };
            self.begin(&input)?;
        }
    }

    /// What was cut, what else there is to tell, and whether it goes on.
    pub(super) fn ended(self) -> (Vec<Cut>, Vec<String>, bool) {
        (self.cut, self.notes, self.is_live)
    }

    fn begin(&mut self, input: &Input) -> Result<(), Error> {
        let name = input.to_string();
        let file = match input.open() {
            Err(Error::Open { path, source })
                if self.is_rolling && source.kind() == io::ErrorKind::NotFound =>
            {
                let Some(file) = closed(&path) else {
                    self.notes.push(format!("{name} was removed meanwhile"));
                    return Ok(());
                };
                Box::new(file)
            }
            opened => opened?,
        };
        match Reader::new(file) {
            Ok(reader) => self.reader = Some((name, reader.select(self.columns))),
            // The recorder died before it had written how the segment begins.
            Err(trace::ReadError::NotARecording(_)) if self.is_live && self.files.is_empty() => {}
            Err(trace::ReadError::NotARecording(what)) if self.is_rolling => {
                self.notes.push(format!("{name} holds nothing: {what}"));
            }
            Err(source) => {
                let input = name;
                return Err(Error::Read { input, source });
            }
        }
        Ok(())
    }
}

/// The segment of which `path` was the name while it was written.
fn closed(path: &Path) -> Option<std::fs::File> {
    let name = SegmentName::parse(path.file_name()?.to_str()?)?;
    std::fs::File::open(path.with_file_name(name.closed().to_string())).ok()
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Chain")
            .field("name", &self.name)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}
