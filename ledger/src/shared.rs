//! Blocks that processes show to one another.

use std::collections::BTreeMap;

/// The sizes of blocks that were shown to other processes, by the fingerprint of the 64 bytes
/// that name them. Those shown first go first when there are too many.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedBlocks {
    /// By fingerprint, the block's size and its place in `order`.
    sizes: BTreeMap<u64, (u64, u64)>,
    order: BTreeMap<u64, u64>,
    next: u64,
}

impl SharedBlocks {
    pub(crate) fn show(&mut self, fingerprint: u64, size: u64, limit: usize) {
        let place = self.next;
        self.next += 1;
        if let Some((_, before)) = self.sizes.insert(fingerprint, (size, place)) {
            self.order.remove(&before);
        }
        self.order.insert(place, fingerprint);
        if self.sizes.len() > limit
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.sizes.remove(&oldest);
        }
    }

    pub(crate) fn size(&self, fingerprint: u64) -> Option<u64> {
        self.sizes.get(&fingerprint).map(|(size, _)| *size)
    }

    /// All, the one shown first first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.order
            .values()
            .filter_map(|fingerprint| Some((*fingerprint, self.size(*fingerprint)?)))
    }
}
