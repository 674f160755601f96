//! Is a difference more than noise.

use fastrand::Rng;

/// Fewest blocks or slices on each side that a test is made with.
const FEWEST: usize = 8;

/// Resamplings of a bootstrap.
const RESAMPLINGS: usize = 1000;

/// The probability to see two samples so different where what they are of does not differ: the
/// rank test of Mann and Whitney, two-sided, in the normal approximation with corrections for
/// ties and continuity. `None` where one has fewer than 8 values.
pub(super) fn rank_test(ours: &[f64], theirs: &[f64]) -> Option<f64> {
    if ours.len() < FEWEST || theirs.len() < FEWEST {
        return None;
    }
    let marked = |values: &[f64], is_ours| -> Vec<(f64, bool)> {
        values.iter().map(|value| (*value, is_ours)).collect()
    };
    let mut all = [marked(ours, true), marked(theirs, false)].concat();
    all.sort_by(|(value, _), (other, _)| value.total_cmp(other));
    let (mut ranks, mut ties, mut before) = (0.0, 0.0, 0.0);
    for equal in all.chunk_by(|(value, _), (other, _)| value.total_cmp(other).is_eq()) {
        let size = float(equal.len());
        let of_ours = equal.iter().filter(|(_, is_ours)| *is_ours).count();
        ranks += float(of_ours) * (before + f64::midpoint(size, 1.0));
        ties += size * (size * size - 1.0);
        before += size;
    }
    let (count, other_count) = (float(ours.len()), float(theirs.len()));
    let (total, pairs) = (count + other_count, count * other_count);
    let wins = ranks - count * f64::midpoint(count, 1.0);
    let variance = pairs / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return Some(1.0); // All are equal.
    }
    let distance = ((wins - pairs / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    Some(libm::erfc(distance / std::f64::consts::SQRT_2))
}

/// Between which values the difference of the means, `b - a`, lies with 99 % confidence: a
/// bootstrap. `None` where one has fewer than 8 values.
pub(super) fn difference(a: &[f64], b: &[f64]) -> Option<[f64; 2]> {
    if a.len() < FEWEST || b.len() < FEWEST {
        return None;
    }
    // The same input gives the same output.
    let mut random = Rng::with_seed(0);
    let mut mean = |values: &[f64]| {
        let sum: f64 = (0..values.len())
            .map(|_| values[random.usize(..values.len())])
            .sum();
        sum / float(values.len())
    };
    let mut differences: Vec<f64> = (0..RESAMPLINGS).map(|_| mean(b) - mean(a)).collect();
    differences.sort_by(f64::total_cmp);
    let tail = RESAMPLINGS / 200;
    Some([differences[tail], differences[RESAMPLINGS - 1 - tail]])
}

/// The mean; `None` of nothing.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / float(values.len()))
}

/// What the probabilities of several tests become, so that the smallest of them are not taken for
/// more than they are: the method of Holm.
pub(super) fn adjust(probabilities: &mut [Option<f64>]) {
    let mut tested: Vec<&mut f64> = probabilities.iter_mut().flatten().collect();
    tested.sort_by(|a, b| a.total_cmp(b));
    let all = tested.len();
    let mut least = 0.0_f64;
    for (place, probability) in tested.into_iter().enumerate() {
        least = least.max((*probability * float(all - place)).min(1.0));
        *probability = least;
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of blocks are small")]
const fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, expected: f64) {
        let found = found.expect("a probability");
        assert!((found - expected).abs() < 1e-6 * expected, "{found}");
    }

    /// `scipy.stats.mannwhitneyu(a, b, method="asymptotic").pvalue`
    #[test]
    fn ranks_are_tested_as_scipy_does() {
        let a: Vec<f64> = (1..=10).map(f64::from).collect();
        let b: Vec<f64> = (6..=17).map(f64::from).collect();
        close(rank_test(&a, &b), 0.001_912_641_502_374_404);
        let ties_a = [1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 4.0, 5.0];
        let ties_b = [2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0, 6.0, 7.0];
        close(rank_test(&ties_a, &ties_b), 0.069_350_454_381_821_7);
        assert_eq!(rank_test(&[1.0; 9], &[1.0; 9]), Some(1.0));
        assert_eq!(rank_test(&[1.0; 7], &[2.0; 99]), None);
    }

    #[test]
    fn many_tests_are_adjusted() {
        let mut probabilities = [Some(0.01), None, Some(0.04), Some(0.03)];
        adjust(&mut probabilities);
        let expected = [0.03, 0.06, 0.06];
        for (found, expected) in probabilities.iter().flatten().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{probabilities:?}");
        }
    }

    #[test]
    fn a_difference_lies_in_its_interval() {
        let a: Vec<f64> = (0..60).map(|n| f64::from(n % 7)).collect();
        let b: Vec<f64> = a.iter().map(|value| value + 10.0).collect();
        let [low, high] = difference(&a, &b).expect("values");
        assert!(
            low < 10.0 && 10.0 < high && high - low < 3.0,
            "{low} {high}"
        );
    }
}
