//! Reports of PyTorch's caching allocators in a process.

use trace::Event;

use crate::{
    AddressRange, Block, CachingAllocator, Change, Device, MemoryReading, Moment, Pool, Ranged,
    Segment, TorchBlock, process::Process, torch::ReleasedSegment,
};

impl Process {
    pub(super) fn torch_reported(&mut self, event: &Event) {
        // Reports on other device types than CUDA have no ordinal.
        let Some(ordinal) = event.device else { return };
        let (Some(address), Some(change), Some(allocated), Some(reserved)) =
            (event.address, event.size, event.allocated, event.reserved)
        else {
            return self.counters.malformed += 1;
        };
        let at = Moment::of(event);
        let capacity = self.limits.torch_blocks_per_device;
        if self.allocator_mut(ordinal).is_none() {
            return self.counters.malformed += 1;
        }
        match AddressRange::new(address, change.unsigned_abs()) {
            Some(range) if change > 0 => {
                self.find_segment(ordinal, range);
                if let Some(allocator) = self.allocators.get_mut(&ordinal) {
                    allocator.allocate(
                        TorchBlock {
                            range,
                            tid: event.tid,
                            at,
                        },
                        capacity,
                    );
                }
            }
            Some(range) => {
                let known = self.allocators.get(&ordinal);
                if known.is_some_and(|allocator| !allocator.has_handed_out(range)) {
                    self.close_astride(range);
                }
                if let Some(allocator) = self.allocators.get_mut(&ordinal) {
                    allocator.free(range);
                }
            }
            None => self.counters.malformed += 1,
        }
        if let Some(allocator) = self.allocators.get_mut(&ordinal) {
            allocator.totals(allocated, reserved, change, at);
        }
    }

    pub(super) fn torch_ran_out(&mut self, event: &Event) {
        let Some(ordinal) = event.device else { return };
        let asked = event.size.and_then(|size| u64::try_from(size).ok());
        let (Some(asked), Some(allocated), Some(reserved)) =
            (asked, event.allocated, event.reserved)
        else {
            return self.counters.malformed += 1;
        };
        let at = Moment::of(event);
        let reading = self.reading_for(ordinal, event.tid);
        let capacity = self.limits.out_of_memory;
        match self.allocator_mut(ordinal) {
            Some(allocator) => {
                allocator.totals(allocated, reserved, 0, at);
                allocator.ran_out(asked, event.tid, at, reading, capacity);
            }
            None => self.counters.malformed += 1,
        }
    }

    fn allocator_mut(&mut self, ordinal: i32) -> Option<&mut CachingAllocator> {
        let known = self.allocators.contains_key(&ordinal);
        let room = self.allocators.len() < self.limits.devices_per_process;
        let sampled = self.torch_sampled;
        (ordinal >= 0 && (known || room)).then(|| {
            self.allocators.entry(ordinal).or_insert_with(|| {
                let mut allocator = CachingAllocator::default();
                if sampled {
                    allocator.sample();
                }
                allocator
            })
        })
    }

    /// From now on not all reports are seen.
    pub(crate) fn sample_torch(&mut self) {
        self.torch_sampled = true;
        for allocator in self.allocators.values_mut() {
            allocator.sample();
        }
    }

    /// The device's free memory as the program last read it; where the recorder did not know
    /// the device, what this thread read.
    fn reading_for(&self, ordinal: i32, tid: u32) -> Option<MemoryReading> {
        let reading = |key| self.devices.get(&key).and_then(Device::reading);
        reading(Some(ordinal)).or_else(|| reading(None).filter(|reading| reading.tid == tid))
    }

    /// Memory in which a block of the caching allocator lies is a segment of it: a device
    /// allocation, or neighbouring mappings (`expandable_segments`, which grow).
    fn find_segment(&mut self, ordinal: i32, range: AddressRange) {
        let known = self.allocators.get(&ordinal);
        let known = known.map(CachingAllocator::segments);
        if known.is_some_and(|segments| segments.containing(range).is_some()) {
            return;
        }
        self.close_astride(range);
        let pool = Pool::of_size(range.size());
        let segment = if self.blocks.containing(range).is_some() {
            self.segment_of_block(ordinal, range, pool)
        } else if let Some(run) = self.vmm.run_around(range) {
            Some(Segment {
                range: run.range,
                pool,
                is_expandable: true,
                at: run.at,
                tid: run.tid,
            })
        } else {
            // One that the block reaches out of has grown unseen.
            let known = self.allocators.get(&ordinal);
            known.and_then(|allocator| {
                let segment = allocator.segments().overlapping(range).next()?;
                Some(Segment {
                    range: segment.range.hull(range),
                    ..segment.clone()
                })
            })
        };
        let Some(segment) = segment else { return };
        if let Some(allocator) = self.allocator_mut(ordinal) {
            if segment.is_expandable {
                allocator.grow_segment(segment);
            } else {
                allocator.add_segment(segment);
            }
        }
    }

    /// A block of the caching allocator lies within one piece of memory. What is known to lie
    /// under a part of `range` alone has been given back unseen, and something else is there.
    fn close_astride(&mut self, range: AddressRange) {
        let astride = self.blocks.overlapping(range);
        let astride = astride.filter(|block| !block.range().contains(range));
        let astride: Vec<u64> = astride.map(|block| block.range().start()).collect();
        for start in astride {
            if let Some(block) = self.blocks.remove(start) {
                self.end_lost(block);
            }
        }
    }

    /// A device allocation that is found to be a segment, and so to lie on `ordinal`.
    fn segment_of_block(
        &mut self,
        ordinal: i32,
        range: AddressRange,
        pool: Pool,
    ) -> Option<Segment> {
        let block = self.blocks.containing_mut(range)?;
        if block.segment_of.is_some() {
            return None;
        }
        self.changes.push(Change::of_block(block, true));
        block.segment_of = Some(ordinal);
        let learnt = block.device.replace(ordinal);
        self.changes.push(Change::of_block(block, false));
        let (kind, extent) = (block.kind, block.extent());
        let segment = Segment {
            range: block.range,
            pool,
            is_expandable: false,
            at: block.origin.at,
            tid: block.origin.tid,
        };
        if learnt != Some(ordinal) {
            if let Some(device) = self.devices.get_mut(&learnt) {
                device.remove(kind, extent);
            }
            self.device_mut(Some(ordinal)).add(kind, extent, segment.at);
        }
        Some(segment)
    }

    /// Addresses in which segments may lie have no memory any more.
    pub(super) fn segments_unmapped(&mut self, range: AddressRange) {
        for allocator in self.allocators.values_mut() {
            allocator.unmapped(range);
        }
    }

    /// `range` is handed out anew: no segment is there, nor a block of one.
    pub(super) fn segments_lost(&mut self, range: AddressRange) {
        for allocator in self.allocators.values_mut() {
            allocator.lost(range);
        }
    }

    /// `block` is being freed: what it was to the caching allocator goes with it.
    pub(super) fn release_segment_of(&mut self, block: &Block) -> Option<Box<ReleasedSegment>> {
        let ordinal = block.segment_of?;
        self.allocators
            .get_mut(&ordinal)?
            .release_segment(ordinal, block.range().start())
            .map(Box::new)
    }

    pub(super) fn confirm_release(&mut self, released: &ReleasedSegment) {
        if let Some(allocator) = self.allocators.get_mut(&released.device) {
            allocator.confirm_release(released);
        }
    }

    pub(super) fn restore_segment(&mut self, released: ReleasedSegment) {
        if let Some(allocator) = self.allocators.get_mut(&released.device) {
            allocator.restore_segment(released);
        }
    }
}
