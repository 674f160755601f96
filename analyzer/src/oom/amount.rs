//! Sizes as PyTorch prints them.

/// A printed size: two digits after the point, so it is exact to half a unit of the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) bytes: u64,
    /// How far the true size may lie from `bytes`.
    pub(super) rounding: u64,
}

impl Amount {
    pub(super) const fn exact(bytes: u64) -> Self {
        Self { bytes, rounding: 0 }
    }

    /// Whether the true size may be `bytes`.
    pub(super) const fn may_be(self, bytes: u64) -> bool {
        self.bytes.abs_diff(bytes) <= self.rounding
    }
}

const UNITS: [(&str, u32); 5] = [
    ("bytes", 0),
    ("KiB", 10),
    ("MiB", 20),
    ("GiB", 30),
    ("TiB", 40),
];

/// The size at the end of `text`, which has no blanks: `...has10.50GiB`. Some versions print
/// "unknown" as the largest number: that is `None`.
pub(super) fn at_end(text: &str) -> Option<Amount> {
    let (number, shift) = UNITS
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))?;
    let start = number
        .rfind(|c: char| !c.is_ascii_digit() && c != '.')
        .map_or(0, |last| {
            last + number[last..].chars().next().map_or(1, char::len_utf8)
        });
    // The point before it ends the sentence before: `...in use. 17.69 GiB allowed`.
    parse(number[start..].trim_start_matches('.'), shift)
}

/// The size at the start of `text`, and what follows it.
pub(super) fn at_start(text: &str) -> Option<(Amount, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(end);
    let (unit, shift) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
    Some((parse(number, *shift)?, &rest[unit.len()..]))
}

fn parse(number: &str, shift: u32) -> Option<Amount> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 9 || fraction.contains('.') {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let scale = fraction.bytes().fold(1_u128, |scale, _| scale * 10);
    let digits: u128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    let bytes = (u128::from(whole) << shift) + ((digits << shift) + scale / 2) / scale;
    let bytes = u64::try_from(bytes).ok().filter(|bytes| *bytes < 1 << 60)?;
    let rounding = if shift == 0 {
        0
    } else {
        u64::try_from((1_u128 << shift).div_ceil(2 * scale)).ok()?
    };
    Some(Amount { bytes, rounding })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_sizes() {
        let mib = |hundredths: u64| (hundredths * (1 << 20) + 50) / 100;
        for (text, bytes, rounding) in [
            ("0bytes", 0, 0),
            ("1024bytes", 1024, 0),
            ("896.00KiB", 896 << 10, 6),
            ("10.44MiB", mib(1044), 5243),
            ("79.19GiB", 85_029_615_043, 5_368_710),
        ] {
            let amount = Amount { bytes, rounding };
            assert_eq!(at_end(&format!("has{text}")), Some(amount), "{text}");
            assert_eq!(at_start(&format!("{text}free")), Some((amount, "free")));
        }
    }

    #[test]
    fn what_is_no_size() {
        for text in [
            "",
            "GiB",
            "1.2.3GiB",
            "17179869184.00GiB",
            "é5",
            "5",
            "5 GB",
        ] {
            assert_eq!(at_end(text), None, "{text}");
            assert_eq!(at_start(text), None, "{text}");
        }
    }

    #[test]
    fn a_size_after_a_sentence() {
        assert_eq!(
            at_end("isfree.50.00GiB").map(|amount| amount.bytes),
            Some(50 << 30)
        );
    }
}
