//! A total over time, in a bounded number of bins.

/// Most bins. Half of them are in use at least, so a bin is 1/64 to 1/128 of all time.
pub(super) const BINS: usize = 128;

/// The first length of a bin, ns.
const FIRST_WIDTH: u64 = 10_000_000;

/// Which bin a moment falls into. All series share it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: u64,
    width: u64,
}

impl Clock {
    pub(super) const fn starting(start: u64) -> Self {
        Self {
            start,
            width: FIRST_WIDTH,
        }
    }

    /// Length of a bin, ns.
    pub(super) const fn width(self) -> u64 {
        self.width
    }

    /// When bin `index` begins, ns of `CLOCK_MONOTONIC`.
    pub(super) const fn moment(self, index: usize) -> u64 {
        let after = self.width.saturating_mul(index as u64);
        self.start.saturating_add(after)
    }

    /// The bin of a moment; `None` where there is none: bins have to be [`Self::double`]d.
    #[inline]
    pub(super) fn bin(self, moment: u64) -> Option<usize> {
        let bin = moment.saturating_sub(self.start) / self.width;
        usize::try_from(bin).ok().filter(|bin| *bin < BINS)
    }

    /// Makes bins twice as long: what is kept by bin has to be folded.
    pub(super) const fn double(&mut self) {
        self.width = self.width.saturating_mul(2);
    }
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bin {
    /// The least that the total was in it.
    pub(super) low: u64,
    /// The most.
    pub(super) high: u64,
    /// What it was at the end.
    pub(super) last: u64,
    /// How often it went down.
    pub(super) falls: u32,
}

/// A total over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    bins: Vec<Bin>,
    current: u64,
    /// The bin that it began in.
    first: usize,
}

impl Series {
    /// A total that was `value` before, and is looked at from bin `first` on.
    pub(super) fn starting(first: usize, value: u64) -> Self {
        let mut series = Self {
            bins: Vec::new(),
            current: value,
            first,
        };
        series.pass(first);
        series
    }

    /// What the total is now.
    pub(super) const fn current(&self) -> u64 {
        self.current
    }

    /// Bytes came.
    #[inline]
    pub(super) fn add(&mut self, bin: usize, bytes: u64) {
        self.set(bin, self.current.saturating_add(bytes));
    }

    /// Bytes went. What was there before the series began is not known: it cannot go below 0.
    #[inline]
    pub(super) fn remove(&mut self, bin: usize, bytes: u64) {
        self.set(bin, self.current.saturating_sub(bytes));
    }

    /// The total is `value` from now on. A bin that is over takes it as the last one does.
    #[inline]
    pub(super) fn set(&mut self, bin: usize, value: u64) {
        if bin >= self.bins.len() {
            self.pass(bin);
        }
        if let Some(last) = self.bins.last_mut() {
            last.low = last.low.min(value);
            last.high = last.high.max(value);
            last.last = value;
            last.falls = last.falls.saturating_add(u32::from(value < self.current));
        }
        self.current = value;
    }

    /// Nothing happened up to and in bin `bin`.
    pub(super) fn pass(&mut self, bin: usize) {
        let idle = Bin {
            low: self.current,
            high: self.current,
            last: self.current,
            falls: 0,
        };
        let length = bin.min(BINS - 1) + 1;
        if length > self.bins.len() {
            self.bins.resize(length, idle);
        }
    }

    /// Bins are twice as long from now on.
    pub(super) fn fold(&mut self) {
        let pairs = self.bins.chunks(2).map(|pair| Bin {
            low: pair.iter().map(|bin| bin.low).min().unwrap_or(0),
            high: pair.iter().map(|bin| bin.high).max().unwrap_or(0),
            last: pair.last().map_or(0, |bin| bin.last),
            falls: pair
                .iter()
                .fold(0, |sum, bin| sum.saturating_add(bin.falls)),
        });
        self.bins = pairs.collect();
        self.first /= 2;
    }

    /// The sum of two.
    pub(super) fn merge(&mut self, other: &Self) {
        for (bin, added) in self.bins.iter_mut().zip(&other.bins) {
            bin.low = bin.low.saturating_add(added.low);
            bin.high = bin.high.saturating_add(added.high);
            bin.last = bin.last.saturating_add(added.last);
            bin.falls = bin.falls.saturating_add(added.falls);
        }
        self.current = self.current.saturating_add(other.current);
        self.first = self.first.min(other.first);
    }

    /// All bins, from the start of time on.
    pub(super) fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// By how much the highest peak grew after the first quarter.
    pub(super) fn peak_growth(&self) -> u64 {
        let lived = self.bins.get(self.first..).unwrap_or_default();
        let (early, _) = lived.split_at(lived.len() / 4);
        let peak = |bins: &[Bin]| bins.iter().map(|bin| bin.high).max().unwrap_or(0);
        peak(lived) - peak(early)
    }

    /// The bin that it began in.
    pub(super) const fn first(&self) -> usize {
        self.first
    }
}
