//! Reading ELF files in small pieces.
//!
//! Nothing is mapped (a file that shrinks under a mapping would kill us) and nothing is read
//! whole: a function is looked up through the dynamic linker's own hash table, a handful of
//! reads in a file of any size. For that the program headers suffice, so that files without
//! section headers work.

mod reader;
mod sections;
mod symbols;

use object::{
    elf::{self, FileHeader64, NoteHeader64, ProgramHeader64},
    endian::LittleEndian as LE,
};

pub use reader::ElfError;
pub(crate) use reader::Reader;
use symbols::Dynamic;
pub use symbols::Symbol;

use super::file::TargetFile;

/// The kernel's own bound: 64 KiB of program headers.
const SEGMENTS_LIMIT: u16 = 1170;
/// Bound for the notes of one segment, bytes.
const NOTES_LIMIT: u64 = 64 * 1024;
/// Longest build id: 64 bytes, a SHA-512.
const BUILD_ID_LIMIT: usize = 64;
/// Longest path of a dynamic linker, or soname, bytes.
const NAME_LIMIT: usize = 4096;

/// A segment that is loaded into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Whether the code in it may be executed.
    pub executable: bool,
    /// Where it is in the file.
    pub offset: u64,
    /// Its virtual address, before relocation.
    pub address: u64,
    /// Bytes of it that are in the file.
    pub size: u64,
}

impl Segment {
    /// The file offset of a virtual address; `None` outside of what is in the file.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let distance = address.checked_sub(self.address)?;
        if distance < self.size {
            self.offset.checked_add(distance)
        } else {
            None
        }
    }

    /// The virtual address of a file offset; `None` outside.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let distance = offset.checked_sub(self.offset)?;
        if distance < self.size {
            self.address.checked_add(distance)
        } else {
            None
        }
    }
}

/// An ELF file for x86-64.
#[derive(Debug)]
pub struct Elf<'file> {
    reader: Reader<'file>,
    header: FileHeader64<LE>,
    segments: Vec<Segment>,
    interpreter: Option<u64>,
    notes: Vec<(u64, u64)>,
    dynamic: Option<Dynamic>,
}

impl<'file> Elf<'file> {
    /// Reads the headers of `file`.
    pub fn open(file: &'file TargetFile) -> Result<Self, ElfError> {
        let reader = Reader::new(file.file(), file.identity().size);
        let header = file_header(&reader)?;
        let mut elf = Self {
            reader,
            header,
            segments: Vec::new(),
            interpreter: None,
            notes: Vec::new(),
            dynamic: None,
        };
        elf.read_segments()?;
        Ok(elf)
    }

    fn read_segments(&mut self) -> Result<(), ElfError> {
        let count = self.header.e_phnum.get(LE);
        if count > SEGMENTS_LIMIT {
            return Err(ElfError::Damaged(
                "more program headers than the kernel accepts",
            ));
        }
        let at = self.header.e_phoff.get(LE);
        let headers: Vec<ProgramHeader64<LE>> =
            self.reader
                .structures("the program headers", at, usize::from(count))?;
        let mut dynamic = None;
        for header in headers {
            let (offset, size) = (header.p_offset.get(LE), header.p_filesz.get(LE));
            match header.p_type.get(LE) {
                elf::PT_LOAD => self.segments.push(Segment {
                    executable: header.p_flags.get(LE).0 & elf::PF_X.0 != 0,
                    offset,
                    address: header.p_vaddr.get(LE),
                    size,
                }),
                elf::PT_INTERP => self.interpreter = Some(offset),
                elf::PT_NOTE => self.notes.push((offset, size)),
                elf::PT_DYNAMIC => dynamic = Some((offset, size)),
                _ => {}
            }
        }
        if let Some((offset, size)) = dynamic {
            self.dynamic = Dynamic::read(&self.reader, &self.segments, offset, size)?;
        }
        Ok(())
    }

    /// The executable segments.
    pub fn text(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.executable)
    }

    /// The path of the dynamic linker that an executable asks for.
    pub fn interpreter(&self) -> Result<Option<Vec<u8>>, ElfError> {
        let Some(offset) = self.interpreter else {
            return Ok(None);
        };
        self.reader
            .text("the interpreter's path", offset, NAME_LIMIT)
    }

    /// The name that a library gives itself.
    pub fn soname(&self) -> Result<Option<Vec<u8>>, ElfError> {
        let Some(offset) = self.dynamic.as_ref().and_then(Dynamic::soname) else {
            return Ok(None);
        };
        self.reader.text("the soname", offset, NAME_LIMIT)
    }

    /// The build id, in hexadecimal.
    pub fn build_id(&self) -> Result<Option<String>, ElfError> {
        const WHAT: &str = "the notes";
        for (start, size) in &self.notes {
            let mut left = (*size).min(NOTES_LIMIT);
            let mut at = *start;
            while left >= size_of::<NoteHeader64<LE>>() as u64 {
                let note: NoteHeader64<LE> = self.reader.structure(WHAT, at)?;
                let (name_size, id_size) = (note.n_namesz.get(LE), note.n_descsz.get(LE));
                let name = at + 12;
                let id = name + u64::from(name_size).next_multiple_of(4);
                let is_build_id = note.n_type.get(LE) == elf::NT_GNU_BUILD_ID
                    && name_size == 4
                    && self.reader.is_text(WHAT, name, b"GNU")?;
                if is_build_id {
                    let id_size = usize::try_from(id_size).unwrap_or(BUILD_ID_LIMIT);
                    let bytes = self.reader.bytes(WHAT, id, id_size.min(BUILD_ID_LIMIT))?;
                    return Ok(Some(hexadecimal(&bytes)));
                }
                let next = id + u64::from(id_size).next_multiple_of(4);
                left = left.saturating_sub(next - at);
                at = next;
            }
        }
        Ok(None)
    }

    /// The text at a virtual address, before relocation; `None` where the file has none there, or
    /// a longer one.
    pub(crate) fn text_at(
        &self,
        what: &'static str,
        address: u64,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, ElfError> {
        let offset = self
            .segments
            .iter()
            .find_map(|part| part.offset_of(address));
        match offset {
            Some(offset) => self.reader.text(what, offset, limit),
            None => Ok(None),
        }
    }

    /// The first `size` bytes of code at file offset `offset`, fewer where its segment ends.
    pub(crate) fn code(
        &self,
        segment: &Segment,
        offset: u64,
        size: u64,
    ) -> Result<Vec<u8>, ElfError> {
        let end = segment.offset.saturating_add(segment.size);
        let size = end.saturating_sub(offset).min(size);
        self.reader.bytes(
            "a function's code",
            offset,
            usize::try_from(size).unwrap_or_default(),
        )
    }
}

fn file_header(reader: &Reader<'_>) -> Result<FileHeader64<LE>, ElfError> {
    let header = match reader.structure::<FileHeader64<LE>>("the file header", 0) {
        // Shorter than the header of any ELF file.
        Err(ElfError::Truncated { .. }) => return Err(ElfError::NotElf),
        header => header?,
    };
    if header.e_ident.magic != elf::ELFMAG {
        return Err(ElfError::NotElf);
    }
    if header.e_ident.class != elf::ELFCLASS64 || header.e_ident.data != elf::ELFDATA2LSB {
        return Err(ElfError::Class);
    }
    let machine = header.e_machine.get(LE);
    if machine != elf::EM_X86_64 {
        return Err(ElfError::Machine(machine.0));
    }
    Ok(header)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
