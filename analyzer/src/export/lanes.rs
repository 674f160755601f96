//! Tracks on which slices only nest.
//!
//! Viewers draw the slices of a track as a stack of calls, and drop or distort one that overlaps
//! another without lying within it. A thread's calls nest; but ids that two pid namespaces share,
//! calls that were jumped out of and damaged recordings do not. What does not fit goes to the next
//! lane of its thread.

use std::collections::VecDeque;

/// Slices whose places a lane remembers; what begins before all of them goes to the next one.
const REMEMBERED: usize = 1024;

/// Most lanes of a thread.
const LANES: usize = 64;

/// The lanes of one thread. Slices come in order of their ends; one that does not takes another
/// lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes(Vec<Lane>);

#[derive(Clone, Debug, Default)]
struct Lane {
    /// Start and end of the slices that lie in no other one, by time.
    outermost: VecDeque<(u64, u64)>,
    last_end: u64,
    /// What lies before is forgotten.
    floor: u64,
}

impl Lanes {
    /// The first lane on which a slice nests, from 0; `None` where there are too many.
    pub(super) fn place(&mut self, start: u64, end: u64) -> Option<usize> {
        if let Some(lane) = self.0.iter_mut().position(|lane| lane.take(start, end)) {
            return Some(lane);
        }
        if self.0.len() == LANES {
            return None;
        }
        let mut lane = Lane::default();
        lane.take(start, end);
        self.0.push(lane);
        Some(self.0.len() - 1)
    }
}

impl Lane {
    /// Takes a slice if it nests with all that are there.
    fn take(&mut self, start: u64, end: u64) -> bool {
        if start < self.floor || end < self.last_end {
            return false;
        }
        let within = self.outermost.partition_point(|slice| slice.0 < start);
        let cuts_into = |before: usize| self.outermost[before].1 > start;
        // Of two that start together the longer one would have to be written first.
        let starts_with = |slice: &(u64, u64)| slice.0 == start && start < slice.1 && slice.1 < end;
        if within.checked_sub(1).is_some_and(cuts_into)
            || self.outermost.range(within..).any(starts_with)
        {
            return false;
        }
        self.outermost.truncate(within);
        self.outermost.push_back((start, end));
        self.last_end = end;
        if self.outermost.len() > REMEMBERED
            && let Some((_, end)) = self.outermost.pop_front()
        {
            self.floor = end;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lanes(slices: &[(u64, u64)]) -> Vec<Option<usize>> {
        let mut lanes = Lanes::default();
        let place = |(start, end): &(u64, u64)| lanes.place(*start, *end);
        slices.iter().map(place).collect()
    }

    #[test]
    fn a_stack_of_calls_is_one_lane() {
        let calls = [(10, 20), (20, 20), (20, 30), (5, 30), (30, 40), (0, 50)];
        assert_eq!(lanes(&calls), [Some(0); 6]);
    }

    #[test]
    fn what_overlaps_goes_to_the_next_lane() {
        assert_eq!(
            lanes(&[(0, 10), (5, 15), (12, 20)]),
            [Some(0), Some(1), Some(0)]
        );
        assert_eq!(lanes(&[(0, 10), (0, 15)]), [Some(0), Some(1)]);
        assert_eq!(lanes(&[(0, 10), (2, 5)]), [Some(0), Some(1)]);
    }

    #[test]
    fn lanes_and_memory_are_bounded() {
        let mut lanes = Lanes::default();
        for n in 0..1_000_u64 {
            lanes.place(5_000 - n * 2, 10_000 - n);
        }
        assert_eq!(lanes.0.len(), LANES);
        let mut lanes = Lanes::default();
        for n in 0..100_000 {
            assert_eq!(lanes.place(n * 10, n * 10 + 5), Some(0));
        }
        assert!(lanes.0[0].outermost.len() <= REMEMBERED);
        assert_eq!(lanes.place(0, 2_000_000), Some(1));
    }

    proptest! {
        #[test]
        fn slices_of_a_lane_nest(slices in prop::collection::vec((0_u64..40, 0_u64..20), 0..60)) {
            let slices: Vec<_> = slices.iter().map(|(start, length)| (*start, start + length)).collect();
            let placed = lanes(&slices);
            for (n, (a, b)) in slices.iter().enumerate() {
                for (m, (c, d)) in slices.iter().enumerate().skip(n + 1) {
                    if placed[n].is_some() && placed[n] == placed[m] {
                        // The later one contains the earlier one, or follows it.
                        let contains = c <= a && b <= d && (c < a || b == d || a == b);
                        prop_assert!(contains || b <= c, "{:?} {:?}", (a, b), (c, d));
                    }
                }
            }
        }
    }
}
