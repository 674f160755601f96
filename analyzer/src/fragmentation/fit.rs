//! Would a request fit? PyTorch tries a free block of its cache first, then a new segment.

use ledger::{AddressRange, CachingAllocator, Pool, Ranged, torch::rules};

use crate::text::{bytes, duration};

use super::report::{Block, CachedFit, DeviceMemory, Fit, NewSegmentFit};

/// The two answers for a request of `size` bytes. `releasable` are the bytes that PyTorch can
/// give back to the device for it.
pub(super) fn answer(
    size: u64,
    allocator: &CachingAllocator,
    memory: Option<&DeviceMemory>,
    releasable: u64,
) -> Fit {
    let rounded = rules::round_size(size);
    let growth = rounded.and_then(|rounded| growth(rounded, allocator));
    let segment = growth.or_else(|| rounded.and_then(rules::segment_size));
    Fit {
        requested: size,
        rounded,
        pool: Pool::of_size(rounded.unwrap_or(size)).name(),
        cached: match rounded {
            Some(rounded) => cached(rounded, allocator),
            None => CachedFit {
                fits: Some(false),
                reason: too_large(),
                free_block: None,
            },
        },
        new_segment: match segment {
            Some(segment) => new_segment(segment, growth.is_some(), memory, releasable),
            None => NewSegmentFit {
                fits: Some(false),
                reason: too_large(),
                segment: None,
            },
        },
    }
}

/// What an expandable segment must grow by for a request: in whole pieces, less what is free at
/// its end. `None` where the allocator has no such segments.
fn growth(rounded: u64, allocator: &CachingAllocator) -> Option<u64> {
    let pool = Pool::of_size(rounded);
    let mut expandable = allocator
        .segments()
        .iter()
        .filter(|segment| segment.is_expandable)
        .peekable();
    expandable.peek()?;
    let free_at_end = expandable
        .filter(|segment| segment.pool == pool)
        .filter_map(|segment| {
            let last = allocator.free_in(segment).pop()?;
            (last.end() == segment.range().end()).then(|| last.size())
        });
    let missing = rounded.saturating_sub(free_at_end.max().unwrap_or(0));
    missing.checked_next_multiple_of(pool.granule())
}

fn too_large() -> String {
    "it exceeds the address space".to_owned()
}

fn cached(rounded: u64, allocator: &CachingAllocator) -> CachedFit {
    let pool = Pool::of_size(rounded);
    let map = allocator.completeness();
    // Best fit: the smallest free block that is large enough, the lowest address first.
    let best = allocator
        .free_in_pool(pool)
        .filter(|free| free.size() >= rounded)
        .min_by_key(|free| (free.size(), free.start()));
    let (fits, reason) = match best {
        Some(free) => found(rounded, free, pool, allocator),
        None if map.hidden_reserved > 0 => (
            None,
            format!(
                "no free block of the known segments is large enough, but {} of segments are not \
                 known",
                bytes(map.hidden_reserved)
            ),
        ),
        None if map.stale_allocated > 0 => (
            None,
            format!(
                "no free block is known to be large enough, but {} of blocks were freed unseen",
                bytes(map.stale_allocated)
            ),
        ),
        None => {
            let largest = allocator.free_in_pool(pool).map(AddressRange::size).max();
            let largest = match largest {
                Some(largest) => format!("the largest free block has {}", bytes(largest)),
                None => "there is no free block".to_owned(),
            };
            (
                Some(false),
                format!("in the {} pool, {largest}", pool.name()),
            )
        }
    };
    let free_block = best.map(|free| Block {
        address: free.start(),
        size: free.size(),
        age_ns: None,
    });
    CachedFit {
        fits,
        reason,
        free_block,
    }
}

/// What a free block that is large enough means.
fn found(
    rounded: u64,
    free: AddressRange,
    pool: Pool,
    allocator: &CachingAllocator,
) -> (Option<bool>, String) {
    let map = allocator.completeness();
    // Unseen blocks may lie in segments that are not known; beyond these, in what looks free.
    let unseen_inside = map.hidden_allocated.saturating_sub(map.hidden_reserved);
    if unseen_inside > 0 || map.stale_reserved > 0 {
        let reason = format!(
            "a free block of {} looks large enough, but {} in the known segments are not as they \
             look: reports are missing",
            bytes(free.size()),
            bytes(unseen_inside.saturating_add(map.stale_reserved))
        );
        return (None, reason);
    }
    let remainder = free.size() - rounded;
    let rest = if remainder == 0 {
        "exactly".to_owned()
    } else if pool.splits(remainder) {
        format!("and is split: {} stay free", bytes(remainder))
    } else {
        format!(
            "and is handed out whole: {} of it are wasted",
            bytes(remainder)
        )
    };
    let reason = format!(
        "the smallest sufficient free block has {}, {rest}; it serves requests of its own stream \
         and memory pool only, which are not known",
        bytes(free.size())
    );
    (Some(true), reason)
}

fn new_segment(
    segment: u64,
    grows: bool,
    memory: Option<&DeviceMemory>,
    releasable: u64,
) -> NewSegmentFit {
    let Some(memory) = memory else {
        return NewSegmentFit {
            fits: None,
            reason: "the program never asked how much device memory is free".to_owned(),
            segment: Some(segment),
        };
    };
    let free = memory.free_now_bytes;
    let source = format!(
        "about {} of the device were free ({} free when the program asked {} earlier, and what \
         it took and gave back since)",
        bytes(free),
        bytes(memory.free_bytes),
        duration(memory.age_ns)
    );
    let with_release = free.saturating_add(releasable);
    let (fits, released) = if segment <= free {
        (true, String::new())
    } else {
        let released = format!(", and PyTorch can give back {} first", bytes(releasable));
        (segment <= with_release, released)
    };
    NewSegmentFit {
        fits: Some(fits),
        reason: format!(
            "{} {}; {source}{released}",
            if grows {
                "a segment grows by"
            } else {
                "it takes"
            },
            bytes(segment)
        ),
        segment: Some(segment),
    }
}
