//! The symbol tables that only debuggers need: `.symtab`, found by section headers.

use object::{
    elf::{self, SectionHeader64, Sym64},
    endian::LittleEndian as LE,
    pod,
};

use super::{Elf, ElfError};

const SECTION_SIZE: u64 = size_of::<SectionHeader64<LE>>() as u64;
const SYMBOL_SIZE: usize = size_of::<Sym64<LE>>();
/// Symbols of a table that are read; `libtorch_cuda.so` has 0.2 million.
const COUNT_LIMIT: u64 = 16_000_000;
/// Exported symbols that are named; libcuda has some 700, `libtorch_cuda.so` 40,000.
const EXPORTS_LIMIT: u64 = 100_000;
/// Longest exported name that is read, bytes.
const NAME_LIMIT: usize = 4096;
/// Symbols that are read at a time.
const STEP: usize = 4096;

/// Where a symbol table and its names are in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SymbolTable {
    offset: u64,
    /// Number of symbols.
    pub(crate) count: u64,
    /// File offset of the names.
    pub(crate) names: u64,
}

impl Elf<'_> {
    /// The full symbol table, else the exported symbols, else `None`.
    pub(crate) fn symbol_table(&self) -> Result<Option<SymbolTable>, ElfError> {
        let mut exported = None;
        for index in 0..u64::from(self.header.e_shnum.get(LE)) {
            let section = self.section(index)?;
            let kind = section.sh_type.get(LE);
            if kind != elf::SHT_SYMTAB && kind != elf::SHT_DYNSYM {
                continue;
            }
            let names = self.section(u64::from(section.sh_link.get(LE)))?;
            let table = Some(SymbolTable {
                offset: section.sh_offset.get(LE),
                count: section.sh_size.get(LE) / SYMBOL_SIZE as u64,
                names: names.sh_offset.get(LE),
            });
            if kind == elf::SHT_SYMTAB {
                return Ok(table);
            }
            exported = table;
        }
        Ok(exported)
    }

    /// The names of the functions that the file exports, in the order of its table; `None` where
    /// it has no section headers to find that by. At most 100,000.
    pub fn exported_functions(&self) -> Result<Option<Vec<String>>, ElfError> {
        for index in 0..u64::from(self.header.e_shnum.get(LE)) {
            let section = self.section(index)?;
            if section.sh_type.get(LE) != elf::SHT_DYNSYM {
                continue;
            }
            let names = self.section(u64::from(section.sh_link.get(LE)))?;
            let names = names.sh_offset.get(LE);
            let table = SymbolTable {
                offset: section.sh_offset.get(LE),
                count: (section.sh_size.get(LE) / SYMBOL_SIZE as u64).min(EXPORTS_LIMIT),
                names,
            };
            let mut found = Vec::new();
            self.functions(&table, |_, name| {
                let at = names.saturating_add(u64::from(name));
                let name = self.reader.text("a symbol's name", at, NAME_LIMIT)?;
                found.extend(name.and_then(|name| String::from_utf8(name).ok()));
                Ok(())
            })?;
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// Whether it has a section of this name; not known, and so not, without section headers.
    pub fn has_section(&self, name: &str) -> Result<bool, ElfError> {
        const WHAT: &str = "a section's name";
        let count = u64::from(self.header.e_shnum.get(LE));
        if count == 0 {
            return Ok(false);
        }
        let names = self.section(u64::from(self.header.e_shstrndx.get(LE).0))?;
        for index in 0..count {
            let section = self.section(index)?;
            let at = names
                .sh_offset
                .get(LE)
                .saturating_add(u64::from(section.sh_name.get(LE)));
            if self.reader.is_text(WHAT, at, name.as_bytes())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn section(&self, index: u64) -> Result<SectionHeader64<LE>, ElfError> {
        let at = self
            .header
            .e_shoff
            .get(LE)
            .saturating_add(index * SECTION_SIZE);
        self.reader.structure("a section header", at)
    }

    /// Calls `each` with the address and the offset of the name of every function that is
    /// defined in `table`, in the order of the table.
    pub(crate) fn functions(
        &self,
        table: &SymbolTable,
        mut each: impl FnMut(u64, u32) -> Result<(), ElfError>,
    ) -> Result<(), ElfError> {
        if table.count > COUNT_LIMIT {
            return Err(ElfError::Damaged(
                "a symbol table of more than 16 million symbols",
            ));
        }
        let mut buffer = vec![0; STEP * SYMBOL_SIZE];
        let mut done = 0;
        while done < table.count {
            let step = usize::try_from(table.count - done)
                .unwrap_or(STEP)
                .min(STEP);
            let buffer = &mut buffer[..step * SYMBOL_SIZE];
            let at = table.offset.saturating_add(done * SYMBOL_SIZE as u64);
            self.reader.fill("the symbol table", at, buffer)?;
            let symbols = pod::slice_from_all_bytes::<Sym64<LE>>(buffer);
            for symbol in symbols.map_err(|()| ElfError::Damaged("the symbol table"))? {
                let address = symbol.st_value.get(LE);
                let defined = symbol.st_shndx.get(LE) != elf::SHN_UNDEF && address != 0;
                if defined && symbol.st_type() == elf::STT_FUNC {
                    each(address, symbol.st_name.get(LE))?;
                }
            }
            done += step as u64;
        }
        Ok(())
    }
}
