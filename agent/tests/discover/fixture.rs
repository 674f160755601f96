//! Small ELF files, and what binutils say about them.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use agent::discover::{Library, TargetFile, elf::ElfError};
use tempfile::TempDir;

/// A library with some functions of the runtime.
pub(crate) const RUNTIME: &str = r"
    static volatile long calls;
    int cudaMalloc(void **out, unsigned long size) { *out = (void *)size; return calls++, 0; }
    int cudaFree(void *block) { calls--; return block == 0; }
    int cudaLaunchKernel(void *stub) { calls += 2; return stub == 0; }
";

/// A folder for the files of one test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles C, or by the name's ending another language.
    pub(crate) fn compile(
        &self,
        name: &str,
        source_name: &str,
        source: &str,
        flags: &[&str],
    ) -> PathBuf {
        let (source_path, output) = (self.path(source_name), self.path(name));
        fs::write(&source_path, source).expect("writes");
        run(Command::new("cc")
            .arg("-O1")
            .args([&source_path])
            .args(flags)
            .arg("-o")
            .arg(&output));
        output
    }

    pub(crate) fn shared(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let flags = [&["-shared", "-fPIC"], flags].concat();
        self.compile(name, &format!("{name}.c"), source, &flags)
    }

    pub(crate) fn assembly(&self, name: &str, source: &str) -> PathBuf {
        self.compile(
            name,
            &format!("{name}.s"),
            source,
            &["-shared", "-nostdlib"],
        )
    }
}

/// What the command prints; it must succeed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

pub(crate) fn resolve(path: &Path) -> Result<Option<Library>, ElfError> {
    Library::resolve(TargetFile::open(path).expect("opens"))
}

pub(crate) fn library(path: &Path) -> Library {
    resolve(path)
        .expect("readable")
        .expect("has CUDA functions")
}

/// The file offset of `function`, as objdump tells it.
pub(crate) fn file_offset(path: &Path, function: &str) -> u64 {
    let option = format!("--disassemble={function}");
    let text = run(Command::new("objdump")
        .args(["--disassemble", "-F", &option])
        .arg(path));
    let mark = format!("<{function}> (File Offset: 0x");
    let at = text
        .find(&mark)
        .unwrap_or_else(|| panic!("{mark} in {text}"));
    hex(text[at + mark.len()..]
        .split(')')
        .next()
        .expect("a bracket"))
}

/// An exported symbol's value, as readelf tells it.
pub(crate) fn value(path: &Path, function: &str) -> u64 {
    let text = run(Command::new("readelf")
        .args(["--dyn-syms", "--wide", "--use-dynamic"])
        .arg(path));
    let text = if text.contains(function) {
        text
    } else {
        run(Command::new("readelf")
            .args(["--dyn-syms", "--wide"])
            .arg(path))
    };
    let row = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|fields| {
            fields
                .get(7)
                .is_some_and(|name| name.split('@').next() == Some(function))
        });
    hex(row.unwrap_or_else(|| panic!("{function} in {text}"))[1])
}

/// An executable segment, as readelf tells it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) size: u64,
}

/// The segment that holds `address`.
pub(crate) fn text_segment(path: &Path, address: u64) -> Segment {
    let text = run(Command::new("readelf")
        .args(["--segments", "--wide"])
        .arg(path));
    text.lines()
        .filter(|line| line.contains("LOAD") && line.contains("R E"))
        .map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            Segment {
                offset: hex(fields[1]),
                address: hex(fields[2]),
                size: hex(fields[4]),
            }
        })
        .find(|segment| (segment.address..segment.address + segment.size).contains(&address))
        .unwrap_or_else(|| panic!("{address:x} in {text}"))
}

pub(crate) fn hex(digits: &str) -> u64 {
    let digits = digits.trim_start_matches("0x");
    u64::from_str_radix(digits, 16).unwrap_or_else(|error| panic!("{digits}: {error}"))
}

/// A program that prints lines and goes on whenever it is told to; killed in the end.
pub(crate) struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self {
            child,
            input,
            output,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its next line.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("readable");
        assert!(!line.is_empty(), "the program ended");
        line.trim_end().to_owned()
    }

    pub(crate) fn go_on(&mut self) {
        self.input
            .as_mut()
            .expect("open")
            .write_all(b"\n")
            .expect("written");
    }

    /// Ends it, but does not collect it yet.
    pub(crate) fn end(&mut self) {
        self.child.kill().expect("killed");
        // Its end of the pipe closes when it is gone.
        let mut rest = String::new();
        while self.output.read_line(&mut rest).expect("readable") > 0 {}
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
    }
}
