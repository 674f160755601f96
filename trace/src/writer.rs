//! The second half of writing: batches in, bytes out.

use std::fmt;
use std::io::{self, Write};

use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::ArrowError;

use crate::schema::schema;
use crate::{Batch, BatchBuilder, Event};

/// The zstd level. Level 3 takes 15 % more CPU time and saves nothing
/// (`cargo run --release -p trace --example throughput`).
const ZSTD_LEVEL: i32 = 1;

/// Why a recording could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The output refused the bytes.
    #[error(
        "cannot write to the recording after byte {written}: {source}; \
         what is written up to there stays readable"
    )]
    Io {
        /// Bytes of whole messages that it had taken before.
        written: u64,
        /// What it said.
        source: io::Error,
    },
    /// An earlier batch was not written whole, so nothing may follow it.
    #[error("the recording was cut after byte {written} by an earlier error: start a new one")]
    Cut {
        /// Bytes of whole messages in the output.
        written: u64,
    },
    /// A batch could not be encoded.
    #[error("cannot encode a batch of the recording: {0}")]
    Encode(#[from] ArrowError),
}

/// Encodes, compresses and writes batches. Each is written in one piece and flushed, so that
/// the output can be read up to the last whole batch whenever this process dies.
pub struct BatchWriter<W: Write> {
    output: W,
    /// Encodes into memory.
    stream: StreamWriter<Vec<u8>>,
    written: u64,
    is_cut: bool,
}

impl<W: Write> BatchWriter<W> {
    /// Begins a recording: writes its header.
    pub fn new(output: W) -> Result<Self, WriteError> {
        let options = IpcWriteOptions::try_new(8, false, arrow_ipc::MetadataVersion::V5)?
            .try_with_compression(Some(CompressionType::ZSTD))?
            .try_with_compression_level(Some(ZSTD_LEVEL))?;
        let stream = StreamWriter::try_new_with_options(Vec::new(), &schema(), options)?;
        let mut writer = Self {
            output,
            stream,
            written: 0,
            is_cut: false,
        };
        writer.write_out()?;
        Ok(writer)
    }

    /// Writes a batch.
    pub fn write(&mut self, batch: &Batch) -> Result<(), WriteError> {
        if self.is_cut {
            return Err(WriteError::Cut {
                written: self.written,
            });
        }
        let encoded = self.stream.write(&batch.0);
        self.is_cut = encoded.is_err();
        encoded?;
        self.write_out()
    }

    /// Ends the recording with Arrow's end marker. Nothing may follow.
    pub fn end(&mut self) -> Result<(), WriteError> {
        if self.is_cut {
            return Err(WriteError::Cut {
                written: self.written,
            });
        }
        self.stream.finish()?;
        self.write_out()?;
        self.is_cut = true;
        Ok(())
    }

    /// Ends the recording and hands back the output.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.end()?;
        Ok(self.output)
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The output: what was written can be taken from one that keeps it.
    pub fn output_mut(&mut self) -> &mut W {
        &mut self.output
    }

    fn write_out(&mut self) -> Result<(), WriteError> {
        let written = self.written;
        let bytes = self.stream.get_mut();
        let result = self
            .output
            .write_all(bytes)
            .and_then(|()| self.output.flush());
        self.is_cut = result.is_err();
        result.map_err(|source| WriteError::Io { written, source })?;
        self.written += bytes.len() as u64;
        bytes.clear();
        Ok(())
    }
}

impl<W: Write> fmt::Debug for BatchWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchWriter")
            .field("written", &self.written)
            .field("is_cut", &self.is_cut)
            .finish_non_exhaustive()
    }
}

/// Writes a recording from one thread: a [`BatchBuilder`] and a [`BatchWriter`].
#[derive(Debug)]
pub struct Writer<W: Write> {
    builder: BatchBuilder,
    writer: BatchWriter<W>,
}

impl<W: Write> Writer<W> {
    /// Begins a recording: writes its header.
    pub fn new(output: W) -> Result<Self, WriteError> {
        Ok(Self {
            builder: BatchBuilder::new(),
            writer: BatchWriter::new(output)?,
        })
    }

    /// Appends an event and returns the `seq` that it got; writes when a batch is full.
    pub fn push(&mut self, event: &Event) -> Result<u64, WriteError> {
        let pushed = self.builder.push(event);
        if let Some(batch) = pushed.full {
            self.writer.write(&batch)?;
        }
        Ok(pushed.seq)
    }

    /// Writes what is not written yet.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.builder
            .flush()
            .map_or(Ok(()), |batch| self.writer.write(&batch))
    }

    /// Writes the rest and ends the recording; hands back the output.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.flush()?;
        self.writer.finish()
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.writer.written()
    }
}
