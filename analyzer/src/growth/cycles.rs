//! What comes and goes, and leaves the same each time: a library that is set up and torn down.

use super::Cycles;
use super::series::Bin;

/// What a cycle has to leave, bytes. A communicator that is not destroyed leaves tens of MiB.
const MIN_LEFT: u64 = 1 << 20;

/// Cycles after the first that have to leave the same.
const MIN_CYCLES: usize = 4;

/// The cycles of a line; `None` where there are none, or they leave nothing.
pub(super) fn of(bins: &[Bin]) -> Option<Cycles> {
    let troughs = troughs(bins);
    let mut left: Vec<u64> = Vec::new();
    for pair in troughs.windows(2) {
        left.push(pair[1].checked_sub(pair[0])?);
    }
    if left.len() < MIN_CYCLES {
        return None;
    }
    let mut sorted = left.clone();
    sorted.sort_unstable();
    let median = sorted[sorted.len() / 2];
    let is_same = |left: &u64| *left >= median - median / 2 && *left <= median.saturating_mul(2);
    (median >= MIN_LEFT && left.iter().all(is_same)).then_some(Cycles {
        count: left.len() as u64,
        left_bytes: median,
    })
}

/// The least after each rise, from the first time that it fell back on. A swing is a quarter of
/// all that the line moves over.
fn troughs(bins: &[Bin]) -> Vec<u64> {
    let low = bins.iter().map(|bin| bin.low).min().unwrap_or(0);
    let high = bins.iter().map(|bin| bin.high).max().unwrap_or(0);
    let swing = ((high - low) / 4).max(MIN_LEFT);
    let mut troughs = Vec::new();
    let (mut is_falling, mut peak, mut trough) = (false, low, u64::MAX);
    for level in levels(bins) {
        if is_falling {
            trough = trough.min(level);
            if level >= trough.saturating_add(swing) {
                troughs.push(trough);
                (is_falling, peak) = (false, level);
            }
        } else {
            peak = peak.max(level);
            if level.saturating_add(swing) <= peak {
                (is_falling, trough) = (true, level);
            }
        }
    }
    if is_falling {
        troughs.push(trough);
    }
    troughs
}

/// Where the line went, in the order in which it must have been there: a bin that ended below its
/// beginning had its most first. Rises and falls end where they like, bins do not.
fn levels(bins: &[Bin]) -> impl Iterator<Item = u64> {
    let before = bins.first().map(|bin| bin.low).into_iter();
    let begins = before.chain(bins.iter().map(|bin| bin.last));
    begins.zip(bins).flat_map(|(begin, bin)| {
        if bin.last < begin {
            [bin.high, bin.low, bin.last]
        } else {
            [bin.low, bin.high, bin.last]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::series::{Clock, Series},
        *,
    };

    const MIB: u64 = 1 << 20;

    fn line(levels: &[u64]) -> Vec<Bin> {
        let bin = |level: &u64| Bin {
            low: level * MIB,
            high: level * MIB,
            last: level * MIB,
            falls: 0,
        };
        levels.iter().map(bin).collect()
    }

    #[test]
    fn the_first_cycle_is_the_baseline() {
        let flat = [0, 544, 50, 544, 50, 544, 50, 544, 50, 544, 50, 544, 50];
        assert_eq!(of(&line(&flat)), None);
        let leaky = [0, 544, 50, 594, 100, 644, 150, 694, 200, 744, 250];
        let cycles = Cycles {
            count: 4,
            left_bytes: 50 * MIB,
        };
        assert_eq!(of(&line(&leaky)), Some(cycles));
    }

    /// Where a bin ends is chance, and may be in the middle of a fall or of a rise.
    #[test]
    fn a_cycle_is_one_wherever_bins_end() {
        const MS: u64 = 1_000_000;
        const CYCLES: u64 = 8;
        for phase in 0..200 {
            let mut clock = Clock::starting(0);
            let mut series = Series::starting(0, 0);
            let mut now = phase * MS;
            let mut to = |level: u64, after: u64| {
                now += after;
                let bin = loop {
                    if let Some(bin) = clock.bin(now) {
                        break bin;
                    }
                    clock.double();
                    series.fold();
                };
                series.set(bin, level * MIB);
            };
            for cycle in 0..CYCLES {
                for blocks in 1..=32 {
                    to(8 * (cycle + blocks), MS);
                }
                to(8 * (cycle + 32), 300 * MS);
                for blocks in (1..32).rev() {
                    to(8 * (cycle + blocks), MS / 3);
                }
                to(8 * (cycle + 1), 300 * MS);
            }
            let cycles = Cycles {
                count: CYCLES - 1,
                left_bytes: 8 * MIB,
            };
            assert_eq!(of(series.bins()), Some(cycles), "{phase} ms");
        }
    }

    #[test]
    fn chance_is_no_cycle() {
        let chance = [0, 500, 40, 500, 43, 500, 90, 500, 91, 500, 200, 500, 230];
        assert_eq!(of(&line(&chance)), None);
    }
}
