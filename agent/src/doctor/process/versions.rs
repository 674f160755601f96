//! Versions of the driver and of the CUDA runtime, and whether they fit together.

use std::{fmt, fs};

/// A driver's version: `580.159.04`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DriverVersion {
    branch: u32,
    minor: u32,
    patch: Option<u32>,
}

impl DriverVersion {
    /// Two or three numbers with dots between them, nothing else.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(number);
        let version = Self {
            branch: numbers.next()??,
            minor: numbers.next()??,
            patch: match numbers.next() {
                Some(patch) => Some(patch?),
                None => None,
            },
        };
        numbers.next().is_none().then_some(version)
    }

    /// That in the name of the driver library's file: `libcuda.so.580.159.04`.
    pub(super) fn of_library(file_name: &str) -> Option<Self> {
        Self::parse(file_name.strip_prefix("libcuda.so.")?)
    }

    /// That of the kernel module that is loaded.
    pub(super) fn of_module() -> Option<Self> {
        Self::in_banner(&fs::read_to_string("/proc/driver/nvidia/version").ok()?)
    }

    /// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue ...`, and of the open
    /// one `NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build ...`.
    fn in_banner(banner: &str) -> Option<Self> {
        let line = banner
            .lines()
            .find_map(|line| line.strip_prefix("NVRM version:"))?;
        line.split_ascii_whitespace().find_map(Self::parse)
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            branch,
            minor,
            patch,
        } = self;
        match (minor, patch) {
            // A whole branch.
            (0, None) => write!(f, "{branch}"),
            (minor, None) => write!(f, "{branch}.{minor:02}"),
            (minor, Some(patch)) => write!(f, "{branch}.{minor:02}.{patch:02}"),
        }
    }
}

/// A CUDA runtime's version, as far as its file tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuntimeVersion {
    pub(super) major: u32,
    /// `12.8.90` from the file's name, `12` from the soname.
    pub(super) text: String,
}

impl RuntimeVersion {
    /// From the name of the file (`libcudart.so.12.8.90`), else from the soname
    /// (`libcudart.so.12`; all of CUDA 11 has `libcudart.so.11.0`).
    pub(super) fn of_library(file_name: &str, soname: Option<&str>) -> Option<Self> {
        [Some(file_name), soname]
            .into_iter()
            .flatten()
            .find_map(Self::parse)
    }

    fn parse(name: &str) -> Option<Self> {
        let (stem, version) = name.split_once(".so.")?;
        if !stem.starts_with("libcudart") {
            return None;
        }
        let numbers = version
            .split('.')
            .map(number)
            .collect::<Option<Vec<u32>>>()?;
        let major = *numbers.first()?;
        let text = match numbers.len() {
            // A soname: what comes after the major is no version.
            1 | 2 => major.to_string(),
            _ => version.to_owned(),
        };
        Some(Self { major, text })
    }

    /// The oldest driver that runs it, on Linux; `None` for a CUDA that is not known.
    ///
    /// Minor version compatibility, from CUDA 11 on:
    /// <https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html>; the
    /// full versions are those of the CUDA Toolkit's release notes.
    pub(super) const fn oldest_driver(&self) -> Option<DriverVersion> {
        let (branch, minor, patch) = match self.major {
            11 => (450, 80, Some(2)),
            12 => (525, 60, Some(13)),
            13 => (580, 0, None),
            _ => return None,
        };
        Some(DriverVersion {
            branch,
            minor,
            patch,
        })
    }
}

/// Decimal digits alone; `parse` would take a sign.
fn number(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_versions() {
        let of = |name: &str| DriverVersion::of_library(name).map(|found| found.to_string());
        assert_eq!(of("libcuda.so.580.159.04").as_deref(), Some("580.159.04"));
        assert_eq!(of("libcuda.so.450.80.02").as_deref(), Some("450.80.02"));
        assert_eq!(of("libcuda.so.396.26").as_deref(), Some("396.26"));
        for odd in [
            "libcuda.so.1",
            "libcuda.so",
            "libcuda.so.",
            "libcuda.so.580.159.04.1",
            "libcuda.so.580..04",
            "libcuda.so.580.-1",
            "libcuda.so.580.+1",
            "libcuda.so.99999999999.1.1",
            "libcudart.so.12.8.90",
            "libcuda.so.580.159.04 (deleted)",
            "",
        ] {
            assert_eq!(of(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_module_says_its_version() {
        let of = |banner: &str| DriverVersion::in_banner(banner).map(|found| found.to_string());
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 \
            01:15:15 UTC 2023\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n";
        assert_eq!(of(closed).as_deref(), Some("535.104.05"));
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release \
            Build  (dvs-builder)  Wed Aug 27\nGCC version:  gcc version 11.4.0\n";
        assert_eq!(of(open).as_deref(), Some("580.82.07"));
        for odd in [
            "",
            "NVRM version:",
            "GCC version:  gcc version 12.2.0",
            "\0\0\0",
        ] {
            assert_eq!(of(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn runtime_versions() {
        let of = |name: &str, soname: Option<&str>| {
            RuntimeVersion::of_library(name, soname).map(|found| (found.major, found.text))
        };
        let is = |major: u32, text: &str| Some((major, text.to_owned()));
        assert_eq!(of("libcudart.so.12.8.90", None), is(12, "12.8.90"));
        assert_eq!(of("libcudart.so.11.0", None), is(11, "11"));
        assert_eq!(of("libcudart.so.13", None), is(13, "13"));
        assert_eq!(of("libcudart-d0da41ae.so.11.0", None), is(11, "11"));
        assert_eq!(of("renamed", Some("libcudart.so.12")), is(12, "12"));
        for odd in [
            "libcudart.so",
            "libcudart.so.x",
            "libcudart.so.12.",
            "libc.so.6",
            "",
        ] {
            assert_eq!(of(odd, None), None, "{odd}");
            assert_eq!(of(odd, Some(odd)), None, "{odd}");
        }
    }

    #[test]
    fn older_drivers_are_told_from_newer_ones() {
        let driver = |text: &str| DriverVersion::parse(text).expect("a version");
        let runtime = |name| RuntimeVersion::parse(name).expect("a version");
        for (library, enough, too_old) in [
            ("libcudart.so.11.0", "450.80.02", "450.57"),
            ("libcudart.so.12", "525.60.13", "525.60.11"),
            ("libcudart.so.12.9.79", "580.159.04", "470.256.02"),
            ("libcudart.so.13", "580.65.06", "575.57.08"),
        ] {
            let oldest = runtime(library).oldest_driver().expect("known");
            assert!(driver(enough) >= oldest, "{library} {enough}");
            assert!(driver(too_old) < oldest, "{library} {too_old}");
        }
        assert_eq!(runtime("libcudart.so.99").oldest_driver(), None);
    }
}
