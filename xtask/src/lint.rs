//! `cargo xtask lint`: formatting and clippy; warnings are errors.

use anyhow::{Context as _, Result};

use crate::{build, command, progress::step, toolchain};

pub(crate) fn run() -> Result<()> {
    let mut format = toolchain::cargo("fmt");
    format.args(["--all", "--check"]);
    step("formatting", || {
        command::run(&mut format).context("`cargo fmt --all` puts it right")
    })?;

    // The agent embeds it, so that clippy can't do without.
    build::ebpf_object(&build::Options::default())?;
    let mut clippy = toolchain::product_cargo("clippy")?;
    clippy
        // The eBPF programs compile only for their own target, whose Rust may have no clippy.
        .args([
            "--release",
            "--workspace",
            "--exclude",
            "agent-ebpf",
            "--all-targets",
        ])
        .args(["--", "--deny", "warnings"]);
    step("clippy", || command::run(&mut clippy))?;

    // Nothing else builds it so: the agent takes all features.
    let mut without = toolchain::product_cargo("clippy")?;
    without
        .args([
            "--release",
            "--package",
            "analyzer",
            "--no-default-features",
        ])
        .args(["--", "--deny", "warnings"]);
    step("clippy, the analyzer without Parquet", || {
        command::run(&mut without)
    })
}
