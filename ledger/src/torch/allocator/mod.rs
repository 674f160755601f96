//! The caching allocator of one process on one device.

mod account;

use serde::{Deserialize, Serialize};

use crate::{
    AddressRange, MemoryReading, Moment, Peak, Pool, RangeMap, Tally,
    torch::{OutOfMemory, Retry, Segment, TorchBlock, rules},
};

pub(crate) use account::Account;

/// How far the known segments and blocks explain the totals that PyTorch reports. Traced from
/// its start and without losses, an allocator has all four at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completeness {
    /// Allocated bytes that no known block accounts for.
    pub hidden_allocated: u64,
    /// Bytes of known blocks beyond what is allocated: their frees were not seen.
    pub stale_allocated: u64,
    /// Reserved bytes that no known segment accounts for.
    pub hidden_reserved: u64,
    /// Bytes of known segments beyond what is reserved.
    pub stale_reserved: u64,
}

impl Completeness {
    /// Whether the map is all there is.
    pub fn is_complete(&self) -> bool {
        *self == Self::default()
    }
}

/// A segment on its way back to the device, with what was still in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReleasedSegment {
    pub(crate) device: i32,
    segment: Segment,
    blocks: Vec<TorchBlock>,
}

/// A thread that ran out of memory and has not allocated since.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct AwaitedRetry {
    index: usize,
    tid: u32,
    freed: u64,
    new_segment: bool,
}

/// PyTorch's caching allocator of one process on one device.
#[derive(Clone, Debug, Default)]
pub struct CachingAllocator {
    reports: u64,
    allocated: u64,
    reserved: u64,
    active: RangeMap<TorchBlock>,
    active_bytes: u64,
    segments: RangeMap<Segment>,
    segment_bytes: u64,
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
    sampled: bool,
}

impl CachingAllocator {
    /// Bytes handed to the program, as PyTorch last reported:
    /// `torch.cuda.memory_allocated()`.
    pub const fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Bytes held from the device: `torch.cuda.memory_reserved()`. As PyTorch last reported,
    /// less the segments it has freed since, which it only tells with its next report.
    pub const fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Bytes held and not handed out.
    pub const fn unused(&self) -> u64 {
        self.reserved.saturating_sub(self.allocated)
    }

    /// Reports seen.
    pub const fn reports(&self) -> u64 {
        self.reports
    }

    /// How often `allocated` did not follow from the report before: reports between the two
    /// were lost.
    pub const fn discontinuities(&self) -> u64 {
        self.discontinuities
    }

    /// Frees of blocks whose allocation was not seen.
    pub const fn unknown_frees(&self) -> Tally {
        self.unknown_frees
    }

    /// Blocks whose free was not seen: their memory was handed out, or given back, again.
    pub const fn lost_frees(&self) -> Tally {
        self.lost_frees
    }

    /// Blocks that are not in the map because it was full.
    pub const fn untracked(&self) -> Tally {
        self.untracked
    }

    /// The most that was allocated.
    pub const fn peak_allocated(&self) -> Peak {
        self.peak_allocated
    }

    /// The most that was reserved.
    pub const fn peak_reserved(&self) -> Peak {
        self.peak_reserved
    }

    /// The most that was reserved and not allocated.
    pub const fn peak_unused(&self) -> Peak {
        self.peak_unused
    }

    /// When memory ran out: the first times of it ([`crate::Limits::out_of_memory`]).
    pub fn out_of_memory(&self) -> &[OutOfMemory] {
        &self.out_of_memory
    }

    /// How often memory ran out.
    pub const fn out_of_memory_count(&self) -> u64 {
        self.out_of_memory_count
    }

    /// The known blocks, by address.
    pub const fn active(&self) -> &RangeMap<TorchBlock> {
        &self.active
    }

    /// The known segments, by address.
    pub const fn segments(&self) -> &RangeMap<Segment> {
        &self.segments
    }

    /// How far the map explains the totals.
    pub const fn completeness(&self) -> Completeness {
        Completeness {
            hidden_allocated: self.allocated.saturating_sub(self.active_bytes),
            stale_allocated: self.active_bytes.saturating_sub(self.allocated),
            hidden_reserved: self.reserved.saturating_sub(self.segment_bytes),
            stale_reserved: self.segment_bytes.saturating_sub(self.reserved),
        }
    }

    /// The blocks in `segment`, by address.
    pub fn blocks_in(&self, segment: &Segment) -> impl Iterator<Item = &TorchBlock> {
        self.active.starting_in(segment.range)
    }

    /// The stretches of `segment` that no known block occupies, by address. The allocator
    /// merges free neighbours, so each is one free block of its own, unless a freed block in it
    /// still waits for another stream.
    pub fn free_in(&self, segment: &Segment) -> Vec<AddressRange> {
        let mut free = Vec::new();
        let mut cursor = segment.range.start();
        for block in self.blocks_in(segment) {
            let gap = block.range.start().saturating_sub(cursor);
            free.extend(AddressRange::new(cursor, gap));
            cursor = block.range.end().min(segment.range.end());
        }
        free.extend(AddressRange::new(cursor, segment.range.end() - cursor));
        free
    }

    /// Every free stretch of a pool's known segments.
    pub fn free_in_pool(&self, pool: Pool) -> impl Iterator<Item = AddressRange> {
        self.segments
            .iter()
            .filter(move |segment| segment.pool == pool)
            .flat_map(|segment| self.free_in(segment))
    }

    /// The largest free stretch of all known segments, bytes.
    pub fn largest_free(&self) -> u64 {
        Pool::ALL
            .into_iter()
            .flat_map(|pool| self.free_in_pool(pool))
            .map(AddressRange::size)
            .max()
            .unwrap_or(0)
    }

    /// Whether its reports come in windows: totals are known, blocks are not.
    pub const fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// From now on not all reports are seen.
    pub(crate) fn sample(&mut self) {
        self.sampled = true;
        self.active = RangeMap::default();
        self.active_bytes = 0;
        self.retry = None;
    }

    /// A block was handed out. Whatever was known to be there has been freed unseen.
    pub(crate) fn allocate(&mut self, block: TorchBlock, capacity: usize) {
        if self.sampled {
            return;
        }
        self.forget_in(block.range);
        self.note_retry(&block);
        if self.active.len() >= capacity {
            self.untracked.add(block.range.size());
        } else {
            self.enter(block);
        }
    }

    /// Adds a block at a place that is free.
    fn enter(&mut self, block: TorchBlock) {
        self.active_bytes = self.active_bytes.saturating_add(block.range.size());
        self.active.insert(block);
    }

    /// Whether `range` is known to be a block.
    pub(crate) fn has_handed_out(&self, range: AddressRange) -> bool {
        let block = self.active.get(range.start());
        block.is_some_and(|block| block.range == range)
    }

    /// A block was taken back.
    pub(crate) fn free(&mut self, range: AddressRange) {
        if self.sampled {
            return;
        }
        let size = range.size();
        if let Some(retry) = &mut self.retry {
            retry.freed = retry.freed.saturating_add(size);
        }
        match self.active.remove(range.start()) {
            Some(block) if block.range == range => self.active_bytes -= size,
            Some(stale) => {
                self.forget(&stale);
                self.unknown_frees.add(size);
            }
            None => self.unknown_frees.add(size),
        }
    }

    /// Blocks in `range`, or in a part of it, have been freed unseen.
    fn forget_in(&mut self, range: AddressRange) {
        for stale in self.active.evict(range) {
            self.forget(&stale);
        }
    }

    fn forget(&mut self, stale: &TorchBlock) {
        self.active_bytes -= stale.range.size();
        self.lost_frees.add(stale.range.size());
    }

    /// Takes over the totals of a report that changed `allocated` by `change` bytes.
    pub(crate) fn totals(&mut self, allocated: u64, reserved: u64, change: i64, at: Moment) {
        let expected = i128::from(self.allocated) + i128::from(change);
        if self.reports > 0 && !self.sampled && i128::from(allocated) != expected {
            self.discontinuities += 1;
        }
        self.reports += 1;
        self.allocated = allocated;
        self.reserved = reserved;
        self.peak_allocated.note(allocated, at);
        self.peak_reserved.note(reserved, at);
        self.peak_unused.note(self.unused(), at);
    }

    /// Memory that a block was found to lie in is a segment from now on.
    pub(crate) fn add_segment(&mut self, segment: Segment) {
        if let Some(retry) = &mut self.retry {
            retry.new_segment = true;
        }
        self.enter_segment(segment);
    }

    /// Adds a segment at a place that is free.
    fn enter_segment(&mut self, segment: Segment) {
        self.segment_bytes = self.segment_bytes.saturating_add(segment.range.size());
        self.segments.insert(segment);
    }

    /// Neighbouring mappings that a block was found to lie in: a segment, or one that has grown.
    /// Where mappings were missed, what was known to be a segment and what lies there is one still.
    pub(crate) fn grow_segment(&mut self, run: Segment) {
        let mut grown = run;
        loop {
            let range = grown.range;
            for known in self.segments.evict(range) {
                self.segment_bytes = self.segment_bytes.saturating_sub(known.range.size());
                grown.pool = known.pool;
                grown.range = grown.range.hull(known.range);
            }
            for block in self.active.overlapping(range) {
                grown.range = grown.range.hull(block.range);
            }
            if grown.range == range {
                break;
            }
        }
        self.add_segment(grown);
    }

    /// Where they lie is not known any more.
    pub(crate) fn forget_segments(&mut self) {
        self.segments = RangeMap::default();
        self.segment_bytes = 0;
    }

    /// `range` has been handed out to others: segments that were there have been given back unseen,
    /// and blocks freed.
    pub(crate) fn lost(&mut self, range: AddressRange) {
        for segment in self.segments.evict(range) {
            let size = segment.range.size();
            self.segment_bytes = self.segment_bytes.saturating_sub(size);
            self.reserved = self.reserved.saturating_sub(size);
            self.forget_in(segment.range);
        }
        self.forget_in(range);
    }

    /// `range` has no memory any more. Of a segment with blocks there the allocator does not
    /// know: the program put it to sleep (vLLM), and it stays what PyTorch thinks it is.
    pub(crate) fn unmapped(&mut self, range: AddressRange) {
        let touched: Vec<AddressRange> = self
            .segments
            .overlapping(range)
            .filter(|segment| segment.is_expandable)
            .map(|segment| segment.range)
            .collect();
        for whole in touched {
            let start = range.start().max(whole.start());
            let end = range.end().min(whole.end());
            let Some(gone) = AddressRange::new(start, end.saturating_sub(start)) else {
                continue;
            };
            if self.active.last_in(gone).is_some() {
                continue;
            }
            let Some(segment) = self.segments.remove(whole.start()) else {
                continue;
            };
            let left = AddressRange::new(whole.start(), start - whole.start());
            let right = AddressRange::new(end, whole.end() - end);
            for piece in [left, right].into_iter().flatten() {
                self.segments.insert(Segment {
                    range: piece,
                    ..segment.clone()
                });
            }
            self.segment_bytes = self.segment_bytes.saturating_sub(gone.size());
            self.reserved = self.reserved.saturating_sub(gone.size());
        }
    }

    /// The segment at `address` is being given back to the device.
    pub(crate) fn release_segment(&mut self, device: i32, address: u64) -> Option<ReleasedSegment> {
        let segment = self.segments.remove(address)?;
        let size = segment.range.size();
        self.segment_bytes -= size;
        self.reserved = self.reserved.saturating_sub(size);
        let blocks = self.active.evict(segment.range);
        for block in &blocks {
            self.active_bytes -= block.range.size();
        }
        Some(ReleasedSegment {
            device,
            segment,
            blocks,
        })
    }

    /// The device did take the segment back: blocks left in it had been freed unseen.
    pub(crate) fn confirm_release(&mut self, released: &ReleasedSegment) {
        for block in &released.blocks {
            self.lost_frees.add(block.range.size());
        }
    }

    /// The device did not take the segment back.
    pub(crate) fn restore_segment(&mut self, released: ReleasedSegment) {
        let ReleasedSegment {
            device: _,
            segment,
            blocks,
        } = released;
        self.lost(segment.range);
        self.reserved = self.reserved.saturating_add(segment.range.size());
        self.enter_segment(segment);
        for block in blocks {
            // None is there, unless a checkpoint was made up.
            self.forget_in(block.range);
            self.enter(block);
        }
    }

    /// Memory ran out.
    pub(crate) fn ran_out(
        &mut self,
        asked: u64,
        tid: u32,
        at: Moment,
        reading: Option<MemoryReading>,
        capacity: usize,
    ) {
        self.out_of_memory_count += 1;
        self.retry = None;
        if self.out_of_memory.len() >= capacity {
            return;
        }
        let (mut free_in_pool, mut largest_free) = (0, 0);
        for free in self.free_in_pool(Pool::of_size(asked)) {
            free_in_pool += free.size();
            largest_free = largest_free.max(free.size());
        }
        self.retry = Some(AwaitedRetry {
            index: self.out_of_memory.len(),
            tid,
            freed: 0,
            new_segment: false,
        });
        self.out_of_memory.push(OutOfMemory {
            at,
            tid,
            asked,
            allocated: self.allocated,
            reserved: self.reserved,
            free_in_pool,
            largest_free,
            map: self.completeness(),
            reading,
            retry: None,
        });
    }

    /// The first allocation of a thread after it ran out of memory tells whether the same
    /// request works now. The block may be larger than the request by what is not split off.
    fn note_retry(&mut self, block: &TorchBlock) {
        let Some(awaited) = self.retry.take_if(|awaited| awaited.tid == block.tid) else {
            return;
        };
        let AwaitedRetry {
            index,
            tid: _,
            freed,
            new_segment,
        } = awaited;
        let oom = &mut self.out_of_memory[index];
        let remainder = block.range.size().checked_sub(oom.asked);
        if remainder.is_some_and(|remainder| remainder <= rules::SMALL_LIMIT) {
            oom.retry = Some(Retry {
                at: block.at,
                freed,
                new_segment,
            });
        }
    }

    /// The process ended: its device memory is gone, what was learnt stays.
    pub(crate) fn end(&mut self) {
        self.allocated = 0;
        self.reserved = 0;
        self.active = RangeMap::default();
        self.active_bytes = 0;
        self.segments = RangeMap::default();
        self.segment_bytes = 0;
        self.retry = None;
    }
}
