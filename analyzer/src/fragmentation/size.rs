//! Sizes on the command line.

use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// What a size may be written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected bytes, or a number with KiB, MiB, GiB or TiB: `1048576`, `512MiB`, `1.5GiB`")]
pub struct SizeError;

impl FromStr for Size {
    type Err = SizeError;

    /// Digits, perhaps a fraction, perhaps a binary unit. `K`, `M`, `G` and `T` alone are the
    /// binary units too: device memory is counted in no others.
    fn from_str(text: &str) -> Result<Self, SizeError> {
        let text = text.trim();
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let shift = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kib" => 10,
            "m" | "mib" => 20,
            "g" | "gib" => 30,
            "t" | "tib" => 40,
            _ => return Err(SizeError),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // More digits than a u128 can scale say nothing that a byte could show.
        if fraction.len() > 18 || fraction.contains('.') {
            return Err(SizeError);
        }
        let whole: u64 = whole.parse().map_err(|_| SizeError)?;
        let fraction = match fraction {
            "" => 0,
            digits => {
                let value: u128 = digits.parse().map_err(|_| SizeError)?;
                let scale = digits.bytes().fold(1_u128, |scale, _| scale * 10);
                (value << shift) / scale
            }
        };
        let bytes = (u128::from(whole) << shift) + fraction;
        u64::try_from(bytes).map(Self).map_err(|_| SizeError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_and_exact() {
        for (text, size) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("512MiB", 512 << 20),
            ("512 mib", 512 << 20),
            ("1.5GiB", 3 << 29),
            ("2G", 2 << 30),
            ("0.5k", 512),
            ("100B", 100),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Size(size)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "MiB",
            "-1",
            "+1",
            "1MB",
            "1.2.3GiB",
            ".5GiB",
            "1e9",
            "1,5GiB",
            "16777216TiB",
            "99999999999999999999",
            "0.1234567890123456789GiB",
        ] {
            assert_eq!(text.parse::<Size>(), Err(SizeError), "{text}");
        }
    }
}
