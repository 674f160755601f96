//! `cargo xtask setup`: installs what is missing and may be installed; says what to run otherwise.
//!
//! Everything goes to the cache folder, except a component for rustup and, for root on Debian and
//! its kin, packages. Each tool has one function here that returns it, installing it if need be:
//! the other verbs call these.

mod cluster;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

pub(crate) use cluster::tools as cluster_tools;

use crate::{
    command, layout,
    progress::{say, step},
    toolchain::{self, BPF_LINKER_LLVM, BPF_LINKER_VERSION, BPF_MINOR, Rust},
};

/// What browsers of its kind are called.
const CHROMIUM_NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
];

/// Builds the image, and runs it in a pod.
const CONTAINER_PACKAGES: [&str; 4] = ["buildah", "catatonit", "crun", "podman"];
const EMULATOR_PACKAGES: [&str; 4] = ["busybox-static", "cpio", "linux-perf", "qemu-system-x86"];
/// What the tests read recordings, exports, metrics, manifests and the dashboard with, besides our
/// own readers; the last ones of `docs/fleet` and of Perfetto's format, whose versions decide what
/// is understood.
const PYTHON_PACKAGES: [(&str, Option<&str>); 8] = [
    ("grafana_foundation_sdk", None),
    ("hdrhistogram", None),
    ("kubernetes_validate", None),
    ("pyarrow", None),
    ("polars", None),
    ("prometheus_client", None),
    ("duckdb", Some("2.0.1")),
    ("perfetto", Some("0.59.1")),
];

/// What `report` is measured beside, for `cargo xtask bench` alone.
const BENCH_PACKAGES: [(&str, Option<&str>); 3] = [
    ("duckdb", Some("2.0.1")),
    ("pandas", None),
    ("pyarrow", None),
];

pub(crate) fn run() -> Result<()> {
    everything()?;
    say("everything is there: go on with `cargo xtask demo` or `cargo xtask test`");
    Ok(())
}

/// Sees to all tools and says which they are.
pub(crate) fn everything() -> Result<()> {
    say(format_args!("the product is built by {}", Rust::active()?));
    let rust = bpf_rust()?;
    say(format_args!("the eBPF object is built by {rust}"));
    say(format_args!(
        "and linked by {}",
        bpf_linker(rust.llvm())?.display()
    ));
    say(format_args!("the tests' Python is {}", python()?.display()));
    for (variable, tool) in cluster::tools()? {
        say(format_args!(
            "{variable} of the tests is {}",
            tool.display()
        ));
    }
    say(format_args!(
        "pages are tested in {}",
        chromium()?.display()
    ));
    say(format_args!(
        "the image is built by {}",
        buildah()?.display()
    ));
    Ok(())
}

/// The Rust that builds the eBPF object.
pub(crate) fn bpf_rust() -> Result<Rust> {
    if let Some(rust) = toolchain::bpf_rust() {
        return Ok(rust);
    }
    let rustup = rustup_with_core_source()?;
    let packages = ["rustc-web", "cargo-web", "rust-web-src"];
    let attempts = [
        rustup.map(|command| ("the source of `core` from rustup", vec![command])),
        may_use_apt().then(|| {
            (
                "a Rust with the source of `core` from Debian",
                apt(&packages),
            )
        }),
    ];
    for (name, commands) in attempts.into_iter().flatten() {
        install(name, commands);
        if let Some(rust) = toolchain::bpf_rust() {
            return Ok(rust);
        }
    }
    bail!(
        "no Rust here can build the eBPF object: it takes Rust 1.{BPF_MINOR} or newer with the \
         source of `core`. Do one of these and try again:\n  \
         rustup update stable && rustup component add rust-src\n  \
         apt-get install {} (as root, on Debian 12)\n\
         or set CUDASNOOP_EBPF_OBJECT to the path of an object that was built elsewhere",
        packages.join(" ")
    )
}

/// What makes rustup bring the source of `core`: for the Rust in use if it is new enough, else for
/// the nightly.
fn rustup_with_core_source() -> Result<Option<Command>> {
    let Some(rustup) = command::on_path("rustup") else {
        return Ok(None);
    };
    let mut rustup = Command::new(rustup);
    if Rust::active()?.suits_bpf() {
        // rustup knows the Rust in use from RUSTUP_TOOLCHAIN, which cargo has set.
        rustup.args(["component", "add", "rust-src"]);
    } else if Rust::rustup_nightly().is_some_and(|nightly| nightly.suits_bpf()) {
        rustup.args(["component", "add", "rust-src", "--toolchain", "nightly"]);
    } else {
        rustup.args(["toolchain", "install", "nightly", "--profile", "minimal"]);
        rustup.args(["--component", "rust-src"]);
    }
    Ok(Some(rustup))
}

/// The linker for eBPF objects whose bitcode this LLVM wrote.
pub(crate) fn bpf_linker(llvm: u32) -> Result<PathBuf> {
    if let Some(linker) = toolchain::bpf_linker(llvm)? {
        return Ok(linker);
    }
    let folder = toolchain::bpf_linker_folder(llvm)?;
    let packages = [format!("llvm-{llvm}-dev")];
    let buildable = BPF_LINKER_LLVM.contains(&llvm);
    if buildable && llvm_prefix(llvm).is_none() && may_use_apt() {
        install("LLVM for bpf-linker from Debian", apt(&packages));
    }
    let attempts = [
        llvm_prefix(llvm).filter(|_| buildable).map(|prefix| {
            (
                "bpf-linker from source",
                vec![build_bpf_linker(llvm, &prefix, &folder)],
            )
        }),
        Some((
            "bpf-linker as its authors publish it",
            download_bpf_linker(&folder)?,
        )),
    ];
    for (name, commands) in attempts.into_iter().flatten() {
        install(name, commands);
        if let Some(linker) = toolchain::bpf_linker(llvm)? {
            return Ok(linker);
        }
    }
    bail!(
        "bpf-linker is missing: the eBPF object cannot be linked. Do one of these and try again:\n  \
         cargo binstall bpf-linker\n  \
         apt-get install {} (as root; then `cargo xtask setup` builds it)\n\
         or put a bpf-linker with LLVM {llvm} or newer on PATH: \
         https://github.com/aya-rs/bpf-linker#installation\n\
         or set CUDASNOOP_EBPF_OBJECT to the path of an object that was built elsewhere",
        packages.join(" ")
    )
}

/// Where an LLVM of this version is installed with what it takes to link against it.
fn llvm_prefix(llvm: u32) -> Option<PathBuf> {
    let debian = PathBuf::from(format!("/usr/lib/llvm-{llvm}"));
    if debian.join("lib/libLLVM.so").exists() {
        return Some(debian);
    }
    let config = |flag| command::output(Command::new("llvm-config").arg(flag)).ok();
    let version = config("--version")?;
    let fits = version.split('.').next() == Some(llvm.to_string().as_str());
    fits.then(|| config("--prefix").map(|prefix| PathBuf::from(prefix.trim_end())))?
}

fn build_bpf_linker(llvm: u32, prefix: &Path, folder: &Path) -> Command {
    let mut cargo = toolchain::cargo("install");
    cargo
        .args(["bpf-linker", "--version", BPF_LINKER_VERSION, "--locked"])
        .args([
            "--no-default-features",
            "--features",
            &format!("llvm-{llvm}"),
            "--root",
        ])
        .arg(folder)
        .env("LLVM_PREFIX", prefix)
        // Its release profile asks for debug information, of which nobody here makes use.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    cargo
}

/// The release has a program for each processor that holds its own LLVM.
fn download_bpf_linker(folder: &Path) -> Result<Vec<Command>> {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).with_context(|| format!("could not make {}", bin.display()))?;
    let name = format!(
        "bpf-linker-{}-unknown-linux-musl.tar.zst",
        std::env::consts::ARCH
    );
    let archive = folder.join(&name);
    let mut curl = Command::new("curl");
    curl.args([
        "--fail",
        "--silent",
        "--show-error",
        "--location",
        "--connect-timeout",
        "10",
    ])
    .arg("--output")
    .arg(&archive)
    .arg(format!(
        "https://github.com/aya-rs/bpf-linker/releases/download/v{BPF_LINKER_VERSION}/{name}"
    ));
    let mut tar = Command::new("tar");
    tar.args(["--zstd", "--extract", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(bin);
    Ok(vec![curl, tar])
}

/// A Python of our own that can read Arrow streams.
pub(crate) fn python() -> Result<PathBuf> {
    python_with(&PYTHON_PACKAGES, "python", "Python packages for the tests")
}

/// Another one, with what `report` is measured beside.
pub(crate) fn bench_python() -> Result<PathBuf> {
    python_with(
        &BENCH_PACKAGES,
        "bench-python",
        "Python packages for the bench",
    )
}

fn python_with(packages: &[(&str, Option<&str>)], folder: &str, name: &str) -> Result<PathBuf> {
    let packages: Vec<String> = packages
        .iter()
        .map(|(name, version)| match version {
            Some(version) => format!("{name}=={version}"),
            None => (*name).to_owned(),
        })
        .collect();
    let folder = layout::cache()?.join(folder);
    let python = folder.join("bin/python");
    let has_packages = || {
        let check = "import sys; from importlib.metadata import version; \
                     wanted = [name.split('==') for name in sys.argv[1:]]; \
                     assert all(version(name) in (pin or [version(name)]) for name, *pin in wanted)";
        command::output(Command::new(&python).args(["-c", check]).args(&packages)).is_ok()
    };
    if has_packages() {
        return Ok(python);
    }
    step(name, || {
        let make = || {
            let mut venv = Command::new("python3");
            venv.args(["-m", "venv", "--clear"]).arg(&folder);
            command::run(&mut venv)
        };
        if make().is_err() && may_use_apt() {
            install("Python's venv from Debian", apt(&["python3-venv"]));
        }
        if !python.is_file() {
            make().context("install Python 3 with its venv module (Debian: python3-venv)")?;
        }
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet"])
            .args(&packages);
        command::run(&mut pip)
    })?;
    Ok(python)
}

/// What builds the image; podman, which runs it, comes with it.
pub(crate) fn buildah() -> Result<PathBuf> {
    let all = || {
        let found = ["podman", "crun"].map(command::on_path);
        command::on_path("buildah").filter(|_| found.iter().all(Option::is_some))
    };
    if let Some(buildah) = all() {
        return Ok(buildah);
    }
    if may_use_apt() {
        install("podman and buildah from Debian", apt(&CONTAINER_PACKAGES));
    }
    all().with_context(|| {
        format!(
            "buildah, podman or crun is missing, by which the image is built and run. Try again \
             after:\n  apt-get install {} (as root, on Debian)",
            CONTAINER_PACKAGES.join(" ")
        )
    })
}

/// The browser that pages are tested in.
pub(crate) fn chromium() -> Result<PathBuf> {
    let found = || CHROMIUM_NAMES.into_iter().find_map(command::on_path);
    if let Some(chromium) = found() {
        return Ok(chromium);
    }
    if may_use_apt() {
        install("Chromium from Debian", apt(&["chromium"]));
    }
    found().context(
        "Chromium is missing, in which pages are tested. Try again after:\n  \
         apt-get install chromium (as root, on Debian)",
    )
}

/// What emulates a machine, and what goes into it.
pub(crate) fn emulator() -> Result<()> {
    let missing = || {
        let tools = ["qemu-system-x86_64", "busybox", "cpio", "perf"];
        tools
            .into_iter()
            .find(|tool| command::on_path(tool).is_none())
    };
    if missing().is_some() && may_use_apt() {
        install("qemu from Debian", apt(&EMULATOR_PACKAGES));
    }
    match missing() {
        None => Ok(()),
        Some(tool) => bail!(
            "{tool} is missing, by which an older kernel is tried. Try again after:\n  apt-get install \
             {} (as root, on Debian)",
            EMULATOR_PACKAGES.join(" ")
        ),
    }
}

/// Runs an attempt to install something. Where it fails there is another way, or the caller says
/// what to do, so the failure is only shown.
fn install(name: &str, commands: Vec<Command>) {
    let attempt = step(name, || {
        commands
            .into_iter()
            .try_for_each(|mut each| command::run(&mut each))
    });
    if let Err(error) = attempt {
        say(format_args!("not installed: {error:#}"));
    }
}

fn may_use_apt() -> bool {
    command::is_root() && command::on_path("apt-get").is_some()
}

/// Learns which packages there are. A source that can't be reached must not keep the others from
/// being used: `|| true`.
fn apt_update() -> Command {
    let mut update = Command::new("sh");
    update.args(["-c", "apt-get -q update || true"]);
    update
}

fn apt<S: AsRef<str>>(packages: &[S]) -> Vec<Command> {
    let mut install = Command::new("apt-get");
    install
        .args(["install", "-q", "-y", "--no-install-recommends"])
        // A fresh machine may be installing its own updates.
        .args(["-o", "DPkg::Lock::Timeout=120"])
        .args(packages.iter().map(AsRef::as_ref))
        .env("DEBIAN_FRONTEND", "noninteractive");
    vec![apt_update(), install]
}
