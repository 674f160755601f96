//! Kernels, from Debian's archive.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::command;

/// Debian's name for a release's kernel with few drivers.
const PACKAGE: &str = "linux-image-cloud-amd64";
/// What the archive is signed with (package `debian-archive-keyring`).
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The kernel of a release: its name (`bookworm`), and a folder that is its own. It comes from
/// where this machine's packages come from, and stays.
pub(super) fn kernel(suite: &str, folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder.join("lists/partial"))?;
    fs::create_dir_all(folder.join("cache/archives/partial"))?;
    let sources = folder.join("sources.list");
    let archive = archive()?;
    fs::write(
        &sources,
        format!("deb [signed-by={KEYS}] {archive} {suite} main\n"),
    )?;
    let apt = |tool: &str, arguments: &[&str]| {
        let mut apt = Command::new(tool);
        let option = |name: &str, value: &Path| format!("-o{name}={}", value.display());
        apt.arg(option("Dir::Etc::SourceList", &sources))
            .arg(option("Dir::Etc::SourceParts", Path::new("/dev/null")))
            .arg(option("Dir::State::Lists", &folder.join("lists")))
            .arg(option("Dir::Cache", &folder.join("cache")))
            .args(arguments)
            .current_dir(folder);
        apt
    };
    command::run(&mut apt("apt-get", &["update"]))?;
    let depends = command::output(&mut apt("apt-cache", &["depends", "--important", PACKAGE]))?;
    let name = depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: linux-image-"))
        .with_context(|| format!("{suite}'s {PACKAGE} depends on no kernel: {depends}"))?;
    let name = format!("linux-image-{name}");
    let package = || file_in(folder, |file| file.starts_with(&format!("{name}_")));
    if package()?.is_none() {
        command::run(&mut apt("apt-get", &["download", &name]))?;
    }
    let package = package()?.with_context(|| format!("apt-get download {name} left no file"))?;
    unpacked(&package, folder)
}

/// The archive that this machine has most packages from.
fn archive() -> Result<String> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(REPO_URI)"]);
    let targets = command::output(&mut targets)?;
    let archives = targets.lines().filter(|uri| !uri.contains("security"));
    let archive = archives.map(str::trim).next();
    Ok(archive
        .context("apt-get indextargets names no archive: apt-get update, as root")?
        .to_owned())
}

/// The kernel in a package.
pub(super) fn unpacked(package: &Path, folder: &Path) -> Result<PathBuf> {
    let to = folder.join("unpacked");
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    command::run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&to))?;
    file_in(&to.join("boot"), |name| name.starts_with("vmlinuz-"))?
        .with_context(|| format!("{} has no kernel", package.display()))
}

fn file_in(folder: &Path, is_it: impl Fn(&str) -> bool) -> Result<Option<PathBuf>> {
    let files = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    Ok(files
        .filter_map(|file| Some(file.ok()?.path()))
        .find(|file| {
            file.file_name()
                .is_some_and(|name| is_it(&name.to_string_lossy()))
        }))
}
