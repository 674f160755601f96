//! From a snapshot to a report.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::history::History;
use super::history_report::{self, Ring};
use super::intern::{FrameId, Names, StackId};
use super::model::{Block, Segment, Settings, Snapshot, State};
use super::report::{
    BlockReport, Device, File, FreeSize, Holder, Pinned, Pool, Report, SCHEMA, SegmentReport,
    SettingsReport, Totals,
};

/// A segment with fewer live bytes than this share of its size is pinned by them.
const PINNED_BELOW_PERCENT: u128 = 5;
const PINNED_BY: usize = 3;
const HOLDERS: usize = 50;

impl Report {
    /// The report on `snapshot`, with an answer whether a request of `fit` bytes would be
    /// served.
    pub fn new(snapshot: &Snapshot, fit: Option<u64>) -> Self {
        let with_history = snapshot.histories.iter().enumerate();
        let ordinals: BTreeSet<i64> = snapshot
            .segments
            .iter()
            .map(|segment| segment.device)
            .chain(
                with_history
                    .filter(|(_, history)| history.entries() > 0)
                    .filter_map(|(ordinal, _)| i64::try_from(ordinal).ok()),
            )
            .collect();
        let devices = ordinals
            .into_iter()
            .map(|ordinal| {
                let segments: Vec<&Segment> = snapshot
                    .segments
                    .iter()
                    .filter(|segment| segment.device == ordinal)
                    .collect();
                let place = usize::try_from(ordinal).ok();
                let history = place.and_then(|place| snapshot.histories.get(place));
                let ring = Ring {
                    overflowed: place.and_then(|place| *snapshot.overflowed.get(place)?),
                    max_entries: place.and_then(|place| *snapshot.max_entries.get(place)?),
                };
                device(snapshot, Some(ordinal), &segments, history, ring, fit)
            })
            .collect();
        let host = snapshot.host_segments.as_ref().map(|segments| {
            let segments: Vec<&Segment> = segments.iter().collect();
            let history = snapshot.host_histories.first();
            device(snapshot, None, &segments, history, Ring::default(), None)
        });
        Self {
            schema: SCHEMA,
            file: File {
                bytes: snapshot.bytes,
                protocol: snapshot.protocol,
                stacks: snapshot.names.stack_count() as u64,
            },
            settings: snapshot.settings.as_ref().map(settings),
            devices,
            host,
            recording: None,
        }
    }
}

fn settings(settings: &Settings) -> SettingsReport {
    let Settings {
        configuration,
        variable,
        expandable_segments,
        max_split_size,
        garbage_collection_threshold,
    } = settings;
    // PyTorch writes "no limit" as -1, or as the largest size.
    let limit = max_split_size.and_then(|size| u64::try_from(size).ok());
    SettingsReport {
        variable: *variable,
        configuration: configuration.clone(),
        expandable_segments: *expandable_segments,
        max_split_size: limit.filter(|size| *size < i64::MAX as u64),
        garbage_collection_threshold: garbage_collection_threshold.filter(|share| *share > 0.0),
    }
}

fn device(
    snapshot: &Snapshot,
    ordinal: Option<i64>,
    segments: &[&Segment],
    history: Option<&History>,
    ring: Ring,
    fit: Option<u64>,
) -> Device {
    let mut totals = Totals::default();
    let mut pools: BTreeMap<_, Totals> = BTreeMap::new();
    let mut pinned = Pinned::default();
    let mut inconsistent_segments = 0;
    let mut free_sizes: BTreeMap<u64, u64> = BTreeMap::new();
    let mut holders: FxHashMap<StackId, (u64, u64)> = FxHashMap::default();
    let mut reports: Vec<SegmentReport> = Vec::with_capacity(segments.len());
    for segment in segments {
        let blocks = snapshot.blocks_of(segment);
        let own = totals_of(segment, blocks);
        for block in blocks {
            match block.state {
                State::Allocated => {
                    let holder = holders.entry(block.stack).or_default();
                    holder.0 += 1;
                    holder.1 = holder.1.saturating_add(block.size);
                }
                State::Inactive => *free_sizes.entry(block.size).or_default() += 1,
                State::PendingFree => {}
            }
        }
        let sum = blocks
            .iter()
            .fold(0_u64, |sum, block| sum.saturating_add(block.size));
        inconsistent_segments += u64::from(sum != segment.size);
        let report = segment_report(&snapshot.names, segment, blocks, &own);
        if report.pinned {
            pinned.segments += 1;
            pinned.reserved = pinned.reserved.saturating_add(segment.size);
            pinned.allocated = pinned.allocated.saturating_add(own.allocated);
        }
        reports.push(report);
        let key = (segment.pool, segment.is_small, segment.stream);
        add(pools.entry(key).or_default(), &own);
        add(&mut totals, &own);
    }
    reports.sort_by_key(|segment| segment.address);
    let pools: Vec<Pool> = pools
        .into_iter()
        .map(|((pool_id, is_small, stream), totals)| Pool {
            pool_id,
            kind: kind(is_small),
            stream,
            totals,
        })
        .collect();
    Device {
        device: ordinal,
        totals,
        inconsistent_segments,
        pools,
        pinned,
        free_sizes: free_sizes_of(free_sizes),
        holders: holders_of(&snapshot.names, holders),
        history: history
            .filter(|history| history.entries() > 0)
            .map(|history| history_report::of(snapshot, segments, history, ring, &totals)),
        fit: fit.map(|size| super::fit::answer(snapshot, segments, size)),
        segments_by_address: reports,
    }
}

fn totals_of(segment: &Segment, blocks: &[Block]) -> Totals {
    let mut totals = Totals {
        segments: 1,
        reserved: segment.size,
        ..Totals::default()
    };
    let mut is_used = false;
    for block in blocks {
        let Block {
            address: _,
            size,
            requested,
            state,
            stack: _,
        } = *block;
        match state {
            State::Allocated => {
                is_used = true;
                totals.allocated_blocks += 1;
                totals.allocated = totals.allocated.saturating_add(size);
                totals.requested = totals.requested.saturating_add(requested);
                totals.free_internal = totals.free_internal.saturating_add(size - requested);
            }
            State::PendingFree => {
                is_used = true;
                totals.pending_free = totals.pending_free.saturating_add(size);
                totals.free_external = totals.free_external.saturating_add(size);
            }
            State::Inactive => {
                totals.free_external = totals.free_external.saturating_add(size);
                totals.largest_free = totals.largest_free.max(size);
            }
        }
    }
    totals.releasable = if is_used { 0 } else { segment.size };
    totals
}

fn add(sum: &mut Totals, part: &Totals) {
    let Totals {
        segments,
        reserved,
        allocated_blocks,
        allocated,
        requested,
        pending_free,
        free_external,
        free_internal,
        largest_free,
        releasable,
    } = sum;
    for (sum, part) in [
        (segments, part.segments),
        (reserved, part.reserved),
        (allocated_blocks, part.allocated_blocks),
        (allocated, part.allocated),
        (requested, part.requested),
        (pending_free, part.pending_free),
        (free_external, part.free_external),
        (free_internal, part.free_internal),
        (releasable, part.releasable),
    ] {
        *sum = sum.saturating_add(part);
    }
    *largest_free = part.largest_free.max(*largest_free);
}

const fn kind(is_small: Option<bool>) -> Option<&'static str> {
    match is_small {
        Some(true) => Some("small"),
        Some(false) => Some("large"),
        None => None,
    }
}

fn segment_report(
    names: &Names,
    segment: &Segment,
    blocks: &[Block],
    totals: &Totals,
) -> SegmentReport {
    let pinned = totals.allocated > 0
        && u128::from(totals.allocated) * 100 < u128::from(segment.size) * PINNED_BELOW_PERCENT;
    let mut pinned_by = Vec::new();
    if pinned {
        let mut live: Vec<&Block> = blocks
            .iter()
            .filter(|block| block.state == State::Allocated)
            .collect();
        live.sort_by_key(|block| (Reverse(block.size), block.address));
        live.truncate(PINNED_BY);
        pinned_by.extend(
            live.iter()
                .map(|block| holder(names, block.stack, 1, block.size)),
        );
    }
    SegmentReport {
        address: segment.address,
        size: segment.size,
        pool_id: segment.pool,
        kind: kind(segment.is_small),
        stream: segment.stream,
        expandable: segment.is_expandable,
        allocated: totals.allocated,
        requested: totals.requested,
        pending_free: totals.pending_free,
        free_external: totals.free_external,
        free_internal: totals.free_internal,
        largest_free: totals.largest_free,
        pinned,
        pinned_by,
        blocks: blocks
            .iter()
            .map(|block| BlockReport {
                address: block.address,
                size: block.size,
                requested: block.requested,
                state: block.state.name(),
            })
            .collect(),
    }
}

fn free_sizes_of(counts: BTreeMap<u64, u64>) -> Vec<FreeSize> {
    let mut sizes: Vec<FreeSize> = counts
        .into_iter()
        .map(|(size, count)| FreeSize {
            size,
            count,
            total: size.saturating_mul(count),
        })
        .collect();
    sizes.sort_by_key(|free| Reverse((free.total, free.size)));
    sizes
}

fn holders_of(names: &Names, holders: FxHashMap<StackId, (u64, u64)>) -> Vec<Holder> {
    let mut holders: Vec<_> = holders.into_iter().collect();
    holders.sort_by_key(|(stack, (_, bytes))| (Reverse(*bytes), *stack));
    holders.truncate(HOLDERS);
    holders
        .into_iter()
        .map(|(stack, (blocks, bytes))| holder(names, stack, blocks, bytes))
        .collect()
}

fn holder(names: &Names, stack: StackId, blocks: u64, bytes: u64) -> Holder {
    Holder {
        blocks,
        bytes,
        at: at(names, stack),
        frames: names
            .frames_of(stack)
            .iter()
            .map(|frame| frame_text(names, *frame))
            .collect(),
    }
}

fn frame_text(names: &Names, frame: FrameId) -> String {
    let frame = names.frame_of(frame);
    format!(
        "{}:{}:{}",
        names.text(frame.filename),
        frame.line,
        names.text(frame.name)
    )
}

/// The innermost frame that is not PyTorch's own, by the last part of its path.
pub(crate) fn at(names: &Names, stack: StackId) -> Option<String> {
    let frames = names.frames_of(stack);
    let is_own = |frame: &FrameId| {
        let file = names.text(names.frame_of(*frame).filename);
        let is_code = [".cpp", ".h", ".cc", ".cu", ".c"]
            .iter()
            .any(|suffix| file.ends_with(suffix));
        file.contains("/torch/") || is_code || file == "??" || file.is_empty()
    };
    let frame = frames
        .iter()
        .find(|frame| !is_own(frame))
        .or_else(|| frames.first())?;
    let text = frame_text(names, *frame);
    let path_end = text.find(':').unwrap_or(text.len());
    let name = text[..path_end].rfind('/').map_or(0, |slash| slash + 1);
    Some(text[name..].to_owned())
}
