//! Histograms with fixed bounds: the same in every run, so that series go on over restarts.

use super::sampled::scaled;
use crate::serve::metrics::Distribution;

/// Durations of calls, ns: each bound is four times the one before.
pub(super) const DURATION: [u64; 13] = [
    1_000,
    4_000,
    16_000,
    64_000,
    256_000,
    1_024_000,
    4_096_000,
    16_384_000,
    65_536_000,
    262_144_000,
    1_048_576_000,
    4_194_304_000,
    16_777_216_000,
];

/// Sizes of allocations, bytes: from the least that `cudaMalloc` gives to a whole GPU.
pub(super) const SIZE: [u64; 10] = [
    512,
    4 << 10,
    32 << 10,
    256 << 10,
    2 << 20,
    16 << 20,
    128 << 20,
    1 << 30,
    8 << 30,
    64 << 30,
];

/// Lifetimes of blocks, ns: from a millisecond to a day.
pub(super) const LIFETIME: [u64; 9] = [
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
    100_000_000_000,
    1_000_000_000_000,
    10_000_000_000_000,
    100_000_000_000_000,
];

/// Numbers of values between bounds.
#[derive(Clone, Debug)]
pub(super) struct Histogram<const N: usize> {
    bounds: &'static [u64; N],
    /// Of values up to each bound, and above the one before.
    counts: [u64; N],
    over: u64,
    sum: u64,
}

impl<const N: usize> Histogram<N> {
    pub(super) const fn new(bounds: &'static [u64; N]) -> Self {
        Self {
            bounds,
            counts: [0; N],
            over: 0,
            sum: 0,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        *self.counts.get_mut(bucket).unwrap_or(&mut self.over) += 1;
        self.sum = self.sum.saturating_add(value);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.over == 0 && self.counts.iter().all(|count| *count == 0)
    }

    /// Adds the values of another, each of which stands for `weight` values.
    pub(super) fn merge(&mut self, other: &Self, weight: f64) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += scaled(more, weight);
        }
        self.over += scaled(other.over, weight);
        self.sum = self.sum.saturating_add(scaled(other.sum, weight));
    }

    /// With values divided by `scale`: 1e9 makes seconds of ns.
    #[expect(clippy::cast_precision_loss, reason = "a metric is a double")]
    pub(super) fn distribution(&self, scale: f64) -> Distribution {
        let bounds = self.bounds.iter().map(|bound| *bound as f64 / scale);
        let mut buckets: Vec<(f64, u64)> = bounds.zip(self.counts).collect();
        buckets.push((f64::INFINITY, self.over));
        Distribution {
            sum: self.sum as f64 / scale,
            count: self.counts.iter().sum::<u64>() + self.over,
            buckets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket_and_nothing_is_left_out() {
        let mut sizes = Histogram::new(&SIZE);
        for value in [0, 1, 512, 513, 2 << 20, 180 << 30, u64::MAX] {
            sizes.add(value);
        }
        let Distribution {
            count,
            buckets,
            sum,
        } = sizes.distribution(1.0);
        assert_eq!(count, 7);
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), count);
        assert_eq!(buckets[0], (512.0, 3));
        assert_eq!(buckets[1], (4096.0, 1));
        assert_eq!(buckets[4], (2_097_152.0, 1));
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, 2)));
        assert!(sum.is_finite());
    }
}
