//! What can be traced: which processes there are, which files they map, and where in
//! those files the functions of the probe table begin.
//!
//! Everything read here is hostile input. A process chooses the names of its files, swaps
//! them while they are looked at, and writes its own title; an ELF file may say anything.
//! So paths are never trusted to name what is mapped ([`TargetFile`]), files are read in
//! small pieces and never mapped ([`elf::Elf`]), and every size has a bound.

mod container;
pub mod elf;
mod file;
mod library;
mod linker;
mod maps;
mod memory;
mod process;
pub mod prologue;
mod scan;
mod selection;

pub use container::Container;
pub use file::{FileIdentity, Located, OpenError, TargetFile};
pub use library::{Library, ProbePoint, Refusal};
pub use linker::{Linker, LinkerError};
pub use maps::{FileOffset, MappedFile, Mappings, Range};
pub use memory::{LookBudget, Memory};
pub use process::{Process, ProcessError, Program, pids};
pub use scan::{Found, Libraries, MappedIdentity, Scan, ScanError, Seen};
pub use selection::{SHORTEST_CONTAINER_ID, Selection};
