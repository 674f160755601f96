//! What the segments of a rolling recording are called (docs/rolling.md).

use std::fmt;

/// What every name begins with.
const PREFIX: &str = "cudasnoop-";
/// What the name of a segment ends with.
const CLOSED: &str = ".arrows";
/// What that of the segment being written has after it.
const OPEN: &str = ".part";

/// The name of a segment: `cudasnoop-20261128T081724Z-000001.arrows`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentName {
    /// When it was begun, UTC; never earlier than that of the segment before, so that names sort
    /// as segments do though the clock be set back.
    pub stamp: String,
    /// From 1.
    pub number: u64,
    /// Whether it is being written.
    pub is_open: bool,
}

impl SegmentName {
    /// What a file is, by its name; `None` for a file that is none of ours.
    pub fn parse(name: &str) -> Option<Self> {
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
    #[must_use]
    pub fn closed(&self) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let open = SegmentName {
            stamp: "20261128T081724Z".to_owned(),
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
