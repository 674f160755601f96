//! Where things lie: the repository, its build folders and the cache.

use std::{
    env, fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

/// Cargo's folder for the product and the tests.
pub(crate) fn target() -> PathBuf {
    root().join("target")
}

/// What a build leaves for people and for the end-to-end tests.
pub(crate) fn dist() -> PathBuf {
    root().join("dist")
}

/// What is installed for builds and tests and survives `cargo clean`: `$XDG_CACHE_HOME/cudasnoop`
/// or `~/.cache/cudasnoop`.
pub(crate) fn cache() -> Result<PathBuf> {
    let folder = match env::var_os("XDG_CACHE_HOME").map(PathBuf::from) {
        // The XDG base directory specification: a relative path there is to be ignored.
        Some(folder) if folder.is_absolute() => folder,
        Some(_) | None => env::var_os("HOME")
            .map(|home| Path::new(&home).join(".cache"))
            .context("neither XDG_CACHE_HOME nor HOME says where to keep tools: set one of them")?,
    };
    Ok(folder.join("cudasnoop"))
}

/// Copies a file unless the copy is already the same, so that nothing that depends on the copy is
/// rebuilt. A running program keeps its old file.
pub(crate) fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let attempt = || format!("could not copy {} to {}", from.display(), to.display());
    let content = fs::read(from).with_context(attempt)?;
    match fs::read(to) {
        Ok(old) if old == content => return Ok(()),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(attempt),
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(attempt)?;
    }
    let unfinished = to.with_extension("unfinished");
    fs::copy(from, &unfinished).with_context(attempt)?;
    fs::rename(&unfinished, to).with_context(attempt)
}
