//! When a segment was begun, as its name has it.

use trace::fact::Clock;

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
    fn a_stamp_is_the_time_of_day() {
        let now = Clock {
            monotonic: 5,
            boottime: 5,
            // `date -u -d 2026-11-28T08:17:24 +%s`
            realtime: 1_795_853_844_123_456_789,
        };
        assert_eq!(stamp(&now), "20261128T081724Z");
    }
}
