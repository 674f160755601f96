//! Device allocations and frees of a process.

use trace::Event;

use crate::{
    AddressRange, Block, Device, Ended, MemoryReading, Moment, Tally, free::Freeing,
    process::Process,
};

/// The bytes an event states; `None` for none, and for a negative number.
fn size_of(event: &Event) -> Option<u64> {
    event.size.and_then(|size| u64::try_from(size).ok())
}

impl Process {
    pub(super) fn allocated(&mut self, event: &Event) {
        let size = size_of(event);
        match event.result {
            Some(0) => {}
            Some(_) => return self.counters.failed_allocations.add(size.unwrap_or(0)),
            None => return self.counters.unread_allocations.add(size.unwrap_or(0)),
        }
        match (event.address, size) {
            (_, Some(0)) | (Some(0), _) => self.counters.empty_allocations += 1,
            (None, size) => self.counters.unread_allocations.add(size.unwrap_or(0)),
            (Some(address), size) => match size.and_then(|size| AddressRange::new(address, size)) {
                Some(range) => self.insert(event, range),
                None => self.counters.malformed += 1,
            },
        }
    }

    fn insert(&mut self, event: &Event, range: AddressRange) {
        self.close_lost(range);
        let Some(api) = event.api else { return };
        if self.blocks.len() >= self.limits.blocks_per_process {
            return self.counters.untracked.add(range.size());
        }
        let device = self.device_key(event.device);
        let at = Moment::of(event);
        self.device_mut(device).add(range, at);
        self.blocks.insert(Block {
            range,
            device,
            segment_of: None,
            api,
            caller: event.caller,
            tid: event.tid,
            at,
            returned: event.timestamp.saturating_add(event.duration.unwrap_or(0)),
        });
    }

    pub(super) fn free_begun(&mut self, event: &Event) {
        // A thread is in one free at a time: the row that ended the one before was lost.
        if let Some(earlier) = self.freeing.take(event.tid) {
            self.settle(earlier, |ended| &mut ended.unknown);
        }
        let Some(address) = event.address.filter(|&address| address != 0) else {
            return;
        };
        // A free that finds no place here takes effect when it returns.
        if self.freeing.len() < self.limits.threads_per_process {
            let freeing = self.take_block(address);
            self.freeing.insert(event.tid, freeing);
        }
    }

    pub(super) fn free_returned(&mut self, event: &Event) {
        let Some(address) = event.address else {
            return self.counters.malformed += 1;
        };
        let begun = self.take_free_of(event.tid, address);
        match event.result {
            Some(0) if address == 0 => self.counters.null_frees += 1,
            Some(0) => {
                if let Some(freeing) = begun.or_else(|| self.take_block_freed_unseen(event)) {
                    self.settle(freeing, |ended| &mut ended.freed);
                }
            }
            Some(_) => {
                self.counters.failed_frees += 1;
                if let Some(freeing) = begun {
                    self.restore(freeing);
                }
            }
            None => {
                if let Some(freeing) = begun.or_else(|| self.take_block_freed_unseen(event)) {
                    self.settle(freeing, |ended| &mut ended.unknown);
                }
            }
        }
    }

    /// The thread died, or jumped out, inside the free.
    pub(super) fn free_abandoned(&mut self, event: &Event) {
        if let Some(freeing) = self.freeing.take(event.tid) {
            self.settle(freeing, |ended| &mut ended.unknown);
        }
    }

    /// The free of `address` that the thread is in. Another one that it was in is over, too.
    fn take_free_of(&mut self, tid: u32, address: u64) -> Option<Freeing> {
        let freeing = self.freeing.take(tid)?;
        if freeing.address == address {
            return Some(freeing);
        }
        self.settle(freeing, |ended| &mut ended.unknown);
        None
    }

    /// What a free freed whose beginning was not seen. `None` where the block at its address
    /// was allocated after the free had begun: then it freed the one before, which that
    /// allocation has closed.
    fn take_block_freed_unseen(&mut self, event: &Event) -> Option<Freeing> {
        let address = event.address?;
        let newer = self
            .blocks
            .get(address)
            .is_some_and(|block| block.returned > event.timestamp);
        (!newer).then(|| self.take_block(address))
    }

    /// Takes the block at `address`, if any, out of the live ones.
    fn take_block(&mut self, address: u64) -> Freeing {
        match self.blocks.remove(address) {
            Some(block) => self.take_out(block),
            None => Freeing {
                address,
                block: None,
                segment: None,
            },
        }
    }

    /// `range` is handed out: blocks that were known there have been freed unseen.
    fn close_lost(&mut self, range: AddressRange) {
        for block in self.blocks.evict(range) {
            let freeing = self.take_out(block);
            self.settle(freeing, |ended| &mut ended.lost_free);
        }
    }

    /// Takes what `block` was out of the totals.
    fn take_out(&mut self, block: Block) -> Freeing {
        if let Some(device) = self.devices.get_mut(&block.device) {
            device.remove(block.range);
        }
        let segment = self.release_segment_of(&block);
        Freeing {
            address: block.range.start(),
            block: Some(block),
            segment,
        }
    }

    /// A free is over: counts how its block ended.
    fn settle(&mut self, freeing: Freeing, how: impl FnOnce(&mut Ended) -> &mut Tally) {
        let Freeing {
            address: _,
            block,
            segment,
        } = freeing;
        match block {
            Some(block) => {
                if let Some(Device { ended, .. }) = self.devices.get_mut(&block.device) {
                    how(ended).add(block.range.size());
                }
            }
            None => self.counters.unknown_frees += 1,
        }
        if let Some(segment) = segment {
            self.confirm_release(&segment);
        }
    }

    /// A free failed: its block is live as before.
    fn restore(&mut self, freeing: Freeing) {
        let Freeing {
            address: _,
            block: Some(mut block),
            segment,
        } = freeing
        else {
            return;
        };
        // Its address cannot have been handed out meanwhile, unless events are missing.
        self.close_lost(block.range);
        self.device_mut(block.device).add(block.range, block.at);
        if let Some(segment) = segment {
            self.restore_segment(segment);
        } else {
            block.segment_of = None;
        }
        self.blocks.insert(block);
    }

    pub(super) fn memory_read(&mut self, event: &Event) {
        let (Some(free), Some(total)) = (event.device_free, event.device_total) else {
            return;
        };
        let key = self.device_key(event.device);
        let (at, tid) = (Moment::of(event), event.tid);
        let device = self.device_mut(key);
        let held = device.held_bytes();
        device.reading = Some(MemoryReading {
            free,
            total,
            at,
            tid,
            held,
        });
    }
}
