//! Sizes and durations as people type them.

use std::time::Duration;

use crate::sink::RollingOptions;

/// `1048576`, `64KiB`, `1MiB`, `2GiB`; `K`, `M`, `G` mean the same.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return Err(format!("`{unit}` is no unit: use KiB, MiB or GiB")),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "a number is expected, as in 1MiB".to_owned())?;
    number
        .checked_mul(factor)
        .ok_or_else(|| "that is more than 16 EiB".to_owned())
}

/// A ring buffer: a power of two of at least a page.
pub(super) fn ring_size(text: &str) -> Result<u32, String> {
    let bytes = size(text)?;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes.is_power_of_two() && (4096..=1 << 30).contains(&bytes) => Ok(bytes),
        Ok(_) | Err(_) => {
            Err("a power of two from 4KiB to 1GiB is expected: the kernel has no others".to_owned())
        }
    }
}

/// What a rolling recording may take of a disk.
pub(super) fn disk_budget(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if bytes < RollingOptions::SMALLEST_BUDGET {
        return Err("at least 1MiB is expected, better 1GiB and more".to_owned());
    }
    Ok(bytes)
}

/// `30`, `1.5`, `30s`, `500ms`, `10m`, `2h`; a plain number is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{unit}` is no unit: use ms, s, m or h")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "a number is expected, as in 30s".to_owned())?;
    let duration =
        Duration::try_from_secs_f64(number * factor).map_err(|_| "that is too long".to_owned())?;
    if duration.is_zero() {
        Err("longer than nothing, please".to_owned())
    } else {
        Ok(duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("1MiB"), Ok(1 << 20));
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("2g"), Ok(2 << 30));
        assert!(size("1MB").is_err() && size("MiB").is_err() && size("99999999TiB").is_err());
        assert_eq!(ring_size("4KiB"), Ok(4096));
        assert_eq!(disk_budget("1MiB"), Ok(1 << 20));
        assert!(disk_budget("1023KiB").is_err());
        assert!(ring_size("5KiB").is_err() && ring_size("2KiB").is_err());
    }

    #[test]
    fn durations() {
        assert_eq!(duration("30"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        assert!(duration("0").is_err() && duration("5x").is_err() && duration("-1").is_err());
    }
}
