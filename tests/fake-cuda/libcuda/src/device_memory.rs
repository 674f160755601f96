//! How a device hands out memory, measured on an H100 and an H200 with driver 580: 2 MiB pages; blocks of
//! less than a page share pages, others have whole pages of their own.
//!
//! Pure bookkeeping over addresses: nothing here is ever dereferenced.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

/// The unit in which the device gives memory out, bytes.
pub(crate) const PAGE: u64 = 2 << 20;
/// Larger blocks have pages of their own.
const LARGEST_SHARED: u64 = PAGE - 1;
/// Distance of small blocks in a shared page.
const SMALL_UNIT: u64 = 512;

/// One device's memory.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    capacity: u64,
    /// Bytes of pages that are taken, but for those of `packed`.
    used: u64,
    /// Bytes of small arrays, which share pages: as tightly as can be, for they have no addresses.
    packed: u64,
    /// Address ranges without pages: start to length, never touching one another.
    free_ranges: BTreeMap<u64, u64>,
    /// Blocks with pages of their own: address to bytes of pages.
    own_pages: HashMap<u64, u64>,
    shared_pages: BTreeMap<u64, SharedPage>,
    /// `(largest gap, page)` of each shared page.
    by_gap: BTreeSet<(u64, u64)>,
}

/// A page that small blocks share.
#[derive(Debug)]
struct SharedPage {
    /// Offset to length of the gaps, never touching one another.
    gaps: BTreeMap<u64, u64>,
    /// Offset to length of the live blocks.
    blocks: HashMap<u64, u64>,
}

impl DeviceMemory {
    /// A device with `capacity` bytes, addressed within `arena`, which starts on a page.
    pub(crate) fn new(capacity: u64, arena: Range<u64>) -> Self {
        Self {
            capacity,
            used: 0,
            packed: 0,
            free_ranges: BTreeMap::from([(arena.start, arena.end - arena.start)]),
            own_pages: HashMap::new(),
            shared_pages: BTreeMap::new(),
            by_gap: BTreeSet::new(),
        }
    }

    /// Bytes of the device.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes of the device that no page takes.
    pub(crate) fn free(&self) -> u64 {
        self.capacity - self.used - self.packed.next_multiple_of(PAGE)
    }

    /// Takes `size` bytes (above 0): the address, or `None` when the pages do not suffice.
    pub(crate) fn take(&mut self, size: u64) -> Option<u64> {
        if size <= LARGEST_SHARED {
            return self.take_shared(size.next_multiple_of(SMALL_UNIT));
        }
        let bytes = size.checked_next_multiple_of(PAGE)?;
        let address = self.take_pages(bytes)?;
        self.own_pages.insert(address, bytes);
        Some(address)
    }

    /// Gives the block at `address` back; `false` when there is none.
    pub(crate) fn give_back(&mut self, address: u64) -> bool {
        if let Some(bytes) = self.own_pages.remove(&address) {
            self.give_pages_back(address, bytes);
            return true;
        }
        self.give_shared_back(address)
    }

    /// Bytes of the live block that starts at `address`, as far as the device keeps them apart.
    pub(crate) fn size_of(&self, address: u64) -> Option<u64> {
        let (page, shared) = self.shared_pages.range(..=address).next_back().unzip();
        let small = page.and_then(|page| shared?.blocks.get(&(address - page)));
        self.own_pages.get(&address).or(small).copied()
    }

    /// Takes the room of an array; `false` when there is not enough.
    pub(crate) fn take_array(&mut self, bytes: u64) -> bool {
        if bytes > LARGEST_SHARED {
            return self.take_physical(bytes);
        }
        let packed = self.packed + bytes.next_multiple_of(SMALL_UNIT);
        let fits = self.used + packed.next_multiple_of(PAGE) <= self.capacity;
        if fits {
            self.packed = packed;
        }
        fits
    }

    /// Gives the room of an array back.
    pub(crate) fn give_array_back(&mut self, bytes: u64) {
        if bytes > LARGEST_SHARED {
            self.give_physical_back(bytes);
        } else {
            self.packed -= bytes.next_multiple_of(SMALL_UNIT);
        }
    }

    /// Takes pages without addresses for `bytes`: physical memory, or what a graph holds. `false`
    /// when they do not suffice.
    pub(crate) fn take_physical(&mut self, bytes: u64) -> bool {
        match bytes.checked_next_multiple_of(PAGE) {
            Some(bytes) if bytes <= self.free() => {
                self.used += bytes;
                true
            }
            Some(_) | None => false,
        }
    }

    /// Gives pages of [`Self::take_physical`] back.
    pub(crate) fn give_physical_back(&mut self, bytes: u64) {
        self.used -= bytes.next_multiple_of(PAGE);
    }

    /// Takes whole pages that begin at a multiple of `alignment`, both in bytes; for who keeps
    /// the books of what lies there.
    pub(crate) fn take_aligned(&mut self, bytes: u64, alignment: u64) -> Option<u64> {
        if bytes > self.free() {
            return None;
        }
        let aligned = |start: u64| start.next_multiple_of(alignment);
        let (start, length) = self
            .free_ranges
            .iter()
            .map(|(start, length)| (*start, *length))
            .find(|&(start, length)| aligned(start) + bytes <= start + length)?;
        let (from, to) = (aligned(start), aligned(start) + bytes);
        self.free_ranges.remove(&start);
        if from > start {
            self.free_ranges.insert(start, from - start);
        }
        if start + length > to {
            self.free_ranges.insert(to, start + length - to);
        }
        self.used += bytes;
        Some(from)
    }

    /// Gives pages of [`Self::take_aligned`] back.
    pub(crate) fn give_aligned_back(&mut self, start: u64, bytes: u64) {
        self.give_pages_back(start, bytes);
    }

    fn take_shared(&mut self, size: u64) -> Option<u64> {
        let fitting = self.by_gap.range((size, 0)..).next().map(|&(_, page)| page);
        let page = if let Some(page) = fitting {
            page
        } else {
            let page = self.take_pages(PAGE)?;
            self.shared_pages.insert(page, SharedPage::empty());
            self.by_gap.insert((PAGE, page));
            page
        };
        self.change_shared(page, |shared| shared.take(size))
            .flatten()
            .map(|offset| page + offset)
    }

    fn give_shared_back(&mut self, address: u64) -> bool {
        let Some((&page, _)) = self.shared_pages.range(..=address).next_back() else {
            return false;
        };
        let given = self.change_shared(page, |shared| shared.give_back(address - page));
        if self
            .shared_pages
            .get(&page)
            .is_some_and(|shared| shared.blocks.is_empty())
        {
            self.shared_pages.remove(&page);
            self.by_gap.remove(&(PAGE, page));
            self.give_pages_back(page, PAGE);
        }
        given == Some(true)
    }

    /// Changes a shared page and keeps `by_gap` true to it.
    fn change_shared<T>(
        &mut self,
        page: u64,
        change: impl FnOnce(&mut SharedPage) -> T,
    ) -> Option<T> {
        let shared = self.shared_pages.get_mut(&page)?;
        self.by_gap.remove(&(shared.largest_gap(), page));
        let outcome = change(shared);
        self.by_gap.insert((shared.largest_gap(), page));
        Some(outcome)
    }

    /// Takes whole pages at the lowest free address, as a freed range is soon used again.
    fn take_pages(&mut self, bytes: u64) -> Option<u64> {
        if bytes > self.free() {
            return None;
        }
        let (&start, &length) = self
            .free_ranges
            .iter()
            .find(|(_, length)| **length >= bytes)?;
        self.free_ranges.remove(&start);
        if length > bytes {
            self.free_ranges.insert(start + bytes, length - bytes);
        }
        self.used += bytes;
        Some(start)
    }

    fn give_pages_back(&mut self, start: u64, bytes: u64) {
        insert_merged(&mut self.free_ranges, start, bytes);
        self.used -= bytes;
    }
}

impl SharedPage {
    fn empty() -> Self {
        Self {
            gaps: BTreeMap::from([(0, PAGE)]),
            blocks: HashMap::new(),
        }
    }

    fn largest_gap(&self) -> u64 {
        self.gaps.values().copied().max().unwrap_or(0)
    }

    fn take(&mut self, size: u64) -> Option<u64> {
        let (&offset, &length) = self.gaps.iter().find(|(_, length)| **length >= size)?;
        self.gaps.remove(&offset);
        if length > size {
            self.gaps.insert(offset + size, length - size);
        }
        self.blocks.insert(offset, size);
        Some(offset)
    }

    fn give_back(&mut self, offset: u64) -> bool {
        let Some(size) = self.blocks.remove(&offset) else {
            return false;
        };
        insert_merged(&mut self.gaps, offset, size);
        true
    }
}

/// Adds a range, joined with the neighbours that it touches.
pub(crate) fn insert_merged(ranges: &mut BTreeMap<u64, u64>, mut start: u64, mut length: u64) {
    if let Some(after) = ranges.remove(&(start + length)) {
        length += after;
    }
    if let Some((&before, &before_length)) = ranges.range(..start).next_back()
        && before + before_length == start
    {
        ranges.remove(&before);
        start = before;
        length += before_length;
    }
    ranges.insert(start, length);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn device(capacity: u64) -> DeviceMemory {
        let base = 0x7f00_0000_0000;
        DeviceMemory::new(capacity, base..base + 4 * capacity)
    }

    /// What `size` costs a device that holds nothing else, bytes.
    fn cost(size: u64) -> u64 {
        let mut memory = device(80 * GIB);
        memory.take(size).expect("fits");
        memory.capacity() - memory.free()
    }

    #[test]
    fn costs_are_those_of_the_real_device() {
        for (size, expected) in [
            (1, 2 * MIB),
            (512, 2 * MIB),
            (MIB, 2 * MIB),
            (MIB + 1, 2 * MIB),
            (2 * MIB, 2 * MIB),
            (2 * MIB + 1, 4 * MIB),
            (3 * MIB, 4 * MIB),
            (20 * MIB + 1, 22 * MIB),
        ] {
            assert_eq!(cost(size), expected, "{size}");
        }
    }

    #[test]
    fn small_blocks_share_a_page_until_the_last_is_gone() {
        let mut memory = device(GIB);
        let blocks = [1, 512, 4096, 65536, MIB].map(|size| memory.take(size).expect("fits"));
        assert_eq!(memory.free(), GIB - PAGE);
        assert!(blocks.iter().all(|block| block % SMALL_UNIT == 0));
        for (index, block) in blocks.into_iter().enumerate() {
            assert_eq!(
                memory.free(),
                GIB - PAGE,
                "before the free of block {index}"
            );
            assert!(memory.give_back(block));
        }
        assert_eq!(memory.free(), GIB);
    }

    #[test]
    fn freeing_every_other_small_block_gives_nothing_back() {
        let mut memory = device(80 * GIB);
        let blocks: Vec<u64> = (0..16_384)
            .map(|_| memory.take(MIB).expect("fits"))
            .collect();
        assert_eq!(memory.free(), 64 * GIB);
        for block in blocks.iter().step_by(2) {
            assert!(memory.give_back(*block));
        }
        assert_eq!(memory.free(), 64 * GIB);
        for block in blocks.iter().skip(1).step_by(2) {
            assert!(memory.give_back(*block));
        }
        assert_eq!(memory.free(), 80 * GIB);
    }

    #[test]
    fn holes_in_the_addresses_stop_no_large_block() {
        let mut memory = device(79 * GIB);
        let blocks: Vec<u64> = (0..74).map(|_| memory.take(GIB).expect("fits")).collect();
        for block in blocks.iter().step_by(2) {
            assert!(memory.give_back(*block));
        }
        assert!(memory.take(36 * GIB).is_some());
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut memory = device(4 * MIB);
        assert_eq!(memory.take(5 * MIB), None);
        assert_eq!(memory.take(u64::MAX), None);
        assert_eq!(memory.free(), 4 * MIB);
        let first = memory.take(2 * MIB).expect("fits");
        memory.take(1).expect("fits");
        assert_eq!(memory.take(2 * MIB), None);
        assert!(memory.give_back(first));
        assert_eq!(
            memory.take(2 * MIB),
            Some(first),
            "a freed address is used again"
        );
    }

    #[test]
    fn only_the_start_of_a_live_block_can_be_given_back() {
        let mut memory = device(GIB);
        let small = memory.take(4096).expect("fits");
        let large = memory.take(4 * MIB).expect("fits");
        for address in [0, small + 512, large + 1, large + PAGE, u64::MAX] {
            assert!(!memory.give_back(address), "{address:#x}");
        }
        assert!(memory.give_back(small) && !memory.give_back(small));
        assert!(memory.give_back(large) && !memory.give_back(large));
        assert_eq!(memory.free(), GIB);
    }
}
