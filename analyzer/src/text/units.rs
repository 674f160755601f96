//! Numbers as people read them, in at most nine characters (counts apart).

/// A byte count: `512 B`, `1.50 MiB`.
pub fn bytes(value: u64) -> String {
    scaled(
        value,
        &[
            ("B", 1),
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("TiB", 1 << 40),
        ],
    )
}

/// A bound of a bucket, in bytes: `1 KiB`. Powers of two need no fractions.
pub(crate) fn bytes_bound(value: u64) -> String {
    bytes(value).replace(".00 ", " ").replace(".0 ", " ")
}

/// A duration in ns: `850 ns`, `12.3 µs`, `3 m 20 s`.
pub fn duration(value: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let seconds = value / SECOND;
    let two = |first: u64, first_unit: &str, second: u64, second_unit: &str| {
        format!("{first} {first_unit} {second:02} {second_unit}")
    };
    match seconds {
        0..60 => scaled(
            value,
            &[("ns", 1), ("µs", 1_000), ("ms", 1_000_000), ("s", SECOND)],
        ),
        60..3600 => two(seconds / 60, "m", seconds % 60, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds / 60 % 60, "m"),
        86_400..8_640_000 => two(seconds / 86_400, "d", seconds / 3600 % 24, "h"),
        8_640_000.. => format!("{} d", seconds / 86_400),
    }
}

/// A moment, as ns since the start of the recording: `12.345678901 s`, in the form that
/// `--from` takes. `-` marks what was before it.
pub(crate) fn since(moment: u64, start: Option<u64>) -> String {
    let Some(start) = start else {
        return format!("@{moment}");
    };
    let sign = if moment < start { "-" } else { "" };
    let distance = moment.abs_diff(start);
    format!(
        "{sign}{}.{:06} s",
        distance / 1_000_000_000,
        distance / 1000 % 1_000_000
    )
}

/// A count with its thousands set apart: `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `part` of `whole` in percent, rounded down; of nothing, 0.
pub(crate) fn percent(part: u64, whole: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// `count` things: `1 call`, `2 calls`.
pub(crate) fn counted(value: u64, thing: &str) -> String {
    format!(
        "{} {thing}{}",
        count(value),
        if value == 1 { "" } else { "s" }
    )
}

/// Three significant digits of `value`, in the largest unit that it reaches when rounded to
/// the unit below; the smallest unit has no fractions.
fn scaled(value: u64, units: &[(&str, u64)]) -> String {
    let reached = units
        .windows(2)
        .rposition(|pair| value.saturating_add(pair[0].1 / 2) >= pair[1].1);
    let (name, size) = units[reached.map_or(0, |below| below + 1)];
    let rounded = |parts: u128| {
        let (value, size) = (u128::from(value), u128::from(size));
        (value * parts + size / 2) / size
    };
    match (size, rounded(1), rounded(10), rounded(100)) {
        (2.., _, _, hundredths @ 0..1000) => {
            format!("{}.{:02} {name}", hundredths / 100, hundredths % 100)
        }
        (2.., _, tenths @ 0..1000, _) => format!("{}.{} {name}", tenths / 10, tenths % 10),
        (_, whole, _, _) => format!("{whole} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (20 << 20, "20.0 MiB"),
            (180 << 30, "180 GiB"),
            ((100 << 20) - 1, "100 MiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (u64::MAX, "16777216 TiB"),
        ];
        for (value, text) in cases {
            assert_eq!(bytes(value), text);
        }
    }

    #[test]
    fn durations_go_from_ns_to_days() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.50 µs"),
            (999_499, "999 µs"),
            (999_999, "1.00 ms"),
            (1_999_872, "2.00 ms"),
            (59_940_000_000, "59.9 s"),
            (200_000_000_000, "3 m 20 s"),
            (3_600_000_000_000, "1 h 00 m"),
            (90_000_000_000_000, "1 d 01 h"),
        ];
        for (value, text) in cases {
            assert_eq!(duration(value), text);
        }
        assert_eq!(duration(u64::MAX), "213503 d");
    }

    #[test]
    fn counts_are_grouped() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(value), text);
        }
        assert_eq!(counted(1, "call"), "1 call");
        assert_eq!(counted(0, "call"), "0 calls");
    }

    #[test]
    fn moments_are_relative_where_there_is_a_start() {
        assert_eq!(since(3_500_000_000, Some(1_000_000_000)), "2.500000 s");
        assert_eq!(since(0, Some(1_000_000)), "-0.001000 s");
        assert_eq!(since(7, None), "@7");
    }
}
