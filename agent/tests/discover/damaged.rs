//! Files that lie, end early, or are no ELF files at all.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
    sync::LazyLock,
};

use agent::discover::{
    TargetFile,
    elf::{Elf, ElfError},
};
use proptest::prelude::*;

use crate::fixture::{Folder, RUNTIME, library, resolve};

/// A good library, made once.
static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = Folder::new();
    fs::read(folder.shared("good.so", RUNTIME, &["-Wl,--hash-style=both"])).expect("reads")
});

fn with(folder: &Folder, bytes: &[u8]) -> std::path::PathBuf {
    let path = folder.path("file");
    fs::write(&path, bytes).expect("writes");
    path
}

fn error(path: &Path) -> ElfError {
    resolve(path).expect_err("refused")
}

#[test]
fn other_kinds_of_files_are_told_apart() {
    let folder = Folder::new();
    for bytes in [
        &b""[..],
        b"\x7fEL",
        b"#!/bin/sh\n",
        b"PK\x03\x04 a zip file, mapped by java",
    ] {
        assert!(matches!(error(&with(&folder, bytes)), ElfError::NotElf));
    }
    let mut arm = GOOD.clone();
    arm[18..20].copy_from_slice(&183_u16.to_le_bytes());
    let refused = error(&with(&folder, &arm));
    assert!(matches!(refused, ElfError::Machine(183)), "{refused}");
    for (index, value) in [(4, 1), (5, 2)] {
        let mut other = GOOD.clone();
        other[index] = value;
        assert!(matches!(error(&with(&folder, &other)), ElfError::Class));
    }
}

#[test]
fn a_section_is_found_by_name_or_not_at_all() {
    let folder = Folder::new();
    let has = |bytes: &[u8], name| {
        let file = TargetFile::open(&with(&folder, bytes)).expect("opens");
        Elf::open(&file).and_then(|elf| elf.has_section(name))
    };
    assert!(has(&GOOD, ".dynsym").expect("reads"));
    // No other ends like it, or begins like it.
    for name in [".go.buildinfo", ".dyns", "dynsym", ".dynsymx"] {
        assert!(!has(&GOOD, name).expect("reads"), "{name}");
    }
    // Where the section headers are, how many, and which has the names.
    for at in [40, 60, 62] {
        let mut lying = GOOD.clone();
        lying[at..at + 2].copy_from_slice(&[0xff, 0xff]);
        // An answer or an error, whichever.
        assert_ne!(has(&lying, ".go.buildinfo").ok(), Some(true));
    }
}

#[test]
fn a_file_cut_off_anywhere_is_refused_or_read() {
    let folder = Folder::new();
    let mut refused = 0;
    for length in (0..GOOD.len()).step_by(97) {
        refused += usize::from(resolve(&with(&folder, &GOOD[..length])).is_err());
    }
    assert!(refused > 0);
}

#[test]
fn a_chain_without_end_ends() {
    let folder = Folder::new();
    let path = folder.shared("good.so", RUNTIME, &["-Wl,--hash-style=sysv"]);
    let sections = crate::fixture::run(
        std::process::Command::new("readelf")
            .args(["-SW"])
            .arg(&path),
    );
    let row = sections
        .lines()
        .find(|line| line.contains(" .hash "))
        .expect("a hash table");
    let fields: Vec<_> = row
        .split(']')
        .nth(1)
        .expect("a row")
        .split_whitespace()
        .collect();
    let at = crate::fixture::hex(fields[3]);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .expect("opens");
    let mut header = [0; 8];
    file.read_exact_at(&mut header, at).expect("reads");
    let buckets = u64::from(u32::from_le_bytes(header[..4].try_into().expect("four")));
    let chains = u32::from_le_bytes(header[4..].try_into().expect("four"));
    // Every chain leads to symbol 1, whose chain leads to itself: not one we look for.
    for index in 0..buckets + u64::from(chains) {
        file.write_all_at(&1_u32.to_le_bytes(), at + 8 + index * 4)
            .expect("writes");
    }
    assert!(matches!(error(&path), ElfError::Damaged(_)));
}

#[test]
fn a_sparse_file_of_many_gigabytes_is_read_in_pieces() {
    let folder = Folder::new();
    let path = folder.shared("huge.so", RUNTIME, &[]);
    let expected = library(&path).points;
    let file = OpenOptions::new().write(true).open(&path).expect("opens");
    file.set_len(1 << 40).expect("grows");
    assert_eq!(library(&path).points, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        let folder = Folder::new();
        let mut elf = GOOD[..20].to_vec();
        elf.extend_from_slice(&bytes);
        drop(resolve(&with(&folder, &elf)));
    }

    /// Changes in the headers and tables at the beginning, where the lies are.
    #[test]
    fn a_damaged_library_never_panics(
        changes in prop::collection::vec((0_usize..4096, any::<u8>()), 1..24)
    ) {
        let folder = Folder::new();
        let mut elf = GOOD.clone();
        for (index, value) in changes {
            if let Some(byte) = elf.get_mut(index) {
                *byte = value;
            }
        }
        drop(resolve(&with(&folder, &elf)));
    }
}
