//! A caching allocator in a checkpoint.

use serde::{Deserialize, Serialize};

use crate::{
    AddressRange, CachingAllocator, Peak, Segment, Tally, TorchBlock,
    torch::{OutOfMemory, allocator::AwaitedRetry},
};

/// What of an allocator is neither a block nor a segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Account {
    reports: u64,
    allocated: u64,
    reserved: u64,
    discontinuities: u64,
    unknown_frees: Tally,
    lost_frees: Tally,
    untracked: Tally,
    peak_allocated: Peak,
    peak_reserved: Peak,
    peak_unused: Peak,
    out_of_memory: Vec<OutOfMemory>,
    out_of_memory_count: u64,
    retry: Option<AwaitedRetry>,
    #[serde(default)]
    sampled: bool,
}

impl CachingAllocator {
    /// What is neither a block nor a segment.
    pub(crate) fn account(&self) -> Account {
        // Exhaustive: a new field must be taken over, or named here as not.
        let Self {
            reports,
            allocated,
            reserved,
            discontinuities,
            unknown_frees,
            lost_frees,
            untracked,
            peak_allocated,
            peak_reserved,
            peak_unused,
            out_of_memory,
            out_of_memory_count,
            retry,
            sampled,
            active: _,
            active_bytes: _,
            segments: _,
            segment_bytes: _,
        } = self;
        Account {
            reports: *reports,
            allocated: *allocated,
            reserved: *reserved,
            discontinuities: *discontinuities,
            unknown_frees: *unknown_frees,
            lost_frees: *lost_frees,
            untracked: *untracked,
            peak_allocated: *peak_allocated,
            peak_reserved: *peak_reserved,
            peak_unused: *peak_unused,
            out_of_memory: out_of_memory.clone(),
            out_of_memory_count: *out_of_memory_count,
            retry: *retry,
            sampled: *sampled,
        }
    }

    /// An allocator with this account, and no blocks or segments yet.
    pub(crate) fn resume(account: Account) -> Self {
        let Account {
            reports,
            allocated,
            reserved,
            discontinuities,
            unknown_frees,
            lost_frees,
            untracked,
            peak_allocated,
            peak_reserved,
            peak_unused,
            out_of_memory,
            out_of_memory_count,
            retry,
            sampled,
        } = account;
        // One that names no moment that is kept would be out of bounds.
        let retry = retry.filter(|retry| retry.index < out_of_memory.len());
        Self {
            reports,
            allocated,
            reserved,
            discontinuities,
            unknown_frees,
            lost_frees,
            untracked,
            peak_allocated,
            peak_reserved,
            peak_unused,
            out_of_memory,
            out_of_memory_count,
            retry,
            sampled,
            ..Self::default()
        }
    }

    /// A segment of a checkpoint.
    pub(crate) fn resume_segment(&mut self, segment: Segment) {
        for stale in self.segments.evict(segment.range) {
            self.segment_bytes = self.segment_bytes.saturating_sub(stale.range.size());
        }
        self.enter_segment(segment);
    }

    /// A block of a checkpoint.
    pub(crate) fn resume_block(&mut self, block: TorchBlock) {
        for stale in self.active.evict(block.range) {
            self.active_bytes = self.active_bytes.saturating_sub(stale.range.size());
        }
        self.enter(block);
    }

    /// A checkpoint is whole. Of what is no run of mappings, `is_segment` says whether it is a
    /// segment; what does not lie as it must is left out.
    pub(crate) fn reconcile(&mut self, is_segment: impl Fn(AddressRange) -> bool) {
        let is_stray = |segment: &Segment| !segment.is_expandable && !is_segment(segment.range);
        for stray in self.segments.take_where(is_stray) {
            self.segment_bytes = self.segment_bytes.saturating_sub(stray.range.size());
        }
        let segments = &self.segments;
        let is_astride = |block: &TorchBlock| {
            let mut under = segments.overlapping(block.range);
            under.any(|segment| !segment.range.contains(block.range))
        };
        for astride in self.active.take_where(is_astride) {
            self.active_bytes = self.active_bytes.saturating_sub(astride.range.size());
        }
    }
}
