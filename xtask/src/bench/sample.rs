//! Repeated measurements of one thing, and how numbers are written.

/// Measurements of one thing in several rounds.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample(Vec<f64>);

impl Sample {
    pub(super) fn add(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// The middle one, the upper of two; not a number if nothing was measured.
    pub(super) fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The smallest value that so many in a hundred do not exceed; not a number if nothing was
    /// measured.
    pub(super) fn percentile(&self, percent: f64) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank among few"
        )]
        let rank = (self.0.len() as f64 * percent / 100.0).ceil() as usize;
        self.0
            .get(rank.saturating_sub(1))
            .copied()
            .unwrap_or(f64::NAN)
    }

    /// Median, smallest and largest, each written by `write`.
    pub(super) fn spread(&self, write: impl Fn(f64) -> String) -> String {
        match self.0.as_slice() {
            [] => "not measured".to_owned(),
            [only] => write(*only),
            [least, .., most] => {
                format!(
                    "{} ({} to {})",
                    write(self.median()),
                    write(*least),
                    write(*most)
                )
            }
        }
    }
}

impl FromIterator<f64> for Sample {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }
}

/// A count as a number to calculate with.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts below 2^53, and only ratios of them"
)]
pub(super) fn number(count: u64) -> f64 {
    count as f64
}

/// Without decimals, in groups of three digits.
pub(super) fn whole(value: f64) -> String {
    let plain = format!("{value:.0}");
    let digits = plain.trim_start_matches('-');
    let mut grouped = plain[..plain.len() - digits.len()].to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// With two decimals.
pub(super) fn hundredths(value: f64) -> String {
    format!("{value:.2}")
}

/// Bytes in MB (10^6).
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.0}", number(bytes) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_spread() {
        let sample: Sample = [3.0, 1.0, 2.0].into_iter().collect();
        assert_eq!(sample.spread(hundredths), "2.00 (1.00 to 3.00)");
        assert!((sample.percentile(99.0) - 3.0).abs() < f64::EPSILON);
        assert!((sample.percentile(50.0) - 2.0).abs() < f64::EPSILON);
        assert_eq!(Sample::default().spread(hundredths), "not measured");
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!(whole(1_234_567.4), "1,234,567");
        assert_eq!(whole(-999.6), "-1,000");
        assert_eq!(whole(12.0), "12");
    }
}
