//! Whatever rows a ledger was given, its totals follow from what it lists. Summed up here from
//! end to end, with no code of the ledger's.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{
    AddressRange, CachingAllocator, Device, Ledger, MemoryKind, Process, RangeMap, Ranged,
};

const PAGE: u64 = 2 << 20;
const POOL_PAGE: u64 = 32 << 20;

/// What is listed on one device.
#[derive(Default)]
struct Listed {
    by_kind: BTreeMap<MemoryKind, (u64, u64)>,
    pages: BTreeSet<u64>,
    pool_pages: BTreeSet<u64>,
    /// Of what has no address: whole pages, and what shares them.
    own_pages: u64,
    packed: u64,
}

impl Listed {
    fn add(&mut self, kind: MemoryKind, bytes: Option<u64>) {
        let (count, sum) = self.by_kind.entry(kind).or_default();
        *count += 1;
        *sum += bytes.unwrap_or(0);
    }

    fn add_at(&mut self, range: AddressRange, page: u64, is_pool: bool) {
        let pages = if is_pool {
            &mut self.pool_pages
        } else {
            &mut self.pages
        };
        pages.extend(range.start() / page..=(range.end() - 1) / page);
    }

    fn add_anywhere(&mut self, bytes: u64) {
        if bytes < PAGE {
            self.packed += bytes.next_multiple_of(512);
        } else {
            self.own_pages += bytes.next_multiple_of(PAGE);
        }
    }

    fn held(&self) -> u64 {
        self.pages.len() as u64 * PAGE
            + self.pool_pages.len() as u64 * POOL_PAGE
            + self.own_pages
            + self.packed.next_multiple_of(PAGE)
    }
}

pub(crate) fn assert_consistent(ledger: &Ledger) {
    for process in ledger.live() {
        assert_apart(process.blocks(), "blocks");
        assert_apart(process.vmm().mappings(), "mappings");
        assert_apart(process.vmm().reservations(), "reservations");
        assert_devices(process);
        assert_physical(process);
        assert_pools(process);
        for (ordinal, allocator) in process.allocators() {
            assert_allocator(allocator);
            assert_segments(process, *ordinal, allocator);
        }
    }
}

/// None overlaps another.
fn assert_apart<T: Ranged>(ranges: &RangeMap<T>, what: &str) {
    let mut end = 0;
    for range in ranges.iter().map(Ranged::range) {
        assert!(range.start() >= end, "{what} overlap at {range:x?}");
        end = range.end();
    }
}

/// Totals of devices are those of blocks, arrays and physical memory.
fn assert_devices(process: &Process) {
    let mut listed: BTreeMap<Option<i32>, Listed> = BTreeMap::new();
    for block in process.blocks().iter() {
        let listed = listed.entry(block.device()).or_default();
        listed.add(block.kind(), block.size());
        match block.kind() {
            MemoryKind::Device => listed.add_at(block.range(), PAGE, false),
            MemoryKind::Pool => listed.add_at(block.range(), POOL_PAGE, true),
            MemoryKind::Managed
            | MemoryKind::PinnedHost
            | MemoryKind::RegisteredHost
            | MemoryKind::Vmm
            | MemoryKind::Graph
            | MemoryKind::Ipc => {}
        }
    }
    for array in process.arrays() {
        let listed = listed.entry(array.device()).or_default();
        listed.add(MemoryKind::Device, array.size);
        listed.add_anywhere(array.size.unwrap_or(0));
    }
    for physical in process.vmm().physical() {
        let Some(kind) = physical.kind() else {
            continue;
        };
        let listed = listed.entry(physical.device()).or_default();
        listed.add(kind, physical.size);
        if kind == MemoryKind::Vmm {
            listed.add_anywhere(physical.size.unwrap_or(0));
        }
    }
    for (key, device) in process.devices() {
        let listed = listed.remove(key).unwrap_or_default();
        assert_device(device, &listed);
    }
    assert!(listed.is_empty(), "something on a device without totals");
}

fn assert_device(device: &Device, listed: &Listed) {
    let mut own = (0, 0);
    for kind in MemoryKind::ALL {
        let live = device.of_kind(kind);
        let truth = listed.by_kind.get(&kind).copied().unwrap_or_default();
        assert_eq!((live.count, live.bytes), truth, "{}", kind.name());
        if kind.is_own_device_memory() {
            own = (own.0 + live.count, own.1 + live.bytes);
        }
    }
    assert_eq!((device.live().count, device.live().bytes), own);
    assert_eq!(device.held_bytes(), listed.held());
    assert_eq!(device.waste_bytes(), listed.held() - own.1);
    assert!(device.peak().bytes >= own.1);
}

/// Physical memory is there because something refers to it.
fn assert_physical(process: &Process) {
    let vmm = process.vmm();
    for physical in vmm.physical() {
        assert!(physical.references > 0 || physical.mapped > 0);
    }
    let mapped: u64 = vmm.physical().map(|physical| physical.mapped).sum();
    let of_known = vmm.mappings().iter();
    let of_known = of_known.filter(|mapping| vmm.mapped_at(mapping.range()).is_some());
    assert_eq!(mapped, of_known.count() as u64);
}

fn assert_pools(process: &Process) {
    for pool in process.pools() {
        let blocks = process.blocks().iter();
        let of_pool = blocks.filter(|block| {
            block.kind() == MemoryKind::Pool && block.owner() == Some(pool.handle())
        });
        let (mut count, mut bytes) = (0, 0);
        for block in of_pool {
            count += 1;
            bytes += block.size().unwrap_or(0);
        }
        assert_eq!((pool.live.count, pool.live.bytes), (count, bytes));
    }
}

/// What a caching allocator says of itself is what its blocks and segments come to, and each block
/// lies in one segment, or in none.
fn assert_allocator(allocator: &CachingAllocator) {
    assert_apart(allocator.active(), "blocks of PyTorch");
    assert_apart(allocator.segments(), "segments");
    let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.sum::<u64>();
    let known = sum(&mut allocator.active().iter().map(|block| block.range().size()));
    let placed = sum(&mut allocator.segments().iter().map(|it| it.range().size()));
    let map = allocator.completeness();
    let allocated = allocator.allocated();
    assert_eq!(map.hidden_allocated, allocated.saturating_sub(known));
    assert_eq!(map.stale_allocated, known.saturating_sub(allocated));
    let reserved = allocator.reserved();
    assert_eq!(map.hidden_reserved, reserved.saturating_sub(placed));
    assert_eq!(map.stale_reserved, placed.saturating_sub(reserved));
    for segment in allocator.segments().iter() {
        let whole = segment.range();
        let mut blocks = 0;
        for block in allocator.active().iter().map(Ranged::range) {
            let overlaps = block.start() < whole.end() && whole.start() < block.end();
            assert!(
                !overlaps || whole.contains(block),
                "{block:x?} straddles {whole:x?}"
            );
            blocks += if overlaps { block.size() } else { 0 };
        }
        let free: u64 = allocator.free_in(segment).iter().map(|it| it.size()).sum();
        assert_eq!(blocks + free, whole.size());
    }
}

/// A segment that is no run of mappings is a block of the process, and the other way round.
fn assert_segments(process: &Process, ordinal: i32, allocator: &CachingAllocator) {
    let segments = allocator.segments().iter();
    let segments = segments.filter(|segment| !segment.is_expandable);
    let segments: Vec<AddressRange> = segments.map(Ranged::range).collect();
    let blocks = process.blocks().iter();
    let blocks = blocks.filter(|block| block.segment_of() == Some(ordinal));
    let blocks: Vec<AddressRange> = blocks.map(Ranged::range).collect();
    assert_eq!(segments, blocks);
}
