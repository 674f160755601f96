//! What segments are called.

use std::fmt;

use trace::fact::Clock;

/// What every name begins with.
const PREFIX: &str = "cudasnoop-";
/// What the name of a segment ends with.
const CLOSED: &str = ".arrows";
/// What that of the segment being written has after it.
const OPEN: &str = ".part";

/// The name of a segment: `cudasnoop-20261128T081724Z-000001.arrows`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentName {
    /// When it was begun, UTC; never earlier than that of the segment before, so that names sort
    /// as segments do though the clock be set back.
    pub(super) stamp: String,
    /// From 1.
    pub(super) number: u64,
    /// Whether it is being written.
    pub(super) is_open: bool,
}

impl SegmentName {
    /// What a file is, by its name; `None` for a file that is none of ours.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let (rest, is_open) = match name.strip_suffix(OPEN) {
            Some(rest) => (rest, true),
            None => (name, false),
        };
        let rest = rest.strip_prefix(PREFIX)?.strip_suffix(CLOSED)?;
        let (stamp, number) = rest.split_once('-')?;
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let is_stamp = stamp.len() == 16
            && stamp.bytes().enumerate().all(|(place, byte)| match place {
                8 => byte == b'T',
                15 => byte == b'Z',
                _ => byte.is_ascii_digit(),
            });
        let is_number = number.len() >= 6 && number.as_bytes().iter().all(is_digit);
        (is_stamp && is_number).then_some(())?;
        let name = Self {
            stamp: stamp.to_owned(),
            number: number.parse().ok()?,
            is_open,
        };
        Some(name)
    }

    /// The same, of the segment when it is whole.
    pub(super) fn closed(&self) -> Self {
        Self {
            is_open: false,
            ..self.clone()
        }
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stamp,
            number,
            is_open,
        } = self;
        let open = if *is_open { OPEN } else { "" };
        write!(f, "{PREFIX}{stamp}-{number:06}{CLOSED}{open}")
    }
}

/// The moment as a name has it: `20261128T081724Z`.
pub(super) fn stamp(now: &Clock) -> String {
    let text = analyzer::wall_clock::utc(now.monotonic, now).unwrap_or_default();
    let digits = text.split('.').next().unwrap_or_default();
    let digits = digits.replace(['-', ':'], "");
    if digits.is_empty() {
        // A clock that is beyond the year 9999 tells nothing.
        "00000000T000000Z".to_owned()
    } else {
        digits + "Z"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let now = Clock {
            monotonic: 5,
            boottime: 5,
            // `date -u -d 2026-11-28T08:17:24 +%s`
            realtime: 1_795_853_844_123_456_789,
        };
        let open = SegmentName {
            stamp: stamp(&now),
            number: 12,
            is_open: true,
        };
        let text = open.to_string();
        assert_eq!(text, "cudasnoop-20261128T081724Z-000012.arrows.part");
        assert_eq!(SegmentName::parse(&text), Some(open.clone()));
        let closed = open.closed();
        assert_eq!(SegmentName::parse(&closed.to_string()), Some(closed));
        let many = SegmentName {
            number: 12_345_678,
            ..open
        };
        assert_eq!(SegmentName::parse(&many.to_string()), Some(many));
    }

    #[test]
    fn other_files_are_not_ours() {
        for name in [
            "run.arrows",
            "cudasnoop-run.arrows",
            "cudasnoop-20261128T081724Z-000001.arrow",
            "cudasnoop-20261128T081724Z-000001.arrows.bak",
            "cudasnoop-20261128T081724Z-1.arrows",
            "cudasnoop-20261128-081724Z-000001.arrows",
            "cudasnoop-20261128T081724Z-00000x.arrows",
            "cudasnoop-20261128T081724Z-999999999999999999999999.arrows",
            "my-cudasnoop-20261128T081724Z-000001.arrows",
        ] {
            assert_eq!(SegmentName::parse(name), None, "{name}");
        }
    }
}
