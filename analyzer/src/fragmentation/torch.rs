//! The caching allocator's state as a report.

use std::collections::BTreeMap;

use ledger::{AddressRange, CachingAllocator, Pool, Ranged, torch::rules};

use super::{
    fit,
    report::{
        Block, DeviceMemory, FreeSize, Map, OutOfMemory, Peak, Pinned, PoolReport, Retry, Segment,
        Torch,
    },
    requests::Requests,
    strand,
};

/// A segment with fewer live bytes than this share of its size is pinned by them.
pub(super) const PINNED_BELOW_PERCENT: u64 = 5;

/// The state of `allocator` at `now`.
pub(super) fn report(
    allocator: &CachingAllocator,
    memory: Option<&DeviceMemory>,
    fit: Option<u64>,
    requests: Option<&Requests>,
    now: u64,
) -> Torch {
    let segments: Vec<Segment> = allocator
        .segments()
        .iter()
        .map(|segment| segment_of(allocator, segment, now))
        .collect();
    let placed: u64 = segments.iter().map(|segment| segment.allocated).sum();
    let placed_blocks: usize = segments.iter().map(|segment| segment.blocks.len()).sum();
    let known: u64 = allocator
        .active()
        .iter()
        .map(|block| block.range().size())
        .sum();
    let releasable = segments
        .iter()
        .filter(|segment| segment.allocated == 0)
        .map(|segment| segment.size)
        .sum();
    Torch {
        allocated: allocator.allocated(),
        reserved: allocator.reserved(),
        unused: allocator.unused(),
        free_external: segments.iter().map(|segment| segment.free).sum(),
        free_internal: None,
        largest_free: allocator.largest_free(),
        releasable,
        map: map(allocator),
        peak_allocated: peak(allocator.peak_allocated()),
        peak_reserved: peak(allocator.peak_reserved()),
        peak_unused: peak(allocator.peak_unused()),
        pools: Pool::ALL.map(|pool| pool_of(pool, &segments)),
        fit: fit.map(|size| fit::answer(size, allocator, memory, releasable)),
        pinned: pinned(&segments),
        strands: strand::strands(&segments, requests),
        expandable_would_free: strand::expandable_would_free(&segments),
        free_sizes: free_sizes(allocator),
        unplaced_blocks: (allocator.active().len() - placed_blocks) as u64,
        unplaced_bytes: known - placed,
        segments,
        out_of_memory_count: allocator.out_of_memory_count(),
        out_of_memory: allocator
            .out_of_memory()
            .iter()
            .map(out_of_memory)
            .collect(),
    }
}

fn map(allocator: &CachingAllocator) -> Map {
    let ledger::torch::Completeness {
        hidden_allocated,
        stale_allocated,
        hidden_reserved,
        stale_reserved,
    } = allocator.completeness();
    Map {
        complete: allocator.completeness().is_complete(),
        hidden_allocated,
        hidden_reserved,
        stale_allocated,
        stale_reserved,
        discontinuities: allocator.discontinuities(),
        untracked_blocks: allocator.untracked().count,
    }
}

fn peak(peak: ledger::Peak) -> Peak {
    Peak {
        bytes: peak.bytes,
        at_ns: (peak.bytes > 0).then_some(peak.at.timestamp),
    }
}

fn segment_of(allocator: &CachingAllocator, segment: &ledger::Segment, now: u64) -> Segment {
    let range = segment.range();
    let blocks: Vec<Block> = allocator
        .blocks_in(segment)
        .map(|block| Block {
            address: block.range().start(),
            size: block.range().size(),
            age_ns: Some(now.saturating_sub(block.at.timestamp)),
        })
        .collect();
    let free = allocator.free_in(segment);
    let free_bytes: u64 = free.iter().map(|free| free.size()).sum();
    let allocated = range.size() - free_bytes;
    Segment {
        address: range.start(),
        size: range.size(),
        pool: segment.pool.name(),
        expandable: segment.is_expandable,
        allocated,
        free: free_bytes,
        largest_free: free.iter().map(|free| free.size()).max().unwrap_or(0),
        age_ns: now.saturating_sub(segment.at.timestamp),
        pinned: allocated > 0
            && u128::from(allocated) * 100
                < u128::from(range.size()) * u128::from(PINNED_BELOW_PERCENT),
        blocks,
    }
}

fn pool_of(pool: Pool, segments: &[Segment]) -> PoolReport {
    let mut report = PoolReport {
        pool: pool.name(),
        segments: 0,
        reserved: 0,
        allocated: 0,
        free: 0,
        largest_free: 0,
    };
    for segment in segments
        .iter()
        .filter(|segment| segment.pool == pool.name())
    {
        report.segments += 1;
        report.reserved += segment.size;
        report.allocated += segment.allocated;
        report.free += segment.free;
        report.largest_free = report.largest_free.max(segment.largest_free);
    }
    report
}

fn pinned(segments: &[Segment]) -> Pinned {
    let mut pinned = Pinned::default();
    for segment in segments.iter().filter(|segment| segment.pinned) {
        pinned.segments += 1;
        pinned.reserved += segment.size;
        pinned.allocated += segment.allocated;
        pinned.free += segment.free;
        pinned.blocks += segment.blocks.len() as u64;
        if !segment.expandable {
            pinned.expandable_would_free += strand::free_pieces(segment);
        }
        let ages = segment.blocks.iter().filter_map(|block| block.age_ns);
        pinned.oldest_age_ns = pinned.oldest_age_ns.max(ages.max());
    }
    pinned
}

fn free_sizes(allocator: &CachingAllocator) -> Vec<FreeSize> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for size in Pool::ALL
        .into_iter()
        .flat_map(|pool| allocator.free_in_pool(pool))
        .map(AddressRange::size)
    {
        *counts.entry(size).or_default() += 1;
    }
    let mut sizes: Vec<FreeSize> = counts
        .into_iter()
        .map(|(size, count)| FreeSize {
            size,
            count,
            total: size * count,
        })
        .collect();
    sizes.sort_by_key(|free| std::cmp::Reverse((free.total, free.size)));
    sizes
}

fn out_of_memory(oom: &ledger::OutOfMemory) -> OutOfMemory {
    let ledger::OutOfMemory {
        at,
        tid,
        asked,
        allocated,
        reserved,
        free_in_pool,
        largest_free,
        map,
        reading,
        retry,
    } = *oom;
    let segment = rules::segment_size(asked);
    OutOfMemory {
        at_ns: at.timestamp,
        tid,
        asked,
        segment,
        allocated,
        reserved,
        unused: reserved.saturating_sub(allocated),
        free_in_pool,
        largest_free,
        map_complete: map.is_complete(),
        device_free: reading.map(|reading| reading.free),
        device_total: reading.map(|reading| reading.total),
        device_free_age_ns: reading
            .map(|reading| at.timestamp.saturating_sub(reading.at.timestamp)),
        fragmented: map
            .is_complete()
            .then_some(free_in_pool >= asked && largest_free < asked),
        device_had_room: reading.map(|reading| segment.is_some_and(|size| size <= reading.free)),
        retry: retry.map(|retry| Retry {
            after_ns: retry.at.timestamp.saturating_sub(at.timestamp),
            freed: retry.freed,
            new_segment: retry.new_segment,
            pending_free: retry.shows_pending_free(),
        }),
    }
}
