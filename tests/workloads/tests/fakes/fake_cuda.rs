//! The fake libraries under the names that programs look for, and the workloads over them.

use std::{
    ffi::OsStr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;
use workloads::report::Report;

/// Every library: cargo's name of the artefact, and the library's own name.
pub(crate) const LIBRARIES: [(&str, &str); 5] = [
    ("libcuda.so", "libcuda.so.1"),
    ("libcudart_11.so", "libcudart.so.11.0"),
    ("libcudart_12.so", "libcudart.so.12"),
    ("libcudart_13.so", "libcudart.so.13"),
    ("libc10.so", "libc10.so"),
];

/// A directory with all fake libraries under their own names.
pub(crate) struct FakeCuda {
    directory: TempDir,
}

impl FakeCuda {
    /// Links the artefacts that cargo built beside this test.
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for (artefact, name) in LIBRARIES {
            symlink(artefacts().join(artefact), directory.path().join(name)).expect("a new link");
        }
        Self { directory }
    }

    /// The directory, for `LD_LIBRARY_PATH`.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A workload over these libraries.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.path());
        command
    }

    /// Runs a workload to its end: what it reports.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Report {
        self.run_with(program, arguments, &[])
    }

    /// Runs a workload with settings: what it reports.
    pub(crate) fn run_with(
        &self,
        program: &str,
        arguments: &[&str],
        settings: &[(&str, &str)],
    ) -> Report {
        let mut command = self.command(program);
        command.args(arguments).envs(settings.iter().copied());
        report(&command.output().expect("the workload starts"))
    }
}

/// The report in a workload's output.
pub(crate) fn report(output: &Output) -> Report {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    serde_json::from_slice(&output.stdout).expect("one JSON object on stdout")
}

/// Where cargo puts the libraries that this test depends on.
pub(crate) fn artefacts() -> PathBuf {
    let test = std::env::current_exe().expect("the kernel knows our path");
    let directory = test.parent().expect("a file lies in a directory");
    assert_eq!(
        directory.file_name(),
        Some(OsStr::new("deps")),
        "cargo's layout has changed"
    );
    directory.to_owned()
}
