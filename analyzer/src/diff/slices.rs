//! Calls by time: how many in each slice of a recording.

/// The first length of a slice, ns; it doubles.
const STEP: u64 = 10_000_000;

/// Most slices; then two neighbours become one.
const SLICES: usize = 64;

/// Counts by slices of time, from a start on.
#[derive(Clone, Debug)]
pub(super) struct Slices {
    /// A slice has [`STEP`] times 2 to the power of this.
    doubled: u32,
    counts: Vec<u64>,
}

impl Slices {
    pub(super) fn new() -> Self {
        Self {
            doubled: 0,
            counts: Vec::new(),
        }
    }

    /// Something happened so many ns after the start.
    pub(super) fn push(&mut self, offset: u64) {
        let mut place = offset / self.step();
        while place >= SLICES as u64 {
            self.double();
            place = offset / self.step();
        }
        let place = usize::try_from(place).unwrap_or(SLICES - 1);
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
    }

    /// How often things happened in all.
    pub(super) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The counts of both over the whole slices of their recordings, `lengths` in ns, in slices of
    /// the same length.
    pub(super) fn align(mut both: [Self; 2], lengths: [u64; 2]) -> [Vec<f64>; 2] {
        let fits = |slices: &Self| {
            lengths
                .iter()
                .all(|length| length / slices.step() < SLICES as u64)
        };
        while both[0].doubled < both[1].doubled || !fits(&both[0]) {
            both[0].double();
        }
        while both[1].doubled < both[0].doubled {
            both[1].double();
        }
        let [a, b] = both;
        let whole = |mut slices: Self, length: u64| {
            let whole = usize::try_from(length / slices.step()).unwrap_or(SLICES);
            slices.counts.resize(whole, 0);
            #[expect(clippy::cast_precision_loss, reason = "no slice has 2^53 calls")]
            let counts = slices.counts.into_iter().map(|count| count as f64);
            counts.collect()
        };
        [whole(a, lengths[0]), whole(b, lengths[1])]
    }

    const fn step(&self) -> u64 {
        STEP.saturating_mul(1_u64.wrapping_shl(self.doubled))
    }

    fn double(&mut self) {
        self.counts = self
            .counts
            .chunks(2)
            .map(|pair| pair.iter().sum())
            .collect();
        self.doubled += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_however_long_it_takes() {
        let mut slices = Slices::new();
        for n in 0..100_000_u64 {
            slices.push(n * 1_000_000);
        }
        assert_eq!(slices.total(), 100_000);
        assert!(slices.counts.len() <= SLICES);
        slices.push(u64::MAX);
        assert_eq!(slices.total(), 100_001);
    }

    #[test]
    fn both_get_slices_of_one_length_and_the_broken_last_one_is_left_out() {
        let (mut a, mut b) = (Slices::new(), Slices::new());
        for n in 0..1000 {
            a.push(n * 1_000_000);
        }
        for n in 0..10_000 {
            b.push(n * 1_000_000);
        }
        let [a, b] = Slices::align([a, b], [1_000_000_000, 10_000_000_000]);
        // 160 ms, in which there are 160 calls.
        assert_eq!((a.len(), b.len()), (6, 62));
        assert!(a.iter().chain(&b).all(|count| (count - 160.0).abs() < 0.5));
        let none = Slices::align([Slices::new(), Slices::new()], [u64::MAX, 1]);
        assert!(none[0].len() <= SLICES && none[1].is_empty());
    }
}
