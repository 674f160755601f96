//! The device pages that live blocks touch.

use std::{collections::HashMap, num::NonZeroU64};

use foldhash::fast::RandomState;

use crate::AddressRange;

/// Counts the distinct pages that a set of disjoint ranges touches.
///
/// Only the first and the last page of a range can be shared with another, so only these
/// are kept; a block of 80 GiB costs no more than one of 512 bytes.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    page: NonZeroU64,
    /// Pages strictly inside a range.
    inner: u64,
    /// For each page that a range begins or ends on, how many ranges do.
    edges: HashMap<u64, u32, RandomState>,
}

impl Pages {
    pub(crate) fn new(page: NonZeroU64) -> Self {
        Self {
            page,
            inner: 0,
            edges: HashMap::default(),
        }
    }

    /// Bytes of all pages touched.
    pub(crate) fn held(&self) -> u64 {
        self.inner
            .saturating_add(self.edges.len() as u64)
            .saturating_mul(self.page.get())
    }

    /// `bytes` rounded up to whole pages.
    pub(crate) fn whole(&self, bytes: u64) -> u64 {
        bytes
            .checked_next_multiple_of(self.page.get())
            .unwrap_or(u64::MAX)
    }

    /// Whether something of so many bytes shares its page with others.
    pub(crate) fn is_shared(&self, bytes: u64) -> bool {
        bytes < self.page.get()
    }

    /// The first and last page of `range`; the same number twice where it touches one only.
    fn span(&self, range: AddressRange) -> (u64, u64) {
        (range.start() / self.page, (range.end() - 1) / self.page)
    }

    pub(crate) fn add(&mut self, range: AddressRange) {
        let (first, last) = self.span(range);
        *self.edges.entry(first).or_default() += 1;
        if last > first {
            *self.edges.entry(last).or_default() += 1;
            self.inner += last - first - 1;
        }
    }

    /// Takes back a range that was added.
    pub(crate) fn remove(&mut self, range: AddressRange) {
        let (first, last) = self.span(range);
        self.leave(first);
        if last > first {
            self.leave(last);
            self.inner -= last - first - 1;
        }
    }

    fn leave(&mut self, page: u64) {
        if let Some(count) = self.edges.get_mut(&page) {
            *count -= 1;
            if *count == 0 {
                self.edges.remove(&page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 2 << 20;

    fn range(start: u64, size: u64) -> AddressRange {
        AddressRange::new(start, size).unwrap()
    }

    /// Measured on an H100: small blocks share a page, which comes back with the last of them.
    #[test]
    fn small_blocks_share_a_page() {
        let mut pages = Pages::new(NonZeroU64::new(PAGE).unwrap());
        pages.add(range(0, 1));
        pages.add(range(512, 64 << 10));
        pages.add(range(1 << 20, 1 << 20));
        assert_eq!(pages.held(), PAGE);
        pages.remove(range(0, 1));
        pages.remove(range(1 << 20, 1 << 20));
        assert_eq!(pages.held(), PAGE);
        pages.remove(range(512, 64 << 10));
        assert_eq!(pages.held(), 0);
    }

    #[test]
    fn large_blocks_are_rounded_up_to_pages() {
        let mut pages = Pages::new(NonZeroU64::new(PAGE).unwrap());
        pages.add(range(0, (20 << 20) + 1));
        assert_eq!(pages.held(), 22 << 20);
    }
}
