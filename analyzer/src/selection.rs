//! Which part of a recording a command is about.

use std::str::FromStr;

/// A stretch of time, some processes and devices. The default is all of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only calls entered at this time or later.
    pub from: Option<Time>,
    /// Only calls entered before this time.
    pub to: Option<Time>,
    /// Only these processes, by id; empty: all.
    pub pids: Vec<u32>,
    /// Only these devices, by ordinal as the process counts; empty: all, and what is on a device
    /// that is not known.
    pub devices: Vec<i32>,
    /// And only these, by UUID: those that are named, and [`Self::places`] says what they are
    /// called.
    pub device_uuids: Vec<String>,
    /// Processes, and the ordinals by which they call the devices in [`Self::device_uuids`].
    pub places: Vec<(u32, i32)>,
}

impl Selection {
    /// Whether the process is selected.
    #[inline]
    pub fn has_process(&self, pid: u32) -> bool {
        self.pids.is_empty() || self.pids.contains(&pid)
    }

    /// Whether all devices are selected, and what is on one that is not known.
    #[inline]
    pub const fn has_all_devices(&self) -> bool {
        self.devices.is_empty() && self.device_uuids.is_empty()
    }

    /// Whether what the process calls so is selected; a device that is not known is, where all are.
    #[inline]
    pub fn has_device(&self, pid: u32, device: Option<i32>) -> bool {
        self.has_all_devices()
            || device.is_some_and(|device| {
                self.devices.contains(&device) || self.places.contains(&(pid, device))
            })
    }
}

/// A moment in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// ns after the recording's first row.
    SinceStart(u64),
    /// ns of `CLOCK_MONOTONIC`.
    Monotonic(u64),
}

impl Time {
    /// The moment in ns of `CLOCK_MONOTONIC`, in a recording that starts at `start`.
    pub fn after(self, start: u64) -> u64 {
        match self {
            Self::SinceStart(offset) => start.saturating_add(offset),
            Self::Monotonic(moment) => moment,
        }
    }
}

/// What a moment may be written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected seconds since the recording's start (`12.5` or `12.5s`), or `@` and ns of CLOCK_MONOTONIC"
)]
pub struct TimeError;

impl FromStr for Time {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Self, TimeError> {
        match text.strip_prefix('@') {
            Some(moment) => number(moment).map(Self::Monotonic),
            None => nanoseconds(text.strip_suffix('s').unwrap_or(text)).map(Self::SinceStart),
        }
        .ok_or(TimeError)
    }
}

/// Decimal seconds to ns, without the detour over a float; digits beyond the ninth are cut.
fn nanoseconds(seconds: &str) -> Option<u64> {
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction
        .chars()
        .chain(std::iter::repeat('0'))
        .take(9)
        .collect();
    number(whole)?
        .checked_mul(1_000_000_000)?
        .checked_add(number(&digits)?)
}

/// Digits only: `u64::from_str` takes a sign.
fn number(digits: &str) -> Option<u64> {
    digits
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        let cases = [
            ("12.5", 12_500_000_000),
            ("12.5s", 12_500_000_000),
            ("0", 0),
            ("3.", 3_000_000_000),
            ("0.000000001s", 1),
            ("0.0000000019", 1),
            ("18446744073.709551615", u64::MAX),
        ];
        for (text, ns) in cases {
            assert_eq!(text.parse(), Ok(Time::SinceStart(ns)), "{text}");
        }
        assert_eq!(
            "@18446744073709551615".parse(),
            Ok(Time::Monotonic(u64::MAX))
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let cases = [
            "",
            "s",
            "-1",
            "+1",
            "1e3",
            "1.5.5",
            "1,5",
            "@",
            "@1.5",
            "@-1",
            "18446744073.8",
            "1m",
        ];
        for text in cases {
            assert_eq!(text.parse::<Time>(), Err(TimeError), "{text}");
        }
    }

    #[test]
    fn moments_do_not_overflow() {
        assert_eq!(Time::SinceStart(u64::MAX).after(1), u64::MAX);
        assert_eq!(Time::Monotonic(5).after(1), 5);
    }
}
