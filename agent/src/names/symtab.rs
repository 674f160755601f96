//! The functions of one file by address, with their names left in the file.

use crate::discover::{
    TargetFile,
    elf::{Elf, ElfError, Reader, Segment},
};

use super::{FUNCTIONS_LIMIT, stub};

/// Longest name that is read, bytes. The longest kernel name of torch 2.14 has 2,301.
const NAME_LIMIT: usize = 64 * 1024;
/// Names for one address that are looked at.
const ALIASES_LIMIT: usize = 16;

/// Where each function of a file begins. Holds the file open, and 8 bytes a function: names
/// are read when asked for, for those of `libtorch_cuda.so` have 72 MB.
#[derive(Debug)]
pub(super) struct SymbolIndex {
    file: TargetFile,
    text: Vec<Segment>,
    /// Lowest address of `text`.
    base: u64,
    /// File offset of the names.
    names: u64,
    /// In order: distance from `base` in the upper half, offset of the name in the lower.
    functions: Vec<u64>,
}

impl SymbolIndex {
    /// Indexes `file`; `None` for a file without symbols.
    pub(super) fn read(file: TargetFile) -> Result<Option<Self>, ElfError> {
        let elf = Elf::open(&file)?;
        let text: Vec<Segment> = elf.text().copied().collect();
        let Some(base) = text.iter().map(|segment| segment.address).min() else {
            return Ok(None);
        };
        let Some(table) = elf.symbol_table()? else {
            return Ok(None);
        };
        let expected = usize::try_from(table.count).unwrap_or(FUNCTIONS_LIMIT);
        let mut functions = Vec::with_capacity(expected.min(FUNCTIONS_LIMIT));
        elf.functions(&table, |address, name| {
            if functions.len() == FUNCTIONS_LIMIT {
                return Err(ElfError::Damaged("more than 4 million functions"));
            }
            // Code more than 4 GiB away from the first is not reached by calls either.
            let distance = address
                .checked_sub(base)
                .and_then(|far| u32::try_from(far).ok());
            functions.extend(distance.map(|distance| entry(distance) | u64::from(name)));
            Ok(())
        })?;
        functions.shrink_to_fit();
        functions.sort_unstable();
        Ok(Some(Self {
            text,
            base,
            names: table.names,
            functions,
            file,
        }))
    }

    /// Number of functions.
    pub(super) fn len(&self) -> usize {
        self.functions.len()
    }

    /// The name of the function that begins at file offset `offset`. Of several names, one
    /// that is not a device stub's.
    pub(super) fn name_at(&self, offset: u64) -> Option<String> {
        let address = self
            .text
            .iter()
            .find_map(|segment| segment.address_of(offset))?;
        let distance = u32::try_from(address.checked_sub(self.base)?).ok()?;
        let first = self
            .functions
            .partition_point(|function| *function < entry(distance));
        let same = self.functions[first..]
            .iter()
            .take_while(|function| **function >> 32 == u64::from(distance))
            .take(ALIASES_LIMIT);
        let mut found = None;
        for function in same {
            let name = self.text_at(function & u64::from(u32::MAX));
            let is_stub = name.as_deref().is_some_and(stub::is_device_stub);
            if name.is_some() && !is_stub {
                return name;
            }
            found = found.or(name);
        }
        found
    }

    fn text_at(&self, name: u64) -> Option<String> {
        let reader = Reader::new(self.file.file(), self.file.identity().size);
        let at = self.names.saturating_add(name);
        let text = reader.text("a symbol's name", at, NAME_LIMIT).ok()??;
        String::from_utf8(text).ok().filter(|name| !name.is_empty())
    }
}

const fn entry(distance: u32) -> u64 {
    (distance as u64) << 32
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command, sync::LazyLock};

    use proptest::prelude::*;

    use super::*;

    /// A small ELF file with a symbol table.
    static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let folder = tempfile::tempdir().expect("temporary folder");
        let (source, output) = (folder.path().join("a.c"), folder.path().join("a.so"));
        fs::write(
            &source,
            "int one(void) { return 1; } int two(void) { return 2; }",
        )
        .expect("writes");
        let status = Command::new("cc")
            .args(["-shared", "-nostdlib", "-o"])
            .args([&output, &source])
            .status();
        assert!(status.expect("cc runs").success());
        fs::read(output).expect("reads")
    });

    fn index(bytes: &[u8]) -> Result<Option<SymbolIndex>, ElfError> {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("file");
        fs::write(&path, bytes).expect("writes");
        SymbolIndex::read(TargetFile::open(&path).expect("opens"))
    }

    #[test]
    fn a_good_file_has_its_functions() {
        let index = index(&GOOD).expect("readable").expect("has symbols");
        assert_eq!(index.len(), 2);
    }

    proptest! {
        #[test]
        fn a_damaged_symbol_table_never_panics(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..64),
            offset in 0_u64..8192,
        ) {
            let mut bytes = GOOD.clone();
            for (index, value) in changes {
                let at = index.index(bytes.len());
                bytes[at] = value;
            }
            if let Ok(Some(index)) = index(&bytes) {
                index.name_at(offset);
                for function in index.functions.iter().take(64) {
                    index.text_at(*function & u64::from(u32::MAX));
                }
            }
        }
    }
}
