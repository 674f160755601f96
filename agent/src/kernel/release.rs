//! Which kernel runs.

use std::fmt;

/// The release of the running kernel, as `uname -r` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release(String);

impl Release {
    /// The kernel that calls itself this.
    pub fn new(release: impl Into<String>) -> Self {
        Self(release.into())
    }

    /// That of the running kernel; empty where it is not told.
    pub fn running() -> Self {
        let name = nix::sys::utsname::uname();
        Self::new(
            name.map(|name| name.release().to_string_lossy().into_owned())
                .unwrap_or_default(),
        )
    }

    /// Major and minor version; `None` for a release that does not begin with them.
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut numbers = self.0.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for (release, version) in [
            ("6.18.44-generic", Some((6, 18))),
            ("5.15", Some((5, 15))),
            ("5.14.0-503.el9.x86_64", Some((5, 14))),
            ("odd", None),
            ("6", None),
            ("6.99999999999", None),
            ("", None),
        ] {
            assert_eq!(Release::new(release).version(), version, "{release}");
        }
    }
}
