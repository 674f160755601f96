//! A caching allocator with the rules of PyTorch's native one, for one device and one stream:
//! sizes in steps of 512 bytes, small blocks cut from 2 MiB segments, larger ones from 20 MiB
//! segments, the largest with segments of their own; freed blocks join their free neighbours
//! and stay reserved until the cache is emptied.

use std::collections::{BTreeMap, BTreeSet};

use crate::report;

/// Every block is a multiple of this, bytes.
const MIN_BLOCK: u64 = 512;
/// Largest block of the small pool, bytes.
const SMALL_SIZE: u64 = 1 << 20;
/// A segment of the small pool, bytes.
const SMALL_SEGMENT: u64 = 2 << 20;
/// A segment of the large pool, bytes.
const LARGE_SEGMENT: u64 = 20 << 20;
/// From this size on a block has a segment of its own, bytes.
const OWN_SEGMENT: u64 = 10 << 20;
/// Segments of their own are multiples of this, bytes.
const ROUND_LARGE: u64 = 2 << 20;

const INVALID_VALUE: i32 = 1; // cudaErrorInvalidValue
const OUT_OF_MEMORY: i32 = 2; // cudaErrorMemoryAllocation

/// Where segments come from.
pub(crate) trait Device {
    fn malloc(&mut self, size: u64) -> Result<u64, i32>;
    fn free(&mut self, address: u64) -> Result<(), i32>;
}

/// What an allocator holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Totals {
    /// Bytes in live blocks.
    pub allocated: u64,
    /// Bytes in segments.
    pub reserved: u64,
    /// Calls of `reportMemoryUsageToProfiler`.
    pub reports: u64,
    /// Calls of `reportOutOfMemoryToProfiler`.
    pub out_of_memory_reports: u64,
    /// Calls of `cudaMalloc`, failed ones included.
    pub mallocs: u64,
    /// Failed calls of `cudaMalloc`.
    pub failed_mallocs: u64,
    /// Calls of `cudaFree`.
    pub frees: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pool {
    Small,
    Large,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    size: u64,
    segment: u64,
    pool: Pool,
    live: bool,
}

/// The allocator.
pub(crate) struct Allocator<D> {
    device: D,
    /// All blocks, free ones too, by address.
    blocks: BTreeMap<u64, Block>,
    /// Free blocks: best fit first.
    free: BTreeSet<(Pool, u64, u64)>,
    /// Segments: address to bytes.
    segments: BTreeMap<u64, u64>,
    totals: Totals,
}

impl<D: Device> Allocator<D> {
    pub(crate) fn new(device: D) -> Self {
        Self {
            device,
            blocks: BTreeMap::new(),
            free: BTreeSet::new(),
            segments: BTreeMap::new(),
            totals: Totals::default(),
        }
    }

    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Size of the live block at `address`, bytes.
    pub(crate) fn live_size(&self, address: u64) -> Option<u64> {
        self.blocks
            .get(&address)
            .filter(|block| block.live)
            .map(|block| block.size)
    }

    /// Allocates and reports: the address, or a CUDA error. When the device is full, unused
    /// segments are given back and the device is asked once more.
    pub(crate) fn allocate(&mut self, size: u64) -> Result<u64, i32> {
        let size = size
            .max(1)
            .checked_next_multiple_of(MIN_BLOCK)
            .ok_or(INVALID_VALUE)?;
        let pool = if size <= SMALL_SIZE {
            Pool::Small
        } else {
            Pool::Large
        };
        let address = match self.best_fit(pool, size) {
            Some(address) => address,
            None => self.new_segment(pool, size)?,
        };
        self.cut(address, size);
        let block = self.blocks.get_mut(&address).ok_or(INVALID_VALUE)?;
        self.free.remove(&(block.pool, block.size, address));
        block.live = true;
        let size = block.size;
        self.totals.allocated += size;
        self.report(address, signed(size));
        Ok(address)
    }

    /// Frees a block into the cache and reports.
    pub(crate) fn free(&mut self, address: u64) -> Result<(), i32> {
        let size = self.live_size(address).ok_or(INVALID_VALUE)?;
        self.totals.allocated -= size;
        self.report(address, -signed(size));
        self.join_neighbours(address);
        Ok(())
    }

    /// Gives segments without live blocks back to the device. Nothing is reported, as in PyTorch.
    pub(crate) fn empty_cache(&mut self) -> Result<(), i32> {
        let unused: Vec<(u64, u64)> = self
            .segments
            .iter()
            .map(|(segment, size)| (*segment, *size))
            .filter(|(segment, size)| {
                self.blocks
                    .get(segment)
                    .is_some_and(|block| !block.live && block.size == *size)
            })
            .collect();
        for (segment, size) in unused {
            self.totals.frees += 1;
            self.device.free(segment)?;
            if let Some(block) = self.blocks.remove(&segment) {
                self.free.remove(&(block.pool, block.size, segment));
            }
            self.segments.remove(&segment);
            self.totals.reserved -= size;
        }
        Ok(())
    }

    fn best_fit(&self, pool: Pool, size: u64) -> Option<u64> {
        self.free
            .range((pool, size, 0)..)
            .next()
            .filter(|(found, _, _)| *found == pool)
            .map(|(_, _, address)| *address)
    }

    fn new_segment(&mut self, pool: Pool, size: u64) -> Result<u64, i32> {
        let bytes = match pool {
            Pool::Small => SMALL_SEGMENT,
            Pool::Large if size < OWN_SEGMENT => LARGE_SEGMENT,
            Pool::Large => size
                .checked_next_multiple_of(ROUND_LARGE)
                .ok_or(INVALID_VALUE)?,
        };
        let segment = match self.device_malloc(bytes) {
            Err(OUT_OF_MEMORY) => {
                self.empty_cache()?;
                self.device_malloc(bytes)
            }
            other => other,
        };
        if segment == Err(OUT_OF_MEMORY) {
            self.totals.out_of_memory_reports += 1;
            report::out_of_memory(signed(size), self.totals.allocated, self.totals.reserved);
        }
        let segment = segment?;
        self.segments.insert(segment, bytes);
        self.totals.reserved += bytes;
        self.blocks.insert(
            segment,
            Block {
                size: bytes,
                segment,
                pool,
                live: false,
            },
        );
        self.free.insert((pool, bytes, segment));
        Ok(segment)
    }

    fn device_malloc(&mut self, bytes: u64) -> Result<u64, i32> {
        self.totals.mallocs += 1;
        let outcome = self.device.malloc(bytes);
        self.totals.failed_mallocs += u64::from(outcome.is_err());
        outcome
    }

    /// Cuts the free block at `address` down to `size`, where the rest is worth keeping.
    fn cut(&mut self, address: u64, size: u64) {
        let Some(block) = self.blocks.get_mut(&address) else {
            return;
        };
        let rest = block.size - size;
        let worth_keeping = match block.pool {
            Pool::Small => rest >= MIN_BLOCK,
            Pool::Large => rest > SMALL_SIZE,
        };
        if worth_keeping {
            let Block { segment, pool, .. } = *block;
            self.free.remove(&(pool, block.size, address));
            block.size = size;
            self.free.insert((pool, size, address));
            let remainder = Block {
                size: rest,
                segment,
                pool,
                live: false,
            };
            self.blocks.insert(address + size, remainder);
            self.free.insert((pool, rest, address + size));
        }
    }

    /// Makes the live block at `address` free, as one with its free neighbours.
    fn join_neighbours(&mut self, address: u64) {
        let Some(mut joined) = self.blocks.remove(&address) else {
            return;
        };
        let mut start = address;
        let next = self.blocks.get(&(address + joined.size)).copied();
        if let Some(next) = next.filter(|next| !next.live && next.segment == joined.segment) {
            self.blocks.remove(&(address + joined.size));
            self.free
                .remove(&(next.pool, next.size, address + joined.size));
            joined.size += next.size;
        }
        let previous = self
            .blocks
            .range(..address)
            .next_back()
            .map(|(at, block)| (*at, *block));
        if let Some((at, previous)) = previous
            && !previous.live
            && previous.segment == joined.segment
        {
            self.blocks.remove(&at);
            self.free.remove(&(previous.pool, previous.size, at));
            start = at;
            joined.size += previous.size;
        }
        joined.live = false;
        self.blocks.insert(start, joined);
        self.free.insert((joined.pool, joined.size, start));
    }

    fn report(&mut self, address: u64, size: i64) {
        self.totals.reports += 1;
        report::memory_usage(address, size, self.totals.allocated, self.totals.reserved);
    }
}

fn signed(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A device of a given size that never gives an address out twice.
    struct Bump {
        left: u64,
        next: u64,
        sizes: BTreeMap<u64, u64>,
    }

    impl Device for Bump {
        fn malloc(&mut self, size: u64) -> Result<u64, i32> {
            if size > self.left {
                return Err(OUT_OF_MEMORY);
            }
            self.left -= size;
            let address = self.next;
            self.next += size;
            self.sizes.insert(address, size);
            Ok(address)
        }

        fn free(&mut self, address: u64) -> Result<(), i32> {
            self.left += self.sizes.remove(&address).ok_or(INVALID_VALUE)?;
            Ok(())
        }
    }

    fn allocator(capacity: u64) -> Allocator<Bump> {
        Allocator::new(Bump {
            left: capacity,
            next: 0x7f00_0000_0000,
            sizes: BTreeMap::new(),
        })
    }

    /// The first two figures were seen in PyTorch 2.15; `tests/workloads` compares a longer script.
    #[test]
    fn rounding_segments_and_totals_are_pytorchs() {
        let mut allocator = allocator(100 * MIB);
        let block = allocator.allocate(3_145_851).expect("fits");
        assert_eq!(allocator.live_size(block), Some(3_146_240));
        assert_eq!(allocator.totals().reserved, 20_971_520);
        allocator.allocate(1).expect("fits");
        assert_eq!(allocator.totals().reserved, 20_971_520 + 2 * MIB);
        let large = allocator.allocate(19 * MIB).expect("fits");
        assert_eq!(
            allocator.live_size(large),
            Some(20 * MIB),
            "a rest of 1 MiB is not cut off"
        );
        assert_eq!(allocator.totals().allocated, 3_146_240 + 512 + 20 * MIB);
    }

    #[test]
    fn freed_blocks_join_and_stay_reserved_until_the_cache_is_emptied() {
        let mut allocator = allocator(100 * MIB);
        let blocks =
            [2 * MIB, 3 * MIB, 4 * MIB].map(|size| allocator.allocate(size).expect("fits"));
        for at in [0, 2, 1] {
            allocator.free(blocks[at]).expect("live");
        }
        assert_eq!(
            (allocator.totals().allocated, allocator.totals().reserved),
            (0, 20 * MIB)
        );
        assert_eq!(
            allocator.free.len(),
            1,
            "one free block, as large as the segment"
        );
        allocator.empty_cache().expect("the device takes it back");
        assert_eq!(allocator.totals().reserved, 0);
        assert_eq!(allocator.totals().reports, 6);
    }

    #[test]
    fn a_full_device_is_asked_again_after_the_cache_is_emptied() {
        let mut allocator = allocator(40 * MIB);
        let cached = allocator.allocate(20 * MIB).expect("fits");
        allocator.free(cached).expect("live");
        allocator
            .allocate(30 * MIB)
            .expect("fits once the cache is empty");
        assert_eq!(allocator.totals().failed_mallocs, 1);
        assert_eq!(allocator.allocate(30 * MIB), Err(OUT_OF_MEMORY));
        let totals = allocator.totals();
        assert_eq!(
            (totals.failed_mallocs, totals.out_of_memory_reports),
            (3, 1)
        );
        assert_eq!((totals.allocated, totals.reserved), (30 * MIB, 30 * MIB));
    }

    #[test]
    fn only_live_blocks_can_be_freed() {
        let mut allocator = allocator(40 * MIB);
        let block = allocator.allocate(MIB).expect("fits");
        assert_eq!(allocator.free(block + 512), Err(INVALID_VALUE));
        allocator.free(block).expect("live");
        assert_eq!(allocator.free(block), Err(INVALID_VALUE));
    }
}
