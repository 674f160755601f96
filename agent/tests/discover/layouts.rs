//! A symbol's address is not its offset in the file: every odd layout that linkers make.

use std::{fs, path::Path, process::Command};

use agent::discover::{TargetFile, elf::Elf};

use crate::fixture::{Folder, RUNTIME, file_offset, library, run, text_segment, value};

const FUNCTIONS: [&str; 3] = ["cudaMalloc", "cudaFree", "cudaLaunchKernel"];

/// Every function is where objdump and readelf say.
fn check(path: &Path) {
    let library = library(path);
    for function in FUNCTIONS {
        let point = library.points.iter().find(|point| point.symbol == function);
        let point = point.unwrap_or_else(|| panic!("{function}: {library:?}"));
        assert_eq!(point.offset, file_offset(path, function), "{function}");
        let address = value(path, function);
        let segment = text_segment(path, address);
        let before = address - segment.address;
        assert_eq!(point.site.text_before, before, "{function}");
        assert_eq!(point.site.text_after, segment.size - before, "{function}");
    }
    assert!(library.refused.is_empty(), "{:?}", library.refused);
}

/// The case is worth nothing otherwise.
fn check_is_odd(path: &Path) {
    let address = value(path, "cudaMalloc");
    assert_ne!(file_offset(path, "cudaMalloc"), address);
}

#[test]
fn plain_and_stripped() {
    let folder = Folder::new();
    check(&folder.shared("plain.so", RUNTIME, &[]));
    let path = folder.shared("stripped.so", RUNTIME, &["-s"]);
    assert!(!run(Command::new("readelf").arg("-SW").arg(&path)).contains(".symtab"));
    // objdump finds no function without .symtab: compare with what the other file has.
    let offset = |path: &Path| {
        library(path)
            .points
            .iter()
            .map(|point| point.offset)
            .collect::<Vec<_>>()
    };
    assert_eq!(offset(&path), offset(&folder.path("plain.so")));
}

#[test]
fn text_elsewhere_than_in_the_file() {
    let folder = Folder::new();
    for (name, flag) in [
        ("moved.so", "-Wl,--section-start=.text=0x5000340"),
        (
            "huge-pages.so",
            "-Wl,-z,max-page-size=0x200000,-z,separate-code",
        ),
        ("one-segment.so", "-Wl,-z,noseparate-code"),
        ("separate.so", "-Wl,-z,separate-code"),
    ] {
        check(&folder.shared(name, RUNTIME, &[flag]));
    }
    check_is_odd(&folder.path("moved.so"));
}

#[test]
fn an_executable_at_a_fixed_address() {
    let folder = Folder::new();
    let source = format!("{RUNTIME} int main(void) {{ return 0; }}");
    let path = folder.compile("fixed", "fixed.c", &source, &["-no-pie", "-rdynamic"]);
    check_is_odd(&path);
    check(&path);
}

#[test]
fn either_kind_of_hash_table() {
    let folder = Folder::new();
    for style in ["sysv", "gnu", "both"] {
        check(&folder.shared(style, RUNTIME, &[&format!("-Wl,--hash-style={style}")]));
    }
}

#[test]
fn versioned_symbols_are_found_by_their_plain_names() {
    let folder = Folder::new();
    let script = folder.path("versions");
    fs::write(&script, "libcudart.so.12 { global: cuda*; local: *; };").expect("writes");
    let flag = format!("-Wl,--version-script={}", script.display());
    let path = folder.shared("versioned.so", RUNTIME, &[&flag]);
    let symbols = run(Command::new("readelf")
        .args(["--dyn-syms", "-W"])
        .arg(&path));
    assert!(symbols.contains("cudaMalloc@@libcudart.so.12"), "{symbols}");
    check(&path);
}

#[test]
fn a_file_without_section_headers() {
    let folder = Folder::new();
    let path = folder.shared(
        "whole.so",
        RUNTIME,
        &["-Wl,--section-start=.text=0x5000340"],
    );
    let expected = library(&path).points;
    let mut bytes = fs::read(&path).expect("reads");
    // e_shoff, then e_shentsize, e_shnum and e_shstrndx.
    bytes[40..48].fill(0);
    bytes[58..64].fill(0);
    let path = folder.path("headless.so");
    fs::write(&path, bytes).expect("writes");
    let headers = run(Command::new("readelf").arg("-h").arg(&path));
    assert!(
        headers.contains("Number of section headers:         0"),
        "{headers}"
    );
    assert_eq!(library(&path).points, expected);
}

#[test]
fn what_a_file_says_about_itself() {
    let folder = Folder::new();
    let flags = ["-Wl,-soname,libcudart.so.12", "-Wl,--build-id=sha1"];
    let path = folder.shared("named.so", RUNTIME, &flags);
    let library = library(&path);
    assert_eq!(library.soname.as_deref(), Some("libcudart.so.12"));
    let notes = run(Command::new("readelf").args(["-n"]).arg(&path));
    let build_id = library.build_id.expect("has one");
    assert_eq!(build_id.len(), 40);
    assert!(notes.contains(&format!("Build ID: {build_id}")), "{notes}");

    let path = folder.shared("nameless.so", RUNTIME, &["-Wl,--build-id=none"]);
    let library = crate::fixture::library(&path);
    assert_eq!((library.soname, library.build_id), (None, None));

    let exe = std::env::current_exe().expect("known");
    let file = TargetFile::open(&exe).expect("opens");
    let interpreter = Elf::open(&file)
        .and_then(|elf| elf.interpreter())
        .expect("readable");
    let interpreter = String::from_utf8(interpreter.expect("has one")).expect("UTF-8");
    let segments = run(Command::new("readelf").arg("-lW").arg(exe));
    assert!(
        segments.contains(&format!("interpreter: {interpreter}]")),
        "{segments}"
    );
}
