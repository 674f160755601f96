//! Which compiler builds what, and what an older compiler needs. This is the only place that knows.
//!
//! **The product** (agent, analyzer, tests) is built by the Rust that runs xtask. aya 0.16 asks for
//! 1.98, but an older one fails at a single spot: aya-obj calls `Option::map_or_default`, which was
//! still unstable. So for an older rustc [`product_cargo`]
//! - switches that library feature on in every crate (`-Zcrate-attr`, which `RUSTC_BOOTSTRAP=1`
//!   permits on a stable compiler), and
//! - tells cargo to disregard the declared Rust versions, in the build and when it resolves.
//!
//! With 1.98 or newer none of this happens. Delete it when nobody builds with less.
//!
//! **The eBPF object** needs a compiler that brings the source of `core`, since no toolchain has a
//! compiled one for `bpfel-unknown-none`, and `-Zbuild-std` to use it. That takes no nightly:
//! `RUSTC_BOOTSTRAP=1` opens a stable compiler as well. [`bpf_rust`] takes the first that fits of
//! 1. the Rust that runs xtask, if its component `rust-src` is installed;
//! 2. rustup's nightly with `rust-src`;
//! 3. the distribution's (on Debian 12 the packages rustc-web, cargo-web and rust-web-src).
//!
//! **The linker** of that object is bpf-linker. It reads the LLVM bitcode that rustc writes, so its
//! LLVM must not be older than rustc's. Ours is kept in a cache folder named after its own version
//! and the LLVM that it must read, so that a newer Rust gets a new one; see [`bpf_linker`].

use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{command, layout};

/// The minor version of Rust 1 that aya 0.16 declares.
const PRODUCT_MINOR: u32 = 98;

/// The oldest minor version of Rust 1 that the eBPF crate was built with.
pub(crate) const BPF_MINOR: u32 = 96;

/// The bpf-linker that is installed where there is none.
pub(crate) const BPF_LINKER_VERSION: &str = "0.13.0";

/// The LLVM versions that this bpf-linker can be built for: its cargo features `llvm-N`.
pub(crate) const BPF_LINKER_LLVM: [u32; 3] = [21, 22, 23];

/// One installed Rust.
#[derive(Debug, Clone)]
pub(crate) struct Rust {
    sysroot: PathBuf,
    version: RustVersion,
}

/// What `rustc -vV` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RustVersion {
    minor: u32,
    llvm: u32,
}

impl Rust {
    /// The Rust that runs xtask. Under rustup, cargo has already fixed it in `RUSTUP_TOOLCHAIN`.
    pub(crate) fn active() -> Result<Self> {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
        let sysroot = command::output(Command::new(rustc).args(["--print", "sysroot"]))?;
        Self::at(Path::new(sysroot.trim_end()))
    }

    /// rustup's nightly, if rustup and it are installed.
    pub(crate) fn rustup_nightly() -> Option<Self> {
        let mut query = Command::new("rustup");
        query.args(["run", "nightly", "rustc", "--print", "sysroot"]);
        // Only ask: some versions of rustup install what is missing.
        query.env("RUSTUP_AUTO_INSTALL", "0");
        let sysroot = command::output(&mut query).ok()?;
        Self::at(Path::new(sysroot.trim_end())).ok()
    }

    fn distribution() -> Option<Self> {
        Self::at(Path::new("/usr")).ok()
    }

    fn at(sysroot: &Path) -> Result<Self> {
        let rustc = sysroot.join("bin/rustc");
        let text = command::output(Command::new(&rustc).arg("-vV"))?;
        let version = RustVersion::parse(&text)
            .with_context(|| format!("`{} -vV` names no version: {text}", rustc.display()))?;
        Ok(Self {
            sysroot: sysroot.to_path_buf(),
            version,
        })
    }

    /// The major version of its LLVM.
    pub(crate) fn llvm(&self) -> u32 {
        self.version.llvm
    }

    /// Whether it is new enough for the eBPF crate, be the source of `core` there or not.
    pub(crate) fn suits_bpf(&self) -> bool {
        self.version.minor >= BPF_MINOR
    }

    fn builds_bpf(&self) -> bool {
        let core = "lib/rustlib/src/rust/library/core/src/lib.rs";
        self.suits_bpf()
            && self.sysroot.join(core).is_file()
            && self.sysroot.join("bin/cargo").is_file()
    }
}

impl fmt::Display for Rust {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RustVersion { minor, llvm } = self.version;
        write!(
            out,
            "Rust 1.{minor} (LLVM {llvm}) in {}",
            self.sysroot.display()
        )
    }
}

impl RustVersion {
    fn parse(verbose_version: &str) -> Option<Self> {
        let field = |name| {
            verbose_version
                .lines()
                .find_map(|line| line.strip_prefix(name))
        };
        Some(Self {
            minor: field("release: 1.")?.split('.').next()?.parse().ok()?,
            llvm: field("LLVM version: ")?.split('.').next()?.parse().ok()?,
        })
    }
}

/// Plain cargo in the repository's root: the one that runs xtask.
pub(crate) fn cargo(subcommand: &str) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    cargo.current_dir(layout::root()).arg(subcommand);
    cargo
}

/// Cargo for the product and its tests, with what this Rust needs to build them.
pub(crate) fn product_cargo(subcommand: &str) -> Result<Command> {
    let rust = Rust::active()?;
    let mut cargo = cargo(subcommand);
    if rust.version.minor < PRODUCT_MINOR {
        disregard_rust_versions(&mut cargo);
        let mut flags = Vec::from_iter(env::var("RUSTFLAGS"));
        flags.push("-Zcrate-attr=feature(result_option_map_or_default)".to_owned());
        cargo.env("RUSTFLAGS", flags.join(" "));
        cargo.env("RUSTC_BOOTSTRAP", "1");
    }
    Ok(cargo)
}

fn disregard_rust_versions(cargo: &mut Command) {
    cargo.args(["--ignore-rust-version", "--config"]);
    cargo.arg(r#"resolver.incompatible-rust-versions="allow""#);
}

/// The first installed Rust that can build the eBPF object.
pub(crate) fn bpf_rust() -> Option<Rust> {
    let candidates: [fn() -> Option<Rust>; 3] = [
        || Rust::active().ok(),
        Rust::rustup_nightly,
        Rust::distribution,
    ];
    candidates
        .into_iter()
        .filter_map(|candidate| candidate())
        .find(Rust::builds_bpf)
}

/// Where [`bpf_linker`] looks first, and where a linker for this LLVM is to be installed (`bin/`).
pub(crate) fn bpf_linker_folder(llvm: u32) -> Result<PathBuf> {
    Ok(layout::cache()?.join(format!("bpf-linker-{BPF_LINKER_VERSION}-llvm-{llvm}")))
}

/// The linker for bitcode of this LLVM: ours, else the one on `PATH`, which does not tell its LLVM
/// and is taken at its word.
pub(crate) fn bpf_linker(llvm: u32) -> Result<Option<PathBuf>> {
    let ours = bpf_linker_folder(llvm)?.join("bin/bpf-linker");
    Ok(if ours.is_file() {
        Some(ours)
    } else {
        command::on_path("bpf-linker")
    })
}

/// `cargo build` for a crate of eBPF programs; the caller adds the package and the folder.
///
/// The object carries BTF and, by way of it, line numbers for the verifier's log.
pub(crate) fn bpf_cargo(rust: &Rust, linker: &Path) -> Command {
    let flags = [
        // aya-ebpf lays out the registers of the machine that the object is built for.
        format!("--cfg=bpf_target_arch=\"{}\"", env::consts::ARCH),
        "-Cdebuginfo=2".to_owned(),
        "-Clink-arg=--btf".to_owned(),
        format!("-Clinker={}", linker.display()),
    ];
    let mut cargo = Command::new(rust.sysroot.join("bin/cargo"));
    cargo
        .current_dir(layout::root())
        .args([
            "build",
            "--release",
            "--target",
            "bpfel-unknown-none",
            "-Zbuild-std=core",
        ])
        .env("RUSTC", rust.sysroot.join("bin/rustc"))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    if rust.version.minor < PRODUCT_MINOR {
        disregard_rust_versions(&mut cargo);
    }
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_every_kind_of_rustc_is_understood() {
        let stable = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nrelease: 1.95.0\n\
                      LLVM version: 22.1.2\n";
        assert_eq!(
            RustVersion::parse(stable),
            Some(RustVersion {
                minor: 95,
                llvm: 22
            })
        );
        let nightly = "release: 1.97.0-nightly\nLLVM version: 23.1.0-rc1\n";
        assert_eq!(
            RustVersion::parse(nightly),
            Some(RustVersion {
                minor: 97,
                llvm: 23
            })
        );
        assert_eq!(RustVersion::parse("release: 1.95.0\n"), None);
    }

    #[test]
    fn the_rust_that_runs_this_test_is_found() {
        let rust = Rust::active().unwrap();
        assert!(rust.sysroot.join("bin/rustc").is_file());
        assert!(
            rust.version.minor >= 85,
            "xtask itself needs 1.85, found {rust}"
        );
    }
}
