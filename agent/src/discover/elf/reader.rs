//! Bounded reads from a file that may say anything.

use std::{fs::File, io, os::unix::fs::FileExt};

use object::pod::{self, Pod};

/// Why a file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// Mapped data, not code.
    #[error("not an ELF file")]
    NotElf,
    /// 32-bit or big-endian.
    #[error("not a 64-bit little-endian ELF file: there is no such CUDA library")]
    Class,
    /// For another processor.
    #[error("built for ELF machine {0}: probes are placed on x86-64 (62) only")]
    Machine(u16),
    /// The file ends before what it announces.
    #[error("damaged: {what} at byte {offset} reaches beyond the end of the file")]
    Truncated {
        /// What was read.
        what: &'static str,
        /// Where.
        offset: u64,
    },
    /// A size or a chain that no linker makes.
    #[error("damaged or hostile: {0}")]
    Damaged(&'static str),
    /// The file system failed.
    #[error("cannot read {what} at byte {offset}: {source}")]
    Read {
        /// What was read.
        what: &'static str,
        /// Where.
        offset: u64,
        /// Why.
        source: io::Error,
    },
}

/// A file of known length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'file> {
    file: &'file File,
    length: u64,
}

impl<'file> Reader<'file> {
    pub(crate) const fn new(file: &'file File, length: u64) -> Self {
        Self { file, length }
    }

    /// Fills `buffer`.
    pub(crate) fn fill(
        &self,
        what: &'static str,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(), ElfError> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.length) {
            return Err(ElfError::Truncated { what, offset });
        }
        self.file
            .read_exact_at(buffer, offset)
            .map_err(|source| match source.kind() {
                io::ErrorKind::UnexpectedEof => ElfError::Truncated { what, offset },
                _ => ElfError::Read {
                    what,
                    offset,
                    source,
                },
            })
    }

    /// `size` bytes, for which the caller has a bound.
    pub(crate) fn bytes(
        &self,
        what: &'static str,
        offset: u64,
        size: usize,
    ) -> Result<Vec<u8>, ElfError> {
        let mut bytes = vec![0; size];
        self.fill(what, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// One structure, of at most 64 bytes: none of ELF's is larger.
    pub(crate) fn structure<T: Pod>(&self, what: &'static str, offset: u64) -> Result<T, ElfError> {
        let mut buffer = [0; 64];
        let bytes = buffer
            .get_mut(..size_of::<T>())
            .ok_or(ElfError::Damaged(what))?;
        self.fill(what, offset, bytes)?;
        pod::from_bytes(bytes)
            .map(|(value, _)| *value)
            .map_err(|()| ElfError::Damaged(what))
    }

    /// `count` structures in a row, for which the caller has a bound.
    pub(crate) fn structures<T: Pod>(
        &self,
        what: &'static str,
        offset: u64,
        count: usize,
    ) -> Result<Vec<T>, ElfError> {
        let bytes = self.bytes(what, offset, count * size_of::<T>())?;
        pod::slice_from_all_bytes(&bytes)
            .map(<[T]>::to_vec)
            .map_err(|()| ElfError::Damaged(what))
    }

    /// The NUL-terminated text at `offset`, without the NUL; `None` where it is longer than
    /// `limit` bytes or does not end inside the file.
    pub(crate) fn text(
        &self,
        what: &'static str,
        offset: u64,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, ElfError> {
        const STEP: usize = 512;
        let mut text = Vec::new();
        while text.len() <= limit {
            let at = offset.saturating_add(text.len() as u64);
            let left = self.length.saturating_sub(at);
            let step = usize::try_from(left).unwrap_or(STEP).min(STEP);
            if step == 0 {
                return Ok(None);
            }
            let read = self.bytes(what, at, step)?;
            if let Some(end) = read.iter().position(|byte| *byte == 0) {
                text.extend_from_slice(&read[..end]);
                return Ok((text.len() <= limit).then_some(text));
            }
            text.extend_from_slice(&read);
        }
        Ok(None)
    }

    /// Whether the NUL-terminated text at `offset` is `name`. At the end of the file it is not.
    pub(crate) fn is_text(
        &self,
        what: &'static str,
        offset: u64,
        name: &[u8],
    ) -> Result<bool, ElfError> {
        let size = name.len() + 1;
        if offset
            .checked_add(size as u64)
            .is_none_or(|end| end > self.length)
        {
            return Ok(false);
        }
        Ok(self.bytes(what, offset, size)?.strip_suffix(b"\0") == Some(name))
    }
}
