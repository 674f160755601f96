//! Names for addresses in a process: the kernel of a host stub, the module of a caller.
//!
//! The CUDA runtime launches a kernel by the address of its host stub, a function that the
//! compiler made under the kernel's own name. Registration, where the runtime learns that
//! name, is long over when a tracer comes; but the symbol table of the file still has it.

mod handle;
mod stub;
mod symtab;

use std::collections::HashMap;

pub use handle::{NamePlaces, Sight, Source};
use symtab::SymbolIndex;

use crate::discover::{
    FileIdentity, FileOffset, Located, MappedFile, Mappings, Process, ProcessError, Program,
    elf::Elf,
};

/// Functions of all indexed files together: 8 bytes each. `libtorch_cuda.so` has 0.2 million.
const FUNCTIONS_LIMIT: usize = 4_000_000;
/// Longest kernel name that is read, bytes. The longest of torch 2.14 has 2,301.
const NAME_LIMIT: usize = 64 * 1024;
/// Indexed files, each of them held open.
const FILES_LIMIT: usize = 64;
/// Processes whose mappings are kept.
const PROCESSES_LIMIT: usize = 4096;

/// What an address in a process is. Unknown is `None`, never the address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolution {
    /// The name of the function that begins at the address, as the compiler made it: for a
    /// host stub, the kernel's.
    pub name: Option<String>,
    /// The file that holds the address, as the process sees its path.
    pub module: Option<String>,
}

/// Resolves addresses. Slow where a file is read for the first time (a large one in some
/// 10 ms), so it belongs on a thread of its own; memory stays under some 64 MB.
///
/// What a process maps is read when it is first asked about, again when an address is in
/// no mapping known, and when the process runs another program. A process that unloads a
/// library and loads another at its place would be told wrong: [`Resolver::forget`] whenever
/// its dynamic linker reports a change.
#[derive(Debug, Default)]
pub struct Resolver {
    processes: HashMap<u32, Snapshot>,
    indexes: HashMap<FileIdentity, Indexed>,
    /// Counts uses, to find the index that was not used for the longest time.
    clock: u64,
}

#[derive(Clone, Debug)]
struct Snapshot {
    program: Program,
    mappings: Mappings,
    /// Of the files that were needed, by their index in `mappings`; `None` where a file
    /// cannot be opened.
    identities: HashMap<usize, Option<FileIdentity>>,
}

#[derive(Debug)]
struct Indexed {
    /// `None` for a file that cannot be read, or has no symbols.
    index: Option<SymbolIndex>,
    used: u64,
}

impl Resolver {
    /// Keeps what process `pid` mapped, which is then known even when it is gone.
    pub fn remember(&mut self, pid: u32, program: Program, mappings: Mappings) {
        self.keep(
            pid,
            Snapshot {
                program,
                mappings,
                identities: HashMap::new(),
            },
        );
    }

    /// A forked child maps what its parent maps.
    pub fn fork(&mut self, parent: u32, child: u32) {
        if let Some(snapshot) = self.processes.get(&parent).cloned() {
            self.keep(child, snapshot);
        }
    }

    /// Drops what is known about process `pid`.
    pub fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// The function that begins at `address` in process `pid`, and the file.
    pub fn resolve(&mut self, pid: u32, address: u64) -> Resolution {
        let process = Process::open(pid).ok();
        let Some(at) = self.locate(pid, process.as_ref(), address) else {
            return Resolution::default();
        };
        let name = self.name(pid, process.as_ref(), at);
        Resolution {
            name,
            module: self.path(pid, at),
        }
    }

    /// The kernel of the host stub at `address`: by the file's symbols; where it has none, by the
    /// text at `registered`, which the program gave the runtime as the kernel's name.
    pub fn kernel(&mut self, pid: u32, address: u64, registered: Option<u64>) -> Resolution {
        let mut found = self.resolve(pid, address);
        if let (None, Some(name)) = (&found.name, registered) {
            found.name = self.text_of_file(pid, address, name);
        }
        found
    }

    /// The text at `address` in the file that has code at `code`, as the file has it.
    fn text_of_file(&mut self, pid: u32, code: u64, address: u64) -> Option<String> {
        let process = Process::open(pid).ok();
        let at = self.locate(pid, process.as_ref(), code)?;
        let mapped = self.processes.get(&pid)?.mappings.files().get(at.file)?;
        let file = find(process.as_ref(), mapped)?.open().ok()?;
        let elf = Elf::open(&file).ok()?;
        let linked_at = elf.text().find_map(|text| text.address_of(at.offset))?;
        // The whole file is loaded at one distance from where it is linked.
        let name = address.wrapping_sub(code.wrapping_sub(linked_at));
        let text = elf.text_at("a kernel's name", name, NAME_LIMIT).ok()??;
        String::from_utf8(text).ok().filter(|name| !name.is_empty())
    }

    /// The file that holds `address` in process `pid`, as the process sees its path; `None`
    /// for code outside any file.
    pub fn module_at(&mut self, pid: u32, address: u64) -> Option<String> {
        let process = Process::open(pid).ok();
        let at = self.locate(pid, process.as_ref(), address)?;
        self.path(pid, at)
    }

    fn read(&mut self, process: &Process) -> Result<&Snapshot, ProcessError> {
        let snapshot = Snapshot {
            // First, so that a change of program in between shows the next time.
            program: process.program()?,
            mappings: Mappings::read(process)?,
            identities: HashMap::new(),
        };
        if snapshot.mappings.files().is_empty() {
            // It is ending, and has given up its memory.
            return Err(ProcessError::Ended { pid: process.pid() });
        }
        Ok(self.keep(process.pid(), snapshot))
    }

    fn keep(&mut self, pid: u32, snapshot: Snapshot) -> &Snapshot {
        if self.processes.len() >= PROCESSES_LIMIT {
            self.processes.clear();
        }
        self.processes.entry(pid).insert_entry(snapshot).into_mut()
    }

    /// Where `address` lies in which file. `process` is `None` for one that is gone.
    fn locate(&mut self, pid: u32, process: Option<&Process>, address: u64) -> Option<FileOffset> {
        let mut known = None;
        if let Some(snapshot) = self.processes.get(&pid) {
            let program = process.and_then(|process| process.program().ok());
            let is_current = program.is_none_or(|program| program == snapshot.program);
            known = snapshot.mappings.file_at(address);
            if known.is_some() && is_current {
                return known;
            }
        }
        match process.and_then(|process| self.read(process).ok()) {
            Some(snapshot) => snapshot.mappings.file_at(address),
            None => known,
        }
    }

    fn path(&self, pid: u32, at: FileOffset) -> Option<String> {
        let file = self.processes.get(&pid)?.mappings.files().get(at.file)?;
        Some(file.path.to_string_lossy().into_owned())
    }

    fn name(&mut self, pid: u32, process: Option<&Process>, at: FileOffset) -> Option<String> {
        let snapshot = self.processes.get_mut(&pid)?;
        let identity = match snapshot.identities.get(&at.file) {
            Some(identity) if identity.is_none_or(|known| self.indexes.contains_key(&known)) => {
                *identity
            }
            _ => {
                let located = find(process, snapshot.mappings.files().get(at.file)?);
                let identity = located.as_ref().map(Located::identity);
                snapshot.identities.insert(at.file, identity);
                if let Some(located) = located {
                    self.index(located);
                }
                identity
            }
        };
        self.clock += 1;
        let indexed = self.indexes.get_mut(&identity?)?;
        indexed.used = self.clock;
        let name = indexed.index.as_ref()?.name_at(at.offset)?;
        Some(stub::kernel_name(&name).into_owned())
    }

    /// Indexes a file that is not indexed yet, and drops what was not used for long.
    fn index(&mut self, located: Located) {
        let identity = located.identity();
        if self.indexes.contains_key(&identity) {
            return;
        }
        let index = located
            .open()
            .ok()
            .and_then(|file| SymbolIndex::read(file).ok()?);
        self.clock += 1;
        self.indexes.insert(
            identity,
            Indexed {
                index,
                used: self.clock,
            },
        );
        while self.indexes.len() > FILES_LIMIT || self.functions() > FUNCTIONS_LIMIT {
            let oldest = self.indexes.iter().min_by_key(|(_, indexed)| indexed.used);
            let Some(oldest) = oldest.map(|(identity, _)| *identity) else {
                break;
            };
            self.indexes.remove(&oldest);
        }
    }

    fn functions(&self) -> usize {
        let indexes = self
            .indexes
            .values()
            .filter_map(|indexed| indexed.index.as_ref());
        indexes.map(SymbolIndex::len).sum()
    }
}

/// The file of a process; where that is gone, the same file in our own root.
fn find(process: Option<&Process>, mapped: &MappedFile) -> Option<Located> {
    let found = process.and_then(|process| Located::find(process, mapped).ok());
    found.or_else(|| Located::find_here(mapped).ok())
}
