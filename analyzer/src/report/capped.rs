//! Values by key, for a limited number of keys.

use std::collections::hash_map::Entry;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Values by key. Keys come from a file: those beyond the limit share one value, so that a
/// file with a new key in each row does not take all memory.
#[derive(Debug)]
pub(crate) struct Capped<K, V> {
    /// Not many: a file that makes them collide gains little.
    values: FxHashMap<K, V>,
    limit: usize,
    others: Option<V>,
}

impl<K: Eq + Hash + Ord, V> Capped<K, V> {
    /// For at most `limit` keys.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            values: FxHashMap::default(),
            limit,
            others: None,
        }
    }

    /// The value of `key`, or that of all keys beyond the limit.
    #[inline]
    pub(crate) fn entry(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        let is_full = self.values.len() >= self.limit;
        match self.values.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if is_full => self.others.get_or_insert_with(new),
            Entry::Vacant(vacant) => vacant.insert(new()),
        }
    }

    /// All values, by key; `None` is the key of what was beyond the limit.
    pub(crate) fn into_sorted(self) -> Vec<(Option<K>, V)> {
        let values = self
            .values
            .into_iter()
            .map(|(key, value)| (Some(key), value));
        let mut all: Vec<_> = values
            .chain(self.others.map(|others| (None, others)))
            .collect();
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_beyond_the_limit_share_a_value() {
        let mut values = Capped::new(2);
        for key in [7, 3, 9, 7, 8] {
            *values.entry(key, || 0) += 1;
        }
        assert_eq!(
            values.into_sorted(),
            [(None, 2), (Some(3), 1), (Some(7), 2)]
        );
    }
}
