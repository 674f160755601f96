//! Histograms of sizes, counts and durations: an HDR histogram whose edges cannot panic,
//! hide an outlier or lose a value.

use std::fmt;

use hdrhistogram::Histogram as Hdr;
use serde::Serialize;

/// The largest value that is counted in a bucket. A greater one is a negative number in
/// disguise, or damage.
const HIGHEST: u64 = i64::MAX.unsigned_abs();

/// How finely values are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// To 0.1 %; 16 KiB and more.
    Fine,
    /// To 6.25 %, for the many: 256 bytes and more.
    Coarse,
}

/// Counts of `u64` values. Any value may be recorded: 0 has a bucket to itself, and what
/// is too large for the buckets is counted as [`Distribution::over`].
pub(crate) struct Histogram {
    counts: Hdr<u64>,
    over: u64,
    max: u64,
    total: u128,
}

impl Histogram {
    /// An empty histogram.
    pub(crate) fn new(precision: Precision) -> Self {
        let significant_figures = match precision {
            Precision::Fine => 3,
            Precision::Coarse => 1,
        };
        let counts = Hdr::new(significant_figures).expect("at most 5 significant figures");
        Self {
            counts,
            over: 0,
            max: 0,
            total: 0,
        }
    }

    /// Counts `value`.
    #[inline]
    pub(crate) fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts `value` `times` times.
    pub(crate) fn record_n(&mut self, value: u64, times: u64) {
        if value > HIGHEST || self.counts.record_n(value, times).is_err() {
            self.over = self.over.saturating_add(times);
        }
        self.max = self.max.max(value);
        let sum = u128::from(value) * u128::from(times);
        self.total = self.total.saturating_add(sum);
    }

    /// Counts all that `other` counted, whatever the range that either has grown to.
    pub(crate) fn merge(&mut self, other: &Self) {
        let Self {
            counts,
            over,
            max,
            total,
        } = other;
        self.over = self.over.saturating_add(*over);
        // `add` widens this histogram first; it fails only where that would take more memory
        // than can be addressed.
        if self.counts.add(counts).is_err() {
            self.over = self.over.saturating_add(counts.len());
        }
        self.max = self.max.max(*max);
        self.total = self.total.saturating_add(*total);
    }

    /// The buckets, without what is too large for one.
    pub(crate) const fn counts(&self) -> &Hdr<u64> {
        &self.counts
    }

    /// How many values were counted.
    pub(crate) fn count(&self) -> u64 {
        self.counts.len().saturating_add(self.over)
    }

    /// The sum of all values, as far as a `u64` goes.
    pub(crate) fn total(&self) -> u64 {
        u64::try_from(self.total).unwrap_or(u64::MAX)
    }

    /// Quantiles and maximum; `None` where nothing was counted.
    pub(crate) fn percentiles(&self) -> Option<Percentiles> {
        (self.count() > 0).then(|| Percentiles {
            p50: self.quantile(50),
            p90: self.quantile(90),
            p99: self.quantile(99),
            max: self.max,
        })
    }

    /// All there is to tell; `None` where nothing was counted.
    pub(crate) fn distribution(&self) -> Option<Distribution> {
        Some(Distribution {
            count: self.count(),
            zero: self.counts.count_at(0),
            over: self.over,
            total: self.total(),
            percentiles: self.percentiles()?,
            buckets: self.buckets(),
        })
    }

    /// The smallest value that at least `percent` of all values do not exceed. Of the values
    /// that a bucket does not tell apart, the lowest: sizes tend to be powers of two, and those
    /// are bucket bounds.
    fn quantile(&self, percent: u64) -> u64 {
        let count = u128::from(self.count());
        let rank = (count * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0;
        for bucket in self.counts.iter_recorded() {
            seen += u128::from(bucket.count_since_last_iteration());
            if seen >= rank {
                return self.counts.lowest_equivalent(bucket.value_iterated_to());
            }
        }
        self.max
    }

    /// Counts by powers of two, without the empty ones.
    fn buckets(&self) -> Vec<Bucket> {
        let mut buckets: Vec<Bucket> = Vec::new();
        for recorded in self.counts.iter_recorded() {
            // A bucket of the HDR histogram never spans a power of two.
            let value = self.counts.lowest_equivalent(recorded.value_iterated_to());
            let count = recorded.count_since_last_iteration();
            let (from, below) = match value.checked_ilog2() {
                None => (0, 1),
                Some(power) => (1 << power, 2 << power),
            };
            match buckets.last_mut() {
                Some(last) if last.from == from => last.count += count,
                Some(_) | None => buckets.push(Bucket { from, below, count }),
            }
        }
        buckets
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Histogram")
            .field("count", &self.count())
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

/// Quantiles of a histogram, within its precision, and its exact maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// Median.
    pub p50: u64,
    /// 90 % of the values are at most this.
    pub p90: u64,
    /// 99 % of the values are at most this.
    pub p99: u64,
    /// The largest value, exact.
    pub max: u64,
}

/// A histogram as the report shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// How many of them were 0.
    pub zero: u64,
    /// How many of them are in no bucket: 2^63 and more.
    pub over: u64,
    /// Sum of all values.
    pub total: u64,
    /// Quantiles and maximum.
    #[serde(flatten)]
    pub percentiles: Percentiles,
    /// Counts by powers of two; empty ones are left out.
    pub buckets: Vec<Bucket>,
}

/// How many values lie in `from..below`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Lowest value of the bucket.
    pub from: u64,
    /// Lowest value above the bucket.
    pub below: u64,
    /// Number of values.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(precision: Precision, values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new(precision);
        for value in values {
            histogram.record(value);
        }
        histogram
    }

    #[test]
    fn every_size_is_counted_once_and_none_panics() {
        let sizes = [
            0,
            1,
            512,
            2 << 20,
            180 << 30,
            HIGHEST,
            HIGHEST + 1,
            u64::MAX,
        ];
        for precision in [Precision::Fine, Precision::Coarse] {
            let seen = of(precision, sizes).distribution().expect("values");
            assert_eq!(seen.count, 8);
            assert_eq!(seen.zero, 1);
            assert_eq!(seen.over, 2);
            assert_eq!(seen.percentiles.max, u64::MAX);
            assert_eq!(seen.total, u64::MAX);
            let froms: Vec<u64> = seen.buckets.iter().map(|bucket| bucket.from).collect();
            assert_eq!(froms, [0, 1, 512, 2 << 20, 128 << 30, 1 << 62]);
            assert!(seen.buckets.iter().all(|bucket| bucket.count == 1));
        }
    }

    #[test]
    fn nothing_counted_is_no_zero() {
        let empty = Histogram::new(Precision::Fine);
        assert_eq!(empty.percentiles(), None);
        assert_eq!(empty.distribution(), None);
        assert_eq!(empty.count(), 0);
    }

    #[test]
    fn buckets_hold_their_lower_bound_and_not_their_upper() {
        let seen = of(Precision::Coarse, [1023, 1024, 2047, 2048])
            .distribution()
            .expect("values");
        assert_eq!(
            seen.buckets,
            [
                Bucket {
                    from: 512,
                    below: 1024,
                    count: 1
                },
                Bucket {
                    from: 1024,
                    below: 2048,
                    count: 2
                },
                Bucket {
                    from: 2048,
                    below: 4096,
                    count: 1
                },
            ]
        );
    }

    #[test]
    fn quantiles_are_within_precision_and_the_maximum_is_exact() {
        for (precision, parts) in [(Precision::Fine, 1000), (Precision::Coarse, 16)] {
            let seen = of(precision, 1..=100_003).percentiles().expect("values");
            for (quantile, truth) in [(seen.p50, 50_002), (seen.p90, 90_003), (seen.p99, 99_003)] {
                assert!(
                    quantile <= truth && quantile >= truth - truth / parts,
                    "{quantile}"
                );
            }
            assert_eq!(seen.max, 100_003);
        }
    }

    #[test]
    fn powers_of_two_come_back_exactly() {
        for value in (0..63).map(|power| 1 << power) {
            let seen = of(Precision::Coarse, [value, value, u64::MAX]).percentiles();
            assert_eq!(seen.expect("values").p50, value);
        }
    }

    #[test]
    fn values_over_the_range_count_in_quantiles() {
        let seen = of(Precision::Fine, [1, u64::MAX, u64::MAX])
            .percentiles()
            .expect("values");
        assert_eq!(seen.p50, u64::MAX);
    }

    #[test]
    fn merging_widens_either_side() {
        for (a, b) in [
            (0..10, 1 << 40..(1 << 40) + 5),
            (1 << 40..(1 << 40) + 5, 0..10),
        ] {
            let whole = of(
                Precision::Fine,
                a.clone().chain(b.clone()).chain([u64::MAX]),
            );
            let mut merged = of(Precision::Fine, a);
            merged.merge(&of(Precision::Fine, b.chain([u64::MAX])));
            assert_eq!(merged.distribution(), whole.distribution());
        }
        let mut coarse = of(Precision::Coarse, [3]);
        coarse.merge(&of(Precision::Fine, [1 << 50]));
        assert_eq!(coarse.distribution().expect("values").count, 2);
    }
}
