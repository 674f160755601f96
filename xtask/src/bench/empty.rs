//! The empty probes: tests/empty-probes, built and asked for the functions that it probes.

use std::{path::PathBuf, slice};

use anyhow::{Context as _, Result};

use super::{machine::Processors, observer::Observer, workload::Workload};
use crate::{command, layout, progress::step, setup, toolchain};

const PACKAGE: &str = "empty-probes";

/// The program that attaches them.
pub(super) fn loader() -> PathBuf {
    layout::target().join("release").join(PACKAGE)
}

/// Their eBPF object.
pub(super) fn object() -> PathBuf {
    layout::target().join("ebpf/bpfel-unknown-none/release/empty-programs")
}

/// Builds both.
pub(super) fn build() -> Result<()> {
    let rust = setup::bpf_rust()?;
    let linker = setup::bpf_linker(rust.llvm())?;
    let mut programs = toolchain::bpf_cargo(&rust, &linker);
    programs.args([
        "--package",
        PACKAGE,
        "--bin",
        "empty-programs",
        "--features",
        "programs",
    ]);
    programs
        .arg("--target-dir")
        .arg(layout::target().join("ebpf"));
    let mut loader = toolchain::product_cargo("build")?;
    loader.args(["--release", "--package", PACKAGE]);
    step("empty probes", || {
        command::run(&mut programs)?;
        command::run(&mut loader)
    })
}

/// A probed function.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) symbol: String,
    pub(super) file: String,
}

/// The functions that are probed in a workload, by empty probes as by cudasnoop.
pub(super) fn functions(workload: &Workload, processors: Processors) -> Result<Vec<Function>> {
    let waiting = workload.start(processors.program)?;
    let (_, said) = Observer::Empty
        .start(slice::from_ref(&waiting), processors.tool)?
        .stop()?;
    waiting.go()?;
    said.lines()
        .filter(|line| *line != "attached")
        .map(|line| {
            let (symbol, file) = line
                .split_once(' ')
                .with_context(|| format!("{PACKAGE} printed a line that names no file: {line}"))?;
            Ok(Function {
                symbol: symbol.to_owned(),
                file: file.to_owned(),
            })
        })
        .collect()
}
