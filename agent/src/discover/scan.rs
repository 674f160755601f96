//! Finding the libraries among the files that processes map.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Weak},
};

use super::{
    elf::ElfError,
    file::{FileIdentity, Located, OpenError},
    library::Library,
    maps::{MappedFile, Mappings},
    process::Process,
};

/// Files that are remembered. A node that has seen more starts anew.
const KNOWN_LIMIT: usize = 65_536;

/// Why a mapped file was not looked into. What it is stays unknown.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// It could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It could not be read.
    #[error("{}: {error}", path.display())]
    Elf {
        /// The path in maps.
        path: PathBuf,
        /// Why.
        error: ElfError,
    },
}

/// A library in a process.
#[derive(Clone, Debug)]
pub struct Found {
    /// The library, shared by all processes that map this file.
    pub library: Arc<Library>,
    /// Its path, as the process sees it.
    pub path: PathBuf,
    /// What the process maps it as; `None` where it is not known to map it.
    pub mapped: Option<MappedIdentity>,
}

impl Found {
    /// The same library in a process that may map it later.
    #[must_use]
    pub fn not_mapped_yet(self) -> Self {
        Self {
            mapped: None,
            ..self
        }
    }
}

/// Device and inode number of a file as a process's mappings show them: on some file systems
/// others than `stat` shows.
pub type MappedIdentity = (u64, u64);

/// What a scan brought.
#[derive(Debug, Default)]
pub struct Scan {
    /// Libraries that were not there at the last scan.
    pub found: Vec<Found>,
    /// Files that could not be looked into, each told once.
    pub failures: Vec<ScanError>,
}

/// What was looked at in one process already. To be renewed when the process replaces its
/// program.
#[derive(Clone, Debug, Default)]
pub struct Seen(HashSet<(u64, u64, u64)>);

impl Seen {
    /// Forgets what is no longer mapped, so that it is found anew should it come back; gives the
    /// files of which nothing is mapped any more.
    pub fn forget_unmapped(&mut self, mappings: &Mappings) -> Vec<MappedIdentity> {
        let mapped: HashSet<_> = mappings.files().iter().map(Self::key).collect();
        let files: HashSet<_> = mapped
            .iter()
            .map(|&(device, inode, _)| (device, inode))
            .collect();
        let mut gone = Vec::new();
        self.0.retain(|key| {
            let &(device, inode, _) = key;
            if !files.contains(&(device, inode)) {
                gone.push((device, inode));
            }
            mapped.contains(key)
        });
        gone
    }

    /// A mapping of a file: should another file get this inode number later, it is mapped
    /// anew.
    fn key(mapped: &MappedFile) -> (u64, u64, u64) {
        (
            mapped.device,
            mapped.inode,
            mapped.ranges.first().map_or(0, |range| range.start),
        )
    }
}

/// Knows every file that was looked into, so that each is read once, in whatever number of
/// processes it is mapped. A library is forgotten, and its file closed, when no [`Found`]
/// holds it any more.
#[derive(Debug, Default)]
pub struct Libraries {
    known: HashMap<FileIdentity, Known>,
}

#[derive(Debug)]
enum Known {
    Nothing,
    Library(Weak<Library>),
}

impl Libraries {
    /// Looks into the files in `mappings` of `process` that are not in `seen`. A file that
    /// cannot be read never stops the others.
    pub fn scan(&mut self, process: &Process, mappings: &Mappings, seen: &mut Seen) -> Scan {
        let mut scan = Scan::default();
        for mapped in mappings.files() {
            let key = Seen::key(mapped);
            if seen.0.contains(&key) {
                continue;
            }
            match self.look_into(process, mapped) {
                Ok(library) => scan.found.extend(library.map(|library| Found {
                    library,
                    path: mapped.path.clone(),
                    mapped: Some((mapped.device, mapped.inode)),
                })),
                Err(error) => {
                    let may_pass = matches!(error, ScanError::Open(OpenError::Failed { .. }));
                    scan.failures.push(error);
                    if may_pass {
                        continue;
                    }
                }
            }
            seen.0.insert(key);
        }
        scan
    }

    fn look_into(
        &mut self,
        process: &Process,
        mapped: &MappedFile,
    ) -> Result<Option<Arc<Library>>, ScanError> {
        let located = Located::find(process, mapped)?;
        let identity = located.identity();
        match self.known.get(&identity) {
            Some(Known::Nothing) => return Ok(None),
            Some(Known::Library(library)) => {
                if let Some(library) = library.upgrade() {
                    return Ok(Some(library));
                }
            }
            None => {}
        }
        let library = match Library::resolve(located.open()?) {
            Ok(library) => library.map(Arc::new),
            Err(ElfError::NotElf) => None,
            Err(error) => {
                return Err(ScanError::Elf {
                    path: mapped.path.clone(),
                    error,
                });
            }
        };
        if self.known.len() >= KNOWN_LIMIT {
            self.known.clear();
        }
        let known = library.as_ref().map_or(Known::Nothing, |library| {
            Known::Library(Arc::downgrade(library))
        });
        self.known.insert(identity, known);
        Ok(library)
    }
}
