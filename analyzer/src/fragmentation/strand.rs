//! Free memory that no request fits, and what a finer grain could give back.

use std::collections::BTreeMap;

use ledger::Pool;

use super::report::{Segment, Strand};
use super::requests::Requests;

/// Fewer free blocks of one size are no pattern.
const FEWEST: u64 = 3;

/// A size is stranded if not more than one request in so many would fit.
const REQUESTS_PER_FITTING: u64 = 20;

/// Free blocks of one size that stay behind beside live ones, again and again, and that hardly
/// any request is small enough for; the most bytes first.
pub(super) fn strands(segments: &[Segment], requests: Option<&Requests>) -> Vec<Strand> {
    let Some(requests) = requests else {
        return Vec::new();
    };
    let mut sizes: BTreeMap<u64, Vec<&Segment>> = BTreeMap::new();
    for segment in segments.iter().filter(|segment| is_partly_live(segment)) {
        for size in free_sizes(segment) {
            sizes.entry(size).or_default().push(segment);
        }
    }
    let mut strands: Vec<Strand> = sizes
        .into_iter()
        .filter_map(|(size, segments)| {
            let blocks = segments.len() as u64;
            let (requests, fitting) = requests.up_to(size)?;
            let is_stranded = Pool::of_size(size) == Pool::Large
                && blocks >= FEWEST
                && fitting.saturating_mul(REQUESTS_PER_FITTING) <= requests;
            let beside = segments.iter().flat_map(|segment| &segment.blocks);
            is_stranded.then(|| Strand {
                size,
                blocks,
                total: size.saturating_mul(blocks),
                requests,
                fitting_requests: fitting,
                segment_size: commonest(segments.iter().map(|segment| segment.size)),
                beside_size: commonest(beside.map(|block| block.size)),
            })
        })
        .collect();
    strands.sort_by_key(|strand| std::cmp::Reverse((strand.total, strand.size)));
    strands
}

/// Bytes of whole pieces that are free in partly live segments of fixed size: expandable ones
/// would give them back.
pub(super) fn expandable_would_free(segments: &[Segment]) -> u64 {
    let fixed = segments.iter().filter(|segment| is_partly_live(segment));
    fixed.map(free_pieces).sum()
}

/// Whether some of it is live and some is free, and it is one device allocation.
fn is_partly_live(segment: &Segment) -> bool {
    segment.allocated > 0 && segment.free > 0 && !segment.expandable
}

/// Bytes of whole pieces, as expandable segments are made of, that are free.
pub(super) fn free_pieces(segment: &Segment) -> u64 {
    let pool = Pool::ALL
        .into_iter()
        .find(|pool| pool.name() == segment.pool);
    let piece = pool.map_or(Pool::Large.granule(), Pool::granule);
    free_ranges(segment)
        .map(|(from, to)| {
            let first = from.next_multiple_of(piece);
            let last = to / piece * piece;
            last.saturating_sub(first)
        })
        .sum()
}

fn free_sizes(segment: &Segment) -> impl Iterator<Item = u64> {
    free_ranges(segment).map(|(from, to)| to - from)
}

/// What lies between the live blocks: offsets in the segment.
fn free_ranges(segment: &Segment) -> impl Iterator<Item = (u64, u64)> {
    let starts = segment.blocks.iter().map(|block| block.address);
    let starts = starts.map(|start| start.saturating_sub(segment.address));
    let ends = segment.blocks.iter().map(|block| {
        let end = block.address.saturating_add(block.size);
        end.saturating_sub(segment.address)
    });
    let from = [0].into_iter().chain(ends);
    let to = starts.chain([segment.size]);
    from.zip(to).filter(|(from, to)| from < to)
}

/// The commonest of them, the largest of equals.
fn commonest(sizes: impl Iterator<Item = u64>) -> Option<u64> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for size in sizes {
        *counts.entry(size).or_default() += 1;
    }
    let most = counts
        .into_iter()
        .max_by_key(|(size, count)| (*count, *size));
    most.map(|(size, _)| size)
}
