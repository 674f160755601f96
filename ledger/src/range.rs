//! Address ranges, and maps of ranges that do not overlap.

use std::collections::BTreeMap;

/// A stretch of addresses, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressRange {
    start: u64,
    end: u64,
}

impl AddressRange {
    /// `size` bytes from `start` on; `None` when that is empty or passes the end of the
    /// address space.
    pub fn new(start: u64, size: u64) -> Option<Self> {
        let end = start.checked_add(size)?;
        (end > start).then_some(Self { start, end })
    }

    /// The first address.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// The address after the last.
    pub const fn end(self) -> u64 {
        self.end
    }

    /// Bytes.
    pub const fn size(self) -> u64 {
        self.end - self.start
    }

    /// Whether all of `other` lies in this range.
    pub const fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// The smallest range that contains both.
    pub(crate) fn hull(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

/// What occupies a range of addresses.
pub trait Ranged {
    /// The range; it must not change while the value is in a [`RangeMap`].
    fn range(&self) -> AddressRange;
}

/// Values by address, none overlapping another.
#[derive(Clone, Debug)]
pub struct RangeMap<T> {
    by_start: BTreeMap<u64, T>,
}

impl<T> Default for RangeMap<T> {
    fn default() -> Self {
        Self {
            by_start: BTreeMap::new(),
        }
    }
}

impl<T: Ranged> RangeMap<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// All, by address.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.by_start.values()
    }

    /// All, by address, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.by_start.values_mut()
    }

    /// The one that starts at `address`.
    pub fn get(&self, address: u64) -> Option<&T> {
        self.by_start.get(&address)
    }

    /// The one that all of `range` lies in.
    pub fn containing(&self, range: AddressRange) -> Option<&T> {
        self.last_in(range)
            .filter(|candidate| candidate.range().contains(range))
    }

    /// Of those that any of `range` lies in, the last: the only one, if all of it lies there.
    pub(crate) fn last_in(&self, range: AddressRange) -> Option<&T> {
        let (_, candidate) = self.by_start.range(..range.end()).next_back()?;
        (candidate.range().end() > range.start()).then_some(candidate)
    }

    pub(crate) fn containing_mut(&mut self, range: AddressRange) -> Option<&mut T> {
        let (_, candidate) = self.by_start.range_mut(..=range.start()).next_back()?;
        candidate.range().contains(range).then_some(candidate)
    }

    pub(crate) fn get_mut(&mut self, address: u64) -> Option<&mut T> {
        self.by_start.get_mut(&address)
    }

    /// Those that start within `range`, by address.
    pub fn starting_in(&self, range: AddressRange) -> impl DoubleEndedIterator<Item = &T> {
        self.by_start
            .range(range.start()..range.end())
            .map(|(_, value)| value)
    }

    /// Adds `value` at a place that must be free: see [`Self::evict`].
    pub(crate) fn insert(&mut self, value: T) {
        self.by_start.insert(value.range().start(), value);
    }

    /// Takes out the one that starts at `address`.
    pub(crate) fn remove(&mut self, address: u64) -> Option<T> {
        self.by_start.remove(&address)
    }

    /// Takes out all that overlap `range`.
    pub(crate) fn evict(&mut self, range: AddressRange) -> Vec<T> {
        // Most often nothing is there, and one look tells.
        if self.last_in(range).is_none() {
            return Vec::new();
        }
        let before = self
            .by_start
            .range(..range.start())
            .next_back()
            .filter(|(_, value)| value.range().end() > range.start())
            .map(|(start, _)| *start);
        let inside = self
            .by_start
            .range(range.start()..range.end())
            .map(|(start, _)| *start);
        let starts: Vec<u64> = before.into_iter().chain(inside).collect();
        starts
            .iter()
            .filter_map(|start| self.by_start.remove(start))
            .collect()
    }

    /// Those that overlap `range`, by address.
    pub(crate) fn overlapping(&self, range: AddressRange) -> impl Iterator<Item = &T> {
        let before = self.by_start.range(..range.start()).next_back();
        let before = before.map(|(_, value)| value);
        before
            .filter(|value| value.range().end() > range.start())
            .into_iter()
            .chain(self.starting_in(range))
    }

    /// Takes out those that `is_wanted` chooses.
    pub(crate) fn take_where(&mut self, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let starts: Vec<u64> = self
            .by_start
            .iter()
            .filter(|(_, value)| is_wanted(value))
            .map(|(start, _)| *start)
            .collect();
        starts
            .iter()
            .filter_map(|start| self.by_start.remove(start))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Ranged for AddressRange {
        fn range(&self) -> AddressRange {
            *self
        }
    }

    fn range(start: u64, size: u64) -> AddressRange {
        AddressRange::new(start, size).unwrap()
    }

    #[test]
    fn a_range_is_neither_empty_nor_wrapped() {
        assert_eq!(AddressRange::new(5, 0), None);
        assert_eq!(AddressRange::new(u64::MAX, 1), None);
        assert_eq!(range(0, u64::MAX).size(), u64::MAX);
    }

    #[test]
    fn eviction_takes_what_overlaps_and_nothing_that_only_touches() {
        let mut map = RangeMap::default();
        for piece in [range(0, 10), range(10, 10), range(20, 10), range(30, 10)] {
            map.insert(piece);
        }
        assert_eq!(map.evict(range(15, 15)), [range(10, 10), range(20, 10)]);
        assert_eq!(
            map.iter().copied().collect::<Vec<_>>(),
            [range(0, 10), range(30, 10)]
        );
    }

    #[test]
    fn containing_wants_the_whole_range() {
        let mut map = RangeMap::default();
        map.insert(range(100, 50));
        assert_eq!(map.containing(range(149, 1)), Some(&range(100, 50)));
        assert_eq!(map.containing(range(149, 2)), None);
        assert_eq!(map.containing(range(99, 2)), None);
    }
}
