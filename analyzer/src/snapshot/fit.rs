//! Would a request be served from free blocks?

use std::collections::BTreeMap;

use ledger::{Pool, torch::rules};

use super::model::{Segment, Snapshot, State};
use super::report::{Fit, PoolFit};

/// The answer for a request of `size` bytes, for every pool and stream that could serve it.
pub(super) fn answer(snapshot: &Snapshot, segments: &[&Segment], size: u64) -> Fit {
    let rounded = rules::round_size(size);
    let kind = Pool::of_size(rounded.unwrap_or(size));
    let mut pools: BTreeMap<_, PoolFit> = BTreeMap::new();
    for segment in segments {
        if segment
            .is_small
            .is_some_and(|is_small| is_small != (kind == Pool::Small))
        {
            continue;
        }
        let fit = pools
            .entry((segment.pool, segment.stream))
            .or_insert(PoolFit {
                pool_id: segment.pool,
                stream: segment.stream,
                fits: false,
                address: None,
                size: None,
                largest_free: 0,
            });
        for block in snapshot.blocks_of(segment) {
            if block.state != State::Inactive {
                continue;
            }
            fit.largest_free = fit.largest_free.max(block.size);
            let is_enough = rounded.is_some_and(|rounded| block.size >= rounded);
            let chosen = (block.size, block.address);
            if is_enough && fit.size.zip(fit.address).is_none_or(|best| chosen < best) {
                fit.fits = true;
                (fit.size, fit.address) = (Some(block.size), Some(block.address));
            }
        }
    }
    Fit {
        requested: size,
        rounded,
        kind: kind.name(),
        new_segment: rounded.and_then(rules::segment_size),
        pools: pools.into_values().collect(),
    }
}
