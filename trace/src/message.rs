//! Arrow's message frames, read from input that may be torn, damaged or hostile.
//!
//! What a message claims about its size is believed only as far as the input holds the bytes,
//! and never beyond [`METADATA_LIMIT`] and [`BODY_LIMIT`].

use std::fmt;
use std::io::{self, Read, Write};

use arrow_buffer::Buffer;
use arrow_ipc::convert::MessageBuffer;

/// Most bytes of a message's metadata; a recording's have some 4 KiB.
const METADATA_LIMIT: usize = 1 << 20;

/// Most bytes of a message's body, as written and as decompressed.
pub(crate) const BODY_LIMIT: usize = 256 << 20;

/// What each message begins with, before the length of its metadata.
const MARKER: [u8; 4] = [0xff; 4];

/// What a stream ends with: a message without metadata.
pub(crate) const END_MARKER: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// How a recording ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With Arrow's end marker.
    Complete,
    /// Without one. All batches before were read.
    Truncated {
        /// Bytes of the input that were read: whole messages.
        whole: u64,
        /// What follows them.
        cause: Cause,
    },
}

/// Why a recording has no more whole batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing follows: the recorder was killed, or is still at work.
    NoEndMarker,
    /// A message follows in part: the recorder was killed while it wrote.
    Torn,
    /// Something else follows; what is wrong with it.
    Damaged(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, cause) = match self {
            Self::Complete => return f.write_str("complete"),
            Self::Truncated { whole, cause } => (whole, cause),
        };
        write!(f, "truncated at byte {whole}: ")?;
        match cause {
            Cause::NoEndMarker => f.write_str("the end marker is missing"),
            Cause::Torn => f.write_str("the last batch was not written whole"),
            Cause::Damaged(what) => write!(f, "damaged ({what})"),
        }
    }
}

/// A whole message.
#[derive(Debug)]
pub(crate) struct Message {
    metadata: Buffer,
    /// The same, verified.
    pub(crate) verified: MessageBuffer,
    pub(crate) body: Buffer,
}

impl Message {
    /// Bytes in the stream.
    pub(crate) fn len(&self) -> u64 {
        (END_MARKER.len() + self.metadata.len() + self.body.len()) as u64
    }

    /// Writes it as it was read.
    pub(crate) fn write_to(&self, output: &mut impl Write) -> io::Result<()> {
        let length = u32::try_from(self.metadata.len()).map_err(io::Error::other)?;
        output.write_all(&MARKER)?;
        output.write_all(&length.to_le_bytes())?;
        output.write_all(&self.metadata)?;
        output.write_all(&self.body)
    }
}

/// What comes next in a stream.
pub(crate) enum Next {
    Message(Message),
    /// No whole message; the cause, or `None` for the end marker.
    End(Option<Cause>),
}

/// Reads messages one after the other.
#[derive(Debug)]
pub(crate) struct Messages<R> {
    input: R,
    /// Bytes taken from the input.
    pub(crate) taken: u64,
}

impl<R: Read> Messages<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, taken: 0 }
    }

    pub(crate) fn next(&mut self) -> io::Result<Next> {
        let prefix = self.take(END_MARKER.len())?;
        if prefix.is_empty() {
            return Ok(Next::End(Some(Cause::NoEndMarker)));
        }
        if prefix == END_MARKER {
            return Ok(Next::End(None));
        }
        let known = prefix.len().min(MARKER.len());
        if prefix[..known] != MARKER[..known] {
            return Ok(damaged("no Arrow message begins here"));
        }
        let Some(length) = prefix
            .get(MARKER.len()..)
            .and_then(|length| length.try_into().ok())
        else {
            return Ok(Next::End(Some(Cause::Torn)));
        };
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > METADATA_LIMIT {
            return Ok(damaged(&format!(
                "a message claims {length} bytes of metadata"
            )));
        }
        let metadata = Buffer::from_vec(self.take(length)?);
        if metadata.len() < length {
            return Ok(Next::End(Some(Cause::Torn)));
        }
        let verified = match MessageBuffer::try_new(metadata.clone()) {
            Ok(verified) => verified,
            Err(error) => return Ok(damaged(&error.to_string())),
        };
        let length = verified.as_ref().bodyLength();
        let Some(length) = usize::try_from(length)
            .ok()
            .filter(|length| *length <= BODY_LIMIT)
        else {
            return Ok(damaged(&format!(
                "a message claims a body of {length} bytes"
            )));
        };
        let body = Buffer::from_vec(self.take(length)?);
        if body.len() < length {
            return Ok(Next::End(Some(Cause::Torn)));
        }
        Ok(Next::Message(Message {
            metadata,
            verified,
            body,
        }))
    }

    /// Reads to the end of the input, and returns how many bytes that were.
    pub(crate) fn drain(&mut self) -> io::Result<u64> {
        let rest = io::copy(&mut self.input, &mut io::sink())?;
        self.taken += rest;
        Ok(rest)
    }

    /// The next `length` bytes, fewer at the end of the input. Memory grows with what comes.
    fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length.min(1 << 20));
        (&mut self.input)
            .take(length as u64)
            .read_to_end(&mut bytes)?;
        self.taken += bytes.len() as u64;
        Ok(bytes)
    }
}

fn damaged(what: &str) -> Next {
    Next::End(Some(Cause::Damaged(what.to_owned())))
}
