//! The dynamic linker of a program: it calls an empty function of its own, made for
//! debuggers, whenever it has mapped objects. A probe there tells of new libraries.

use std::{ffi::OsStr, fs::File, io, os::unix::ffi::OsStrExt, path::Path};

use super::{
    elf::{Elf, ElfError},
    file::TargetFile,
    process::{Process, ProcessError},
    prologue::{self, Moment, Unprobeable},
};

/// Called with nothing by glibc and musl before and after they map objects.
const DEBUG_STATE: &str = "_dl_debug_state";
/// glibc's list of mapped objects (`struct r_debug`, link.h).
const R_DEBUG: &str = "_r_debug";

/// Why a program's dynamic linker cannot be probed.
#[derive(Debug, thiserror::Error)]
pub enum LinkerError {
    /// The process is gone or hidden.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file could not be opened.
    #[error("cannot open {file}: {source}")]
    Open {
        /// The executable, or the dynamic linker that it names.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {file}: {error}")]
    Elf {
        /// The executable, or the dynamic linker that it names.
        file: String,
        /// Why.
        error: ElfError,
    },
    /// The probe would never fire.
    #[error("{DEBUG_STATE} of {file}: {error}")]
    Unprobeable {
        /// The dynamic linker.
        file: String,
        /// Why.
        error: Unprobeable,
    },
}

/// A dynamic linker. Holds its file open.
#[derive(Debug)]
pub struct Linker {
    /// The file.
    pub file: TargetFile,
    /// File offset of the function that it calls when objects were mapped.
    pub debug_state: u64,
    /// Bytes from that function to `_r_debug` in memory, the same in every process. `None` for
    /// linkers without that list (musl).
    pub r_debug: Option<i64>,
}

impl Linker {
    /// That of the program which `process` runs; `None` for a static program.
    pub fn of_process(process: &Process) -> Result<Option<Self>, LinkerError> {
        let path = process.path("exe");
        // The link leads to the file itself, whatever is at its path.
        let exe = TargetFile::open(&path).map_err(|error| process.error("exe", error))?;
        Self::of_executable(exe, "the executable", &process.path("root"))
    }

    /// That of the program at `path`, before it runs; `None` for a static program.
    pub fn of_command(path: &Path) -> Result<Option<Self>, LinkerError> {
        let name = path.display().to_string();
        match TargetFile::open(path) {
            Ok(exe) => Self::of_executable(exe, &name, Path::new("/")),
            Err(source) => Err(LinkerError::Open { file: name, source }),
        }
    }

    fn of_executable(
        exe: TargetFile,
        name: &str,
        root: &Path,
    ) -> Result<Option<Self>, LinkerError> {
        let broken = |error| LinkerError::Elf {
            file: name.to_owned(),
            error,
        };
        let interpreter = Elf::open(&exe)
            .and_then(|elf| elf.interpreter())
            .map_err(broken)?;
        let Some(interpreter) = interpreter else {
            // Static, or the dynamic linker itself, run as a command.
            return Self::read(exe, name);
        };
        let path = Path::new(OsStr::from_bytes(&interpreter));
        let name = path.display().to_string();
        let root = File::open(root).map_err(|source| LinkerError::Open {
            file: name.clone(),
            source,
        })?;
        match TargetFile::open_in(&root, path) {
            Ok(file) => Self::read(file, &name),
            Err(source) => Err(LinkerError::Open { file: name, source }),
        }
    }

    fn read(file: TargetFile, name: &str) -> Result<Option<Self>, LinkerError> {
        let broken = |error| LinkerError::Elf {
            file: name.to_owned(),
            error,
        };
        let elf = Elf::open(&file).map_err(broken)?;
        let Some(function) = elf.function(DEBUG_STATE).map_err(broken)? else {
            return Ok(None);
        };
        prologue::place(&function.first_bytes, function.address, Moment::Return).map_err(
            |error| LinkerError::Unprobeable {
                file: name.to_owned(),
                error,
            },
        )?;
        let list = elf.variable(R_DEBUG).map_err(broken)?;
        let r_debug = list.map(|list| list.wrapping_sub(function.address).cast_signed());
        Ok(Some(Self {
            debug_state: function.file_offset,
            r_debug,
            file,
        }))
    }
}
