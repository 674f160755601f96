//! `cargo xtask build`: from sources to dist/.

use std::{env, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::{
    command, doubles, layout,
    progress::{say, step},
    setup, toolchain,
};

/// Where the user names a finished eBPF object, so that no eBPF toolchain is needed. The agent's
/// build script reads it; without it, it takes the object that is built here.
const OBJECT_VARIABLE: &str = "CUDASNOOP_EBPF_OBJECT";

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Keep the eBPF programs' own log lines: for work on them, since every probe pays for it.
    #[arg(long)]
    ebpf_log: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    ebpf_object(options)?;
    product()?;
    doubles::build()?;
    say(format_args!(
        "everything is in {}",
        layout::dist().display()
    ));
    Ok(())
}

/// Makes `target/ebpf/cudasnoop.o`, unless the user has named a finished object. The file changes
/// only if its content does, so that the agent is not built again for nothing.
pub(crate) fn ebpf_object(options: &Options) -> Result<()> {
    if let Some(given) = env::var_os(OBJECT_VARIABLE) {
        return check_finished_object(Path::new(&given));
    }
    let rust = setup::bpf_rust()?;
    let linker = setup::bpf_linker(rust.llvm())?;
    let folder = layout::target().join("ebpf");
    let mut cargo = toolchain::bpf_cargo(&rust, &linker);
    cargo
        .args(["--package", "agent-ebpf", "--target-dir"])
        .arg(&folder);
    if options.ebpf_log {
        cargo.args(["--features", "log"]);
    }
    step("eBPF object", || {
        command::run(&mut cargo).with_context(|| {
            format!(
                "built by {rust}, linked by {}. If the linker complains of bitcode, its LLVM is \
                 older than LLVM {}: take it off PATH and run `cargo xtask setup`",
                linker.display(),
                rust.llvm()
            )
        })
    })?;
    layout::copy_if_changed(
        &folder.join("bpfel-unknown-none/release/cudasnoop-ebpf"),
        &folder.join("cudasnoop.o"),
    )
}

fn check_finished_object(given: &Path) -> Result<()> {
    let name = format!("{OBJECT_VARIABLE}={}", given.display());
    ensure!(
        given.is_absolute(),
        "{name}: give the full path, a build script runs elsewhere"
    );
    let content = fs::read(given).with_context(|| name.clone())?;
    ensure!(
        content.starts_with(b"\x7fELF"),
        "{name} is no ELF file: name the object that `cargo xtask build` leaves in \
         target/ebpf/cudasnoop.o, or unset the variable"
    );
    Ok(())
}

/// The analyzer as Rust programs are, and `cudasnoop` with glibc linked in: it goes into containers
/// and pods of all kinds as it is. What they have in common is compiled once.
fn product() -> Result<()> {
    let mut shared = toolchain::product_cargo("build")?;
    shared
        .args(["--release", "--package", "agent", "--package", "analyzer"])
        .args(["--lib", "--bin", "cudasnoop-analyzer"]);
    let mut last = toolchain::product_cargo("rustc")?;
    last.args(["--release", "--package", "agent", "--bin", "cudasnoop"])
        .args(["--", "-Ctarget-feature=+crt-static"]);
    step("cudasnoop and cudasnoop-analyzer", || {
        command::run(&mut shared)?;
        command::run(&mut last)
    })?;
    for program in ["cudasnoop", "cudasnoop-analyzer"] {
        layout::copy_if_changed(
            &layout::target().join("release").join(program),
            &layout::dist().join(program),
        )?;
    }
    Ok(())
}

/// A program of dist/ without its symbols, which are most of it.
pub(crate) fn stripped(program: &str, to: &Path) -> Result<()> {
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(to).arg(layout::dist().join(program));
    command::run(&mut strip).context("`strip` is part of binutils, as the linker is")
}
