//! Where the browser is.

use std::env;
use std::path::PathBuf;

const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
];

/// The browser that `CUDASNOOP_CHROMIUM` names, or one that is on `PATH`.
pub(crate) fn chromium() -> PathBuf {
    if let Some(named) = env::var_os("CUDASNOOP_CHROMIUM") {
        return named.into();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    let found = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|program| program.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "no Chromium, in which pages are tested: `cargo xtask setup` installs it (as root, on \
             Debian: `apt-get install chromium`), or CUDASNOOP_CHROMIUM names one"
        )
    })
}
