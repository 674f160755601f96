//! `cargo xtask kernel`: the same program on an older kernel, in qemu: Debian's Linux 6.1, which has
//! no multi links.
//!
//! By hand, not in CI: the machine is emulated, and its verifier takes minutes.

mod guest;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{
    build, command, layout,
    progress::{say, step},
    setup,
};

/// Debian's name for the newest kernel of its stable release with few drivers.
const PACKAGE: &str = "linux-image-cloud-amd64";

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A kernel package (.deb) in place of Debian's own.
    #[arg(long, value_name = "FILE")]
    package: Option<PathBuf>,
    /// Take what lies in dist/, without building anything.
    #[arg(long)]
    no_build: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options { package, no_build } = options;
    if !no_build {
        build::run(&build::Options::default())?;
    }
    setup::emulator()?;
    let folder = layout::target().join("kernel");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let package = match package {
        Some(package) => package.clone(),
        None => download(&folder)?,
    };
    let kernel = unpacked(&package, &folder)?;
    let image = guest::image(&folder)?;
    let said = step("an emulated machine (minutes)", || boot(&kernel, &image))?;
    let file = folder.join("console.txt");
    fs::write(&file, &said).with_context(|| format!("writing {}", file.display()))?;
    let release = guest::part(&said, "release")?;
    let compared = compare(
        &parsed(guest::part(&said, "truth")?)?,
        &parsed(guest::part(&said, "report")?)?,
    )?;
    say(format_args!(
        "Linux {}: {compared} functions, each called as often as recorded; all of it is in {}",
        release.trim(),
        file.display()
    ));
    Ok(())
}

/// The kernel's package, by apt's own lists.
fn download(folder: &Path) -> Result<PathBuf> {
    let mut depends = Command::new("apt-cache");
    depends.args(["depends", "--important", PACKAGE]);
    let depends = command::output(&mut depends)?;
    let name = depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: linux-image-"))
        .with_context(|| format!("{PACKAGE} depends on no kernel: {depends}"))?;
    let name = format!("linux-image-{name}");
    let found = || {
        let files = fs::read_dir(folder).ok()?;
        files
            .filter_map(|file| Some(file.ok()?.path()))
            .find(|file| {
                let file = file.file_name().unwrap_or_default().to_string_lossy();
                file.starts_with(&name) && file.ends_with(".deb")
            })
    };
    if found().is_none() {
        let mut download = Command::new("apt-get");
        download.args(["download", &name]).current_dir(folder);
        command::run(&mut download)?;
    }
    found().with_context(|| format!("apt-get download {name} left no file"))
}

/// The kernel in a package.
fn unpacked(package: &Path, folder: &Path) -> Result<PathBuf> {
    let to = folder.join("unpacked");
    if to.exists() {
        fs::remove_dir_all(&to)?;
    }
    command::run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&to))?;
    let boot = to.join("boot");
    let files = fs::read_dir(&boot).with_context(|| format!("reading {}", boot.display()))?;
    files
        .filter_map(|file| Some(file.ok()?.path()))
        .find(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("vmlinuz-")
        })
        .with_context(|| format!("{} has no kernel", package.display()))
}

/// Runs the machine until it turns itself off; what it wrote to its console.
fn boot(kernel: &Path, image: &Path) -> Result<String> {
    let mut qemu = Command::new("timeout");
    qemu.args(["1800", "qemu-system-x86_64"])
        // Emulated: a machine inside of a virtual one does not always start by KVM.
        .args(["-accel", "tcg", "-cpu", "max", "-m", "2048", "-smp", "2"])
        .args(["-nographic", "-vga", "none", "-no-reboot", "-kernel"])
        .arg(kernel)
        .arg("-initrd")
        .arg(image)
        .args(["-append", "console=ttyS0 panic=-1 quiet"]);
    command::output(&mut qemu)
}

fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text.trim()).with_context(|| format!("no JSON: {text}"))
}

/// Compares calls by function; how many functions were compared.
fn compare(truth: &Value, report: &Value) -> Result<usize> {
    let recorded: BTreeMap<&str, u64> = report["calls"]
        .as_array()
        .context("a report lists calls")?
        .iter()
        .filter_map(|row| Some((row["api"].as_str()?, row["calls"].as_u64()?)))
        .collect();
    let mut compared = 0;
    for list in ["calls", "driver_calls_own"] {
        let made = truth[list].as_object().context("a truth lists calls")?;
        for (api, made) in made {
            // Single uprobes stand on the commonest functions alone.
            if let Some(recorded) = recorded.get(api.as_str()) {
                ensure!(
                    made.as_u64() == Some(*recorded),
                    "{api}: {made} calls were made, and {recorded} recorded"
                );
                compared += 1;
            }
        }
    }
    ensure!(compared >= 10, "only {compared} functions were recorded");
    ensure!(
        report["recording"]["complete"] == true,
        "the recording is not complete"
    );
    Ok(compared)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_too_few_is_told() {
        let calls = |first: u64| -> Vec<Value> {
            (0..12)
                .map(|n| json!({"api": format!("cu{n}"), "calls": if n == 0 { first } else { n }}))
                .collect()
        };
        let made: serde_json::Map<String, Value> =
            (0..12).map(|n| (format!("cu{n}"), json!(n))).collect();
        let truth = json!({"calls": {}, "driver_calls_own": made});
        let report = |first| json!({"calls": calls(first), "recording": {"complete": true}});
        assert_eq!(compare(&truth, &report(0)).unwrap(), 12);
        let error = compare(&truth, &report(7)).unwrap_err();
        assert!(error.to_string().contains("cu0: 0 calls were made, and 7"));
    }
}
