//! Looking up what a file exports, as the dynamic linker does: by hash, in `.dynsym`.
//!
//! The symbol names there are plain: versions (`@@libcudart.so.12`) are in another table and
//! are not looked at. A file with neither kind of hash table exports nothing that a dynamic
//! linker could find.

use object::{
    elf::{self, Dyn64, GnuHashHeader, HashHeader, Sym64},
    endian::{LittleEndian as LE, U32, U64},
};

use super::{Elf, ElfError, Reader, Segment};

/// Entries of a dynamic table that are read; a large library has 60.
const DYNAMIC_LIMIT: usize = 4096;
/// Symbols of one hash bucket that are looked at. Linkers aim at a handful; the classic table
/// of a file with 2 million symbols has some 100.
const CHAIN_LIMIT: u32 = 4096;
/// Bytes of a function that are kept for a look at its first instructions.
const CODE_LIMIT: u64 = 64;
const SYMBOL_SIZE: u64 = size_of::<Sym64<LE>>() as u64;

/// An exported function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its virtual address, before relocation.
    pub address: u64,
    /// Where its code is in the file: what a probe is attached by.
    pub file_offset: u64,
    /// Bytes of its executable segment before it.
    pub text_before: u64,
    /// Bytes of its executable segment from it on.
    pub text_after: u64,
    /// Its code, up to 64 bytes.
    pub first_bytes: Vec<u8>,
    /// Whether the symbol is that of a resolver which chooses the function at load time
    /// (`STT_GNU_IFUNC`): a probe there would not see the calls.
    pub indirect: bool,
}

/// What the dynamic table says, as file offsets.
#[derive(Debug)]
pub(super) struct Dynamic {
    symbols: u64,
    names: u64,
    soname: Option<u64>,
    hash: Option<Hash>,
}

#[derive(Debug)]
enum Hash {
    Gnu {
        symbol_base: u32,
        bloom_count: u32,
        bloom_shift: u32,
        bloom: u64,
        bucket_count: u32,
    },
    SystemV {
        bucket_count: u32,
        chain_count: u32,
        buckets: u64,
    },
}

impl Dynamic {
    /// `None` for a table that names no symbols.
    pub(super) fn read(
        reader: &Reader<'_>,
        segments: &[Segment],
        offset: u64,
        size: u64,
    ) -> Result<Option<Self>, ElfError> {
        let mut address = [None; 5];
        let [symbols, names, soname, gnu, system_v] = &mut address;
        let count = usize::try_from(size / 16)
            .unwrap_or(DYNAMIC_LIMIT)
            .min(DYNAMIC_LIMIT);
        let table: Vec<Dyn64<LE>> = reader.structures("the dynamic table", offset, count)?;
        for entry in table {
            let value = Some(entry.d_val.get(LE));
            match entry.d_tag.get(LE) {
                elf::DT_NULL => break,
                elf::DT_SYMTAB => *symbols = value,
                elf::DT_STRTAB => *names = value,
                elf::DT_SONAME => *soname = value,
                elf::DT_GNU_HASH => *gnu = value,
                elf::DT_HASH => *system_v = value,
                _ => {}
            }
        }
        let place = |address: Option<u64>| {
            segments
                .iter()
                .find_map(|segment| segment.offset_of(address?))
        };
        let (Some(symbols), Some(names)) = (place(*symbols), place(*names)) else {
            return Ok(None);
        };
        let hash = match (place(*gnu), place(*system_v)) {
            (Some(at), _) => Some(Hash::read_gnu(reader, at)?),
            (None, Some(at)) => Some(Hash::read_system_v(reader, at)?),
            (None, None) => None,
        };
        let soname = soname.and_then(|soname| names.checked_add(soname));
        Ok(Some(Self {
            symbols,
            names,
            soname,
            hash,
        }))
    }

    pub(super) const fn soname(&self) -> Option<u64> {
        self.soname
    }
}

impl Hash {
    fn read_gnu(reader: &Reader<'_>, at: u64) -> Result<Self, ElfError> {
        let header: GnuHashHeader<LE> = reader.structure("the GNU hash table", at)?;
        Ok(Self::Gnu {
            symbol_base: header.symbol_base.get(LE),
            bloom_count: header.bloom_count.get(LE),
            bloom_shift: header.bloom_shift.get(LE),
            bloom: at.saturating_add(size_of_val(&header) as u64),
            bucket_count: header.bucket_count.get(LE),
        })
    }

    fn read_system_v(reader: &Reader<'_>, at: u64) -> Result<Self, ElfError> {
        let header: HashHeader<LE> = reader.structure("the hash table", at)?;
        Ok(Self::SystemV {
            bucket_count: header.bucket_count.get(LE),
            chain_count: header.chain_count.get(LE),
            buckets: at.saturating_add(size_of_val(&header) as u64),
        })
    }
}

impl Elf<'_> {
    /// The function that this file exports as `name`; `None` where it exports none, imports
    /// it, or gives the name to something else.
    pub fn function(&self, name: &str) -> Result<Option<Symbol>, ElfError> {
        let is_code =
            |symbol: &Sym64<LE>| matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC);
        let Some(symbol) = self.find(name, is_code)? else {
            return Ok(None);
        };
        let address = symbol.st_value.get(LE);
        let place = |segment: &Segment| Some((*segment, segment.offset_of(address)?));
        let Some((segment, file_offset)) = self.text().find_map(place) else {
            return Err(ElfError::Damaged(
                "a function lies outside the executable segments",
            ));
        };
        let text_before = address - segment.address;
        Ok(Some(Symbol {
            address,
            file_offset,
            text_before,
            text_after: segment.size - text_before,
            first_bytes: self.code(&segment, file_offset, CODE_LIMIT)?,
            indirect: symbol.st_type() == elf::STT_GNU_IFUNC,
        }))
    }

    /// The virtual address, before relocation, of the variable that this file exports as `name`.
    pub fn variable(&self, name: &str) -> Result<Option<u64>, ElfError> {
        let is_data = |symbol: &Sym64<LE>| symbol.st_type() == elf::STT_OBJECT;
        Ok(self
            .find(name, is_data)?
            .map(|symbol| symbol.st_value.get(LE)))
    }

    /// The first symbol of this name that is defined here and `wanted`.
    fn find(
        &self,
        name: &str,
        wanted: impl Fn(&Sym64<LE>) -> bool,
    ) -> Result<Option<Sym64<LE>>, ElfError> {
        let Some(dynamic) = &self.dynamic else {
            return Ok(None);
        };
        let matches = |index: u32| -> Result<Option<Sym64<LE>>, ElfError> {
            let at = dynamic
                .symbols
                .saturating_add(u64::from(index) * SYMBOL_SIZE);
            let symbol: Sym64<LE> = self.reader.structure("a symbol", at)?;
            let defined = symbol.st_shndx.get(LE) != elf::SHN_UNDEF && symbol.st_value.get(LE) != 0;
            if !defined || !wanted(&symbol) {
                return Ok(None);
            }
            let at = dynamic
                .names
                .saturating_add(u64::from(symbol.st_name.get(LE)));
            let same = self
                .reader
                .is_text("a symbol's name", at, name.as_bytes())?;
            Ok(same.then_some(symbol))
        };
        match dynamic.hash {
            None => Ok(None),
            Some(Hash::Gnu {
                symbol_base,
                bloom_count,
                bloom_shift,
                bloom,
                bucket_count,
            }) => {
                let hash = elf::gnu_hash(name.as_bytes());
                if bloom_count == 0 || bucket_count == 0 {
                    return Ok(None);
                }
                // Most files lack most names: one read tells.
                let word = u64::from((hash / 64) & (bloom_count - 1));
                let word = self
                    .number::<U64<LE>>(bloom.saturating_add(word * 8))?
                    .get(LE);
                let second = hash.checked_shr(bloom_shift).unwrap_or_default();
                if word >> (hash % 64) & word >> (second % 64) & 1 == 0 {
                    return Ok(None);
                }
                let buckets = bloom.saturating_add(u64::from(bloom_count) * 8);
                let chains = buckets.saturating_add(u64::from(bucket_count) * 4);
                let bucket = buckets.saturating_add(u64::from(hash % bucket_count) * 4);
                let first = self.number::<U32<LE>>(bucket)?.get(LE);
                let Some(start) = first.checked_sub(symbol_base) else {
                    return Ok(None);
                };
                for step in 0..CHAIN_LIMIT {
                    let at = chains.saturating_add((u64::from(start) + u64::from(step)) * 4);
                    let value = self.number::<U32<LE>>(at)?.get(LE);
                    if value | 1 == hash | 1
                        && let Some(index) = first.checked_add(step)
                        && let Some(symbol) = matches(index)?
                    {
                        return Ok(Some(symbol));
                    }
                    if value & 1 != 0 {
                        return Ok(None);
                    }
                }
                Err(ElfError::Damaged("a hash chain without end"))
            }
            Some(Hash::SystemV {
                bucket_count,
                chain_count,
                buckets,
            }) => {
                if bucket_count == 0 {
                    return Ok(None);
                }
                let hash = elf::hash(name.as_bytes());
                let chains = buckets.saturating_add(u64::from(bucket_count) * 4);
                let bucket = buckets.saturating_add(u64::from(hash % bucket_count) * 4);
                let mut index = self.number::<U32<LE>>(bucket)?.get(LE);
                for _ in 0..chain_count.min(CHAIN_LIMIT) {
                    if index == 0 {
                        return Ok(None);
                    }
                    if let Some(symbol) = matches(index)? {
                        return Ok(Some(symbol));
                    }
                    let next = chains.saturating_add(u64::from(index) * 4);
                    index = self.number::<U32<LE>>(next)?.get(LE);
                }
                Err(ElfError::Damaged("a hash chain without end"))
            }
        }
    }

    fn number<T: object::pod::Pod>(&self, at: u64) -> Result<T, ElfError> {
        self.reader.structure("the hash table", at)
    }
}
