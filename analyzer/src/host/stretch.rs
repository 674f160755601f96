//! Stretches of calls that follow each other closely.

use serde::Serialize;

/// Calls of a stretch are entered at most so far apart, ns.
const APART_NS: u64 = 1_000_000;

/// Fewer calls are no stretch.
const FEWEST: u64 = 32;

/// Stretches in which one call followed the other, each entered within 1 ms of the last, and at
/// least 32 of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stretches {
    /// How many.
    pub stretches: u64,
    /// Calls in them.
    pub calls: u64,
    /// Time from the first to the last entry of each, ns, in all.
    pub total_ns: u64,
    /// The one with the most calls.
    pub longest: Option<Stretch>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stretch {
    /// Its calls.
    pub calls: u64,
    /// Entry of the first one, ns of `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// Entry of the last one.
    pub to_ns: u64,
}

/// Finds [`Stretches`] in the entries of a thread's calls.
#[derive(Debug, Default)]
pub(super) struct Finder {
    found: Stretches,
    open: Option<Stretch>,
}

impl Finder {
    /// A call was entered: how long after the last one of the same stretch.
    #[inline]
    pub(super) fn call(&mut self, entered: u64) -> Option<u64> {
        if let Some(open) = &mut self.open {
            let interval = entered.saturating_sub(open.to_ns);
            if interval <= APART_NS {
                open.calls += 1;
                open.to_ns = open.to_ns.max(entered);
                return Some(interval);
            }
            self.close();
        }
        self.open = Some(Stretch {
            calls: 1,
            from_ns: entered,
            to_ns: entered,
        });
        None
    }

    /// Something came between: the next call begins another stretch.
    pub(super) fn close(&mut self) {
        let Some(stretch) = self.open.take().filter(|open| open.calls >= FEWEST) else {
            return;
        };
        let found = &mut self.found;
        found.stretches += 1;
        found.calls += stretch.calls;
        let length = stretch.to_ns - stretch.from_ns;
        found.total_ns = found.total_ns.saturating_add(length);
        if found
            .longest
            .is_none_or(|longest| longest.calls < stretch.calls)
        {
            found.longest = Some(stretch);
        }
    }

    pub(super) fn finish(mut self) -> Stretches {
        self.close();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_a_stretch_and_few_calls_are_none() {
        let mut finder = Finder::default();
        for call in 0..40 {
            finder.call(1_000 + call * 10_000);
        }
        for call in 0..FEWEST - 1 {
            finder.call(50_000_000 + call);
        }
        finder.call(90_000_000);
        let longest = Stretch {
            calls: 40,
            from_ns: 1_000,
            to_ns: 391_000,
        };
        let expected = Stretches {
            stretches: 1,
            calls: 40,
            total_ns: 390_000,
            longest: Some(longest),
        };
        assert_eq!(finder.finish(), expected);
    }
}
