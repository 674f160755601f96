//! The bytes of a pickle, with their offsets.

use std::io::{self, Read};

use super::error::PickleError;

/// Bytes read at a time.
const BUFFER: usize = 256 << 10;
/// The longest string that is taken over: a stack frame's names are far shorter.
pub(super) const LONGEST: usize = 1 << 20;

/// A reader that knows where it is.
pub(super) struct Source<R> {
    reader: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of `buffer[0]` in the file.
    base: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            base: 0,
        }
    }

    /// Bytes taken so far.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, PickleError> {
        if self.start == self.end {
            self.refill(1)?;
        }
        let byte = self.buffer[self.start];
        self.start += 1;
        Ok(byte)
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    /// The next `count` bytes, at most [`LONGEST`].
    #[inline]
    pub(super) fn bytes(&mut self, count: usize) -> Result<&[u8], PickleError> {
        if self.end - self.start < count {
            self.refill(count)?;
        }
        let start = self.start;
        self.start += count;
        Ok(&self.buffer[start..start + count])
    }

    /// Passes over `count` bytes.
    pub(super) fn skip(&mut self, mut count: u64) -> Result<(), PickleError> {
        while count > 0 {
            if self.start == self.end {
                self.refill(1)?;
            }
            let step = usize::try_from(count).map_or(self.end - self.start, |count| {
                count.min(self.end - self.start)
            });
            self.start += step;
            count -= step as u64;
        }
        Ok(())
    }

    #[cold]
    fn refill(&mut self, count: usize) -> Result<(), PickleError> {
        let offset = self.offset();
        if count > LONGEST {
            return Err(PickleError::TooLarge {
                offset,
                what: "a string",
            });
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.base = offset;
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < count {
            self.buffer.resize(count, 0);
        }
        while self.end < count {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Err(PickleError::Truncated { offset }),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(PickleError::Io { offset, source }),
            }
        }
        Ok(())
    }
}
