//! `cargo xtask gpu-check`: a folder that proves cudasnoop on a machine with a GPU.
//!
//! dist/gpu-check/ runs where there are an NVIDIA driver and PyTorch, and nothing else of ours:
//! the two commands, and the scripts of tests/gpu-check.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::{
    build, command, layout,
    progress::{say, step},
};

/// What the folder may weigh, so that it travels easily.
const LIMIT: u64 = 60 << 20;

pub(crate) fn run() -> Result<()> {
    build::run(&build::Options::default())?;
    let folder = layout::dist().join("gpu-check");
    let bytes = step("gpu-check folder", || fill(&folder))?;
    ensure!(
        bytes <= LIMIT,
        "{} has {} MiB, more than the {} MiB that it may have: see what grew",
        folder.display(),
        bytes >> 20,
        LIMIT >> 20
    );
    say(format_args!("{} has {} MiB", folder.display(), bytes >> 20));
    say("on a machine with a GPU, as root: python3 gpu-check/run.py --out results");
    Ok(())
}

/// Makes the folder anew and returns its size in bytes.
fn fill(folder: &Path) -> Result<u64> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("could not remove the old {}", folder.display()))?;
    }
    let mut bytes = copy_scripts(&layout::root().join("tests/gpu-check"), folder)?;
    for program in ["cudasnoop", "cudasnoop-analyzer"] {
        let stripped = folder.join(program);
        build::stripped(program, &stripped)?;
        bytes += size(&stripped)?;
    }
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty"])
        .current_dir(layout::root());
    match command::output(&mut git) {
        Ok(commit) => fs::write(folder.join("COMMIT"), commit)
            .with_context(|| format!("could not write {}/COMMIT", folder.display()))?,
        Err(error) => say(format_args!(
            "the results will not name a commit: {error:#}"
        )),
    }
    Ok(bytes)
}

/// Copies a tree without hidden files, Python's caches and the scripts' own tests, and returns
/// its size in bytes.
fn copy_scripts(from: &Path, to: &Path) -> Result<u64> {
    fs::create_dir_all(to).with_context(|| format!("could not make {}", to.display()))?;
    let attempt = || format!("could not list {}", from.display());
    let mut bytes = 0;
    for entry in fs::read_dir(from).with_context(attempt)? {
        let entry = entry.with_context(attempt)?;
        let (source, name) = (entry.path(), entry.file_name());
        let target = to.join(&name);
        let name = name.to_string_lossy();
        if name.starts_with('.') || name.starts_with("test_") || name == "__pycache__" {
            continue;
        }
        if source.is_dir() {
            bytes += copy_scripts(&source, &target)?;
        } else {
            bytes += copy(&source, &target)?;
        }
    }
    Ok(bytes)
}

fn copy(from: &Path, to: &Path) -> Result<u64> {
    fs::copy(from, to)
        .with_context(|| format!("could not copy {} to {}", from.display(), to.display()))
}

fn size(file: &Path) -> Result<u64> {
    let metadata =
        fs::metadata(file).with_context(|| format!("could not read {}", file.display()))?;
    Ok(metadata.len())
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn the_folder_has_what_runs_there_and_nothing_else() {
        let folder = env::temp_dir().join(format!("cudasnoop-gpu-check-{}", std::process::id()));
        let bytes = copy_scripts(&layout::root().join("tests/gpu-check"), &folder).unwrap();
        for file in [
            "run.py",
            "checks/launches.py",
            "scenarios/truth.py",
            "programs/calls.cu",
        ] {
            assert!(folder.join(file).is_file(), "{file}");
        }
        for file in ["test_run.py", ".gitignore", "checks/__pycache__"] {
            assert!(!folder.join(file).exists(), "{file}");
        }
        assert!(bytes > 0);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_scripts_pass_their_own_tests() {
        let python = env::var_os("CUDASNOOP_PYTHON").unwrap_or_else(|| "python3".into());
        let mut tests = Command::new(python);
        tests
            .args(["-B", "-m", "unittest", "discover", "-s"])
            .arg(layout::root().join("tests/gpu-check"));
        command::output(&mut tests).unwrap();
    }
}
