//! Blocks and arrays that a process takes.

use agent_common::flags;
use trace::Event;

use crate::{
    AddressRange, Array, Block, Change, MemoryKind, MemoryPool, MemoryReading, Moment, Origin,
    Ranged, free::Taken, graph::Graph, process::Process, shared::SharedBlocks, vmm::Place,
};

/// The bytes an event states; `None` for none, and for a negative number.
pub(super) fn size_of(event: &Event) -> Option<u64> {
    event.size.and_then(|size| u64::try_from(size).ok())
}

impl Process {
    pub(super) fn allocated(&mut self, kind: MemoryKind, event: &Event) {
        let size = size_of(event);
        match event.result {
            Some(0) => {}
            Some(_) => return self.counters.failed_allocations.add(size.unwrap_or(0)),
            None => return self.counters.unread_allocations.add(size.unwrap_or(0)),
        }
        match (event.address, size) {
            (_, Some(0)) | (Some(0), _) => self.counters.empty_allocations += 1,
            (None, size) => self.counters.unread_allocations.add(size.unwrap_or(0)),
            (Some(_), None) if event.size.is_none() => self.counters.unread_allocations.add(0),
            (Some(address), size) => match size.and_then(|size| AddressRange::new(address, size)) {
                Some(range) => self.insert(kind, event, range),
                None => self.counters.malformed += 1,
            },
        }
    }

    fn insert(&mut self, kind: MemoryKind, event: &Event, range: AddressRange) {
        let Some(origin) = Origin::of(event) else {
            return;
        };
        self.close_lost(range);
        if !self.has_room() {
            return self.counters.untracked.add(range.size());
        }
        let (kind, device) = self.kind_and_device(kind, event);
        let is_captured = event.flags & flags::CAPTURED != 0;
        let owner = event.related.filter(|_| match kind {
            MemoryKind::Graph => !is_captured,
            MemoryKind::Pool => true,
            MemoryKind::Device
            | MemoryKind::Managed
            | MemoryKind::PinnedHost
            | MemoryKind::RegisteredHost
            | MemoryKind::Vmm
            | MemoryKind::Ipc => false,
        });
        if kind == MemoryKind::Graph && self.has_room_for_object() {
            if let Some(graph) = owner {
                self.graphs.owners.entry(graph).or_default();
            } else {
                let capture = (event.tid, event.stream);
                self.graphs.captured.insert(range.start(), capture);
            }
        }
        self.enter(Block {
            range,
            sized: true,
            kind,
            device: self.device_key(device),
            segment_of: None,
            owner,
            context: self.contexts.current(event.tid),
            opened: 1,
            origin,
        });
    }

    /// What an allocation in stream order is depends on its pool, and on its stream.
    fn kind_and_device(&self, kind: MemoryKind, event: &Event) -> (MemoryKind, Option<i32>) {
        if kind != MemoryKind::Pool {
            return (kind, event.device);
        }
        if event.flags & flags::CAPTURED != 0 {
            return (MemoryKind::Graph, event.device);
        }
        let pool = event.related.and_then(|pool| self.pools.get(&pool));
        match pool.map(|pool| (pool.place, pool.device)) {
            Some((Place::Device, device)) => (kind, device.or(event.device)),
            Some((Place::Host, _)) => (MemoryKind::PinnedHost, None),
            Some((Place::Imported | Place::Multicast, _)) => (MemoryKind::Ipc, event.device),
            None => (kind, event.device),
        }
    }

    /// A capture is complete: what it allocated is its graph's.
    pub(super) fn capture_ended(&mut self, event: &Event) {
        let allocated = self.graphs.take_captured(event.tid, event.stream);
        let Some(graph) = event.handle.filter(|_| !allocated.is_empty()) else {
            return;
        };
        self.graphs.owners.insert(graph, Graph::default());
        for address in allocated {
            if let Some(block) = self.blocks.get_mut(address)
                && block.kind == MemoryKind::Graph
            {
                block.owner = Some(graph);
            }
        }
    }

    pub(super) fn array_allocated(&mut self, event: &Event) {
        let size = size_of(event);
        match event.result {
            Some(0) => {}
            Some(_) => return self.counters.failed_allocations.add(size.unwrap_or(0)),
            None => return self.counters.unread_allocations.add(size.unwrap_or(0)),
        }
        let (Some(handle), Some(origin)) = (event.handle, Origin::of(event)) else {
            return self.counters.unread_allocations.add(size.unwrap_or(0));
        };
        if let Some(lost) = self.take_array(handle) {
            self.settle(Taken::Array(lost), |ended| &mut ended.lost_free);
        }
        if !self.has_room() {
            return self.counters.untracked.add(size.unwrap_or(0));
        }
        self.counters.unsized_allocations += u64::from(size.is_none());
        self.enter_array(Array {
            handle,
            size,
            device: self.device_key(event.device),
            context: self.contexts.current(event.tid),
            origin,
        });
    }

    /// A block is shown to other processes: they may ask for its size.
    pub(super) fn exported(&self, event: &Event, shared: &mut SharedBlocks) {
        let first = event
            .address
            .and_then(|address| AddressRange::new(address, 1));
        if let (Some(fingerprint), Some(first)) = (event.handle, first)
            && let Some(size) = self.blocks.containing(first).and_then(Block::size)
        {
            shared.show(fingerprint, size, self.limits.shared_blocks);
        }
    }

    /// Another process's block has addresses here from now on.
    pub(super) fn opened(&mut self, event: &Event, shared: &SharedBlocks) {
        let (Some(address), Some(origin)) = (event.address, Origin::of(event)) else {
            return self.counters.unread_allocations.add(0);
        };
        // A block that is open already is opened once more: the same addresses.
        if let Some(open) = self.blocks.get_mut(address)
            && open.kind == MemoryKind::Ipc
            && event.handle.is_some()
        {
            open.opened = open.opened.saturating_add(1);
            return;
        }
        let size = event.handle.and_then(|handle| shared.size(handle));
        let Some(range) = AddressRange::new(address, size.unwrap_or(1)) else {
            return self.counters.malformed += 1;
        };
        self.close_lost(range);
        if !self.has_room() {
            return self.counters.untracked.add(size.unwrap_or(0));
        }
        self.counters.unsized_allocations += u64::from(size.is_none());
        self.enter(Block {
            range,
            sized: size.is_some(),
            kind: MemoryKind::Ipc,
            device: self.device_key(event.device),
            segment_of: None,
            owner: None,
            context: self.contexts.current(event.tid),
            opened: 1,
            origin,
        });
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

    /// `block` is live from now on. Its place is free.
    pub(crate) fn enter(&mut self, block: Block) {
        self.device_mut(block.device)
            .add(block.kind, block.extent(), block.origin.at);
        if let Some(pool) = self.pool_of(&block) {
            pool.live.add(block.range().size());
        }
        self.changes.push(Change::of_block(&block, false));
        self.blocks.insert(block);
    }

    /// `block`, which was taken out of the live ones, is in no total any more.
    pub(super) fn leave(&mut self, block: &Block) {
        if let Some(device) = self.devices.get_mut(&block.device) {
            device.remove(block.kind, block.extent());
        }
        if let Some(pool) = self.pool_of(block) {
            pool.live.remove(block.range().size());
        }
        self.changes.push(Change::of_block(block, true));
        if block.kind == MemoryKind::Graph {
            self.graphs.captured.remove(&block.range().start());
        }
    }

    fn pool_of(&mut self, block: &Block) -> Option<&mut MemoryPool> {
        let pool = block.owner.filter(|_| block.kind == MemoryKind::Pool)?;
        self.pools.get_mut(&pool)
    }

    pub(crate) fn enter_array(&mut self, array: Array) {
        self.device_mut(array.device)
            .add(MemoryKind::Device, array.extent(), array.origin.at);
        self.changes.push(Change::of_array(&array, false));
        self.arrays.insert(array.handle, array);
    }

    pub(super) fn take_array(&mut self, handle: u64) -> Option<Array> {
        let array = self.arrays.remove(&handle)?;
        if let Some(device) = self.devices.get_mut(&array.device) {
            device.remove(MemoryKind::Device, array.extent());
        }
        self.changes.push(Change::of_array(&array, true));
        Some(array)
    }

    /// `range` is handed out: what was known there has been given back unseen.
    pub(super) fn close_lost(&mut self, range: AddressRange) {
        self.close_lost_blocks(range);
        if !self.vmm.mappings.is_empty() {
            self.unmap_lost(range);
        }
        if !self.vmm.reservations.is_empty() {
            self.vmm.reservations.evict(range);
        }
        self.segments_lost(range);
    }

    pub(super) fn close_lost_blocks(&mut self, range: AddressRange) {
        for block in self.blocks.evict(range) {
            self.end_lost(block);
        }
    }

    /// `block`, which was taken out of the live ones, had been given back unseen.
    pub(super) fn end_lost(&mut self, block: Block) {
        let taken = self.take_out(block);
        self.settle(taken, |ended| &mut ended.lost_free);
    }
}
