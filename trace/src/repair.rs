//! Making a truncated recording one that every Arrow tool reads.

use std::io::{self, Read, Write};

use crate::message::END_MARKER;
use crate::{End, ReadError, Reader};

/// What [`repair`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// How the input ended.
    pub end: End,
    /// Batches kept.
    pub batches: u64,
    /// Rows kept.
    pub rows: u64,
    /// Bytes of the input that were kept.
    pub kept: u64,
    /// Bytes of the input that were cut: all that follows the last whole batch.
    pub cut: u64,
}

/// Why a recording could not be repaired.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// The input cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output refused the bytes.
    #[error("cannot write the repaired recording: {0}")]
    Write(#[source] io::Error),
}

/// Copies the header and all whole batches of `input` to `output`, byte for byte, and ends
/// the stream as Arrow wants it. A complete recording comes out as it is.
pub fn repair(input: impl Read, mut output: impl Write) -> Result<Repaired, RepairError> {
    let mut reader = Reader::new(input)?;
    reader
        .header()
        .write_to(&mut output)
        .map_err(RepairError::Write)?;
    let mut batches = 0;
    let mut rows = 0;
    while let Some((message, batch)) = reader.next_message()? {
        message.write_to(&mut output).map_err(RepairError::Write)?;
        batches += u64::from(batch.is_some());
        rows += batch.map_or(0, |batch| batch.len() as u64);
    }
    output
        .write_all(&END_MARKER)
        .and_then(|()| output.flush())
        .map_err(RepairError::Write)?;
    let cut = reader.bytes_beyond_the_end()?;
    let kept = reader.whole();
    let end = reader
        .end()
        .cloned()
        .expect("no message means the end is known");
    Ok(Repaired {
        end,
        batches,
        rows,
        kept,
        cut,
    })
}
