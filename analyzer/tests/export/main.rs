//! The command `export`: what other tools' own readers find in its output is what pyarrow finds in
//! the recording.

mod chrome;
mod command;
mod fleet;
mod folded;
mod large;
mod perfetto;
#[path = "../sample/mod.rs"]
mod sample;
mod table;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sample::{SECOND, START, Sample};
use tempfile::TempDir;

/// Recordings of real programs on an H100 and an H200.
fn recordings() -> Vec<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    vec![
        tests.join("fixtures/h100/oom.arrows"),
        tests.join("fixtures/h100/snapshot.arrows"),
        tests.join("../../ledger/tests/fixtures/held.arrows"),
    ]
}

/// All kinds of rows, and names that come after the rows that need them.
fn everything(directory: &TempDir) -> PathBuf {
    let mut sample = sample::everything();
    sample.end(START + 10 * SECOND, |_| {});
    write(directory, "everything.arrows", &sample)
}

fn write(directory: &TempDir, name: &str, sample: &Sample) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, sample.file()).expect("the file can be written");
    path
}

fn directory() -> TempDir {
    TempDir::new().expect("a directory")
}

fn export(arguments: &[&dyn AsRef<OsStr>]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cudasnoop-analyzer"))
        .arg("export")
        .args(arguments.iter().map(AsRef::as_ref))
        .output()
        .expect("the command runs")
}

/// Exports to a file, with nothing but the count on standard error; gives its path.
fn exported(directory: &TempDir, format: &str, recording: &Path, more: &[&str]) -> PathBuf {
    let name = recording.file_stem().expect("a file").to_string_lossy();
    let path = directory.path().join(format!("{name}.{format}"));
    let mut arguments: Vec<&dyn AsRef<OsStr>> =
        vec![&"--format", &format, &"-o", &path, &recording];
    arguments.extend(more.iter().map(|argument| argument as &dyn AsRef<OsStr>));
    let output = export(&arguments);
    let stderr = text(&output.stderr);
    assert!(
        output.status.success() && output.stdout.is_empty(),
        "{stderr}"
    );
    path
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn python() -> PathBuf {
    let python = std::env::var_os("CUDASNOOP_PYTHON").expect(
        "CUDASNOOP_PYTHON names no Python with pyarrow, polars, duckdb and perfetto: run \
         `cargo xtask test`",
    );
    PathBuf::from(python)
}

/// Runs one of the scripts beside this file; gives what it prints.
fn script(interpreter: &Path, script: &str, arguments: &[&dyn AsRef<OsStr>]) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export");
    let output = Command::new(interpreter)
        .arg(folder.join(script))
        .args(arguments.iter().map(AsRef::as_ref))
        // Python must not leave compiled scripts in the repository.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("Python runs");
    let stdout = text(&output.stdout);
    assert!(
        output.status.success(),
        "{stdout}\n{}",
        text(&output.stderr)
    );
    stdout
}
