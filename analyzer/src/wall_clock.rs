//! The time of day of a moment on `CLOCK_MONOTONIC`.

use trace::fact::Clock;

/// `moment` in UTC as RFC 3339 writes it, to the nanosecond. `None` outside the years 1970 to
/// 9999.
pub fn utc(moment: u64, anchor: &Clock) -> Option<String> {
    let distance = i128::from(moment) - i128::from(anchor.monotonic);
    rfc_3339(u64::try_from(i128::from(anchor.realtime) + distance).ok()?)
}

/// A time of day in UTC, ns since 1970, as RFC 3339 writes it, to the nanosecond. `None` after
/// the year 9999.
pub fn rfc_3339(realtime: u64) -> Option<String> {
    let (seconds, ns) = (realtime / 1_000_000_000, realtime % 1_000_000_000);
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    (year <= 9999).then(|| {
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ns:09}Z")
    })
}

/// Year, month and day of the Gregorian calendar, `days` after 1970-01-01. Counts in years
/// that begin in March, so that the leap day is the last of its year
/// (<https://howardhinnant.github.io/date_algorithms.html#civil_from_days>).
fn date(days: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097; // days in 400 years
    let days = days + 719_468; // since 0000-03-01
    let day_of_era = days % ERA;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / (ERA - 1)) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = days / ERA * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(realtime: u64) -> Option<String> {
        utc(
            7,
            &Clock {
                monotonic: 7,
                boottime: 7,
                realtime,
            },
        )
    }

    #[test]
    fn dates_are_those_of_date_1() {
        // `date -u -d @SECONDS --rfc-3339=ns`
        let cases = [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000000Z"),
            (951_868_800, "2000-03-01T00:00:00.000000000Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000000Z"),
        ];
        for (seconds, text) in cases {
            assert_eq!(at(seconds * 1_000_000_000).as_deref(), Some(text));
        }
    }

    #[test]
    fn the_anchor_may_lie_on_either_side() {
        let anchor = Clock {
            monotonic: 1_000,
            boottime: 0,
            realtime: 2_000,
        };
        assert_eq!(
            utc(500, &anchor).as_deref(),
            Some("1970-01-01T00:00:00.000001500Z")
        );
        assert_eq!(
            utc(1_001, &anchor).as_deref(),
            Some("1970-01-01T00:00:00.000002001Z")
        );
        assert_eq!(utc(u64::MAX, &anchor), None);
        assert_eq!(
            utc(
                0,
                &Clock {
                    monotonic: 9,
                    boottime: 0,
                    realtime: 0
                }
            ),
            None
        );
    }
}
