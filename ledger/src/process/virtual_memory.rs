//! Reservations, physical memory and mappings of a process.

use trace::Event;

use crate::{
    AddressRange, Change, MemoryKind, Moment, Origin,
    device::Extent,
    free::Taken,
    process::{Process, blocks::size_of, frees::Ending},
    vmm::{Mapping, Physical, Place, Reservation},
};

/// `CU_MEM_LOCATION_TYPE_DEVICE` (cuda.h); the others are places of the host.
pub(super) const ON_DEVICE: u8 = 1;

fn range_of(event: &Event) -> Option<AddressRange> {
    AddressRange::new(event.address?, size_of(event)?)
}

impl Process {
    pub(super) fn reserved(&mut self, event: &Event) {
        let Some(range) = range_of(event) else {
            return self.counters.malformed += 1;
        };
        self.close_lost(range);
        if !self.has_room() {
            return self.counters.untracked_mappings += 1;
        }
        self.vmm.reservations.insert(Reservation {
            range,
            at: Moment::of(event),
        });
    }

    pub(super) fn created(&mut self, event: &Event) {
        let size = size_of(event);
        match event.result {
            Some(0) if event.handle.is_some() && size.is_some() => {}
            Some(0) | None => return self.counters.unread_allocations.add(size.unwrap_or(0)),
            Some(_) => return self.counters.failed_allocations.add(size.unwrap_or(0)),
        }
        let (place, device) = match event.location {
            Some(ON_DEVICE) => (Place::Device, event.location_id.or(event.device)),
            Some(_) => (Place::Host, None),
            // Where it is could not be read: nearly always on a device, but which is not known.
            None => (Place::Device, None),
        };
        self.insert_physical(event, place, device, size);
    }

    pub(super) fn multicast(&mut self, event: &Event) {
        // Only what makes one has a new handle and a count; joining, binding and unbinding take
        // no memory.
        let is_new = event
            .handle
            .is_some_and(|handle| !self.vmm.is_known(handle));
        if is_new && event.count.is_some() {
            self.insert_physical(event, Place::Multicast, None, size_of(event));
        }
    }

    pub(super) fn imported(&mut self, event: &Event) {
        let Some(handle) = event.handle else {
            return self.counters.unread_allocations.add(0);
        };
        // Memory of this very process, which came back to it.
        if let Some(own) = self.vmm.by_handle_mut(handle)
            && !own.is_unused()
        {
            own.references = own.references.saturating_add(1);
            return;
        }
        self.insert_physical(event, Place::Imported, event.device, None);
    }

    fn insert_physical(
        &mut self,
        event: &Event,
        place: Place,
        device: Option<i32>,
        size: Option<u64>,
    ) {
        let (Some(handle), Some(origin)) = (event.handle, Origin::of(event)) else {
            return;
        };
        self.close_lost_handle(handle);
        if !self.has_room() {
            return self.counters.untracked.add(size.unwrap_or(0));
        }
        let physical = Physical {
            id: self.vmm.next_id,
            handle,
            size,
            place,
            device: self.device_key(device),
            references: 1,
            mapped: 0,
            origin,
        };
        self.enter_physical(&physical);
        self.vmm.insert(physical);
    }

    /// The handle is handed out: what it referred to has been released unseen.
    fn close_lost_handle(&mut self, handle: u64) {
        let Some(known) = self.vmm.by_handle_mut(handle) else {
            return;
        };
        known.references = 0;
        let (id, is_unused) = (known.id, known.is_unused());
        if is_unused && let Some(ended) = self.end_physical(id) {
            self.count_physical_ended(&ended, |ended| &mut ended.lost_free);
        }
    }

    /// Physical memory counts from now on.
    pub(crate) fn enter_physical(&mut self, physical: &Physical) {
        if let Some(kind) = physical.kind() {
            let at = physical.origin.at;
            self.device_mut(physical.device)
                .add(kind, physical.extent(), at);
        }
        self.changes.extend(Change::of_physical(physical, false));
    }

    /// It does not count any more.
    pub(crate) fn end_physical(&mut self, id: u64) -> Option<Physical> {
        let physical = self.vmm.remove(id)?;
        if let Some(kind) = physical.kind()
            && let Some(device) = self.devices.get_mut(&physical.device)
        {
            device.remove(kind, physical.extent());
        }
        self.changes.extend(Change::of_physical(&physical, true));
        Some(physical)
    }

    pub(super) fn count_physical_ended(&mut self, physical: &Physical, how: Ending) {
        if physical.kind().is_some() {
            self.count_ended(physical.device, physical.extent().bytes(), how);
        }
    }

    pub(super) fn take_reference(&mut self, handle: u64) -> Taken {
        let Some(physical) = self.vmm.by_handle_mut(handle) else {
            return Taken::Unknown;
        };
        let Some(left) = physical.references.checked_sub(1) else {
            return Taken::Unknown;
        };
        physical.references = left;
        let (id, is_unused) = (physical.id, physical.is_unused());
        let ended = if is_unused {
            self.end_physical(id)
        } else {
            None
        };
        Taken::Reference { id, ended }
    }

    pub(super) fn restore_reference(&mut self, id: u64, ended: Option<Physical>) {
        if let Some(ended) = ended {
            self.restore_physical(ended);
        }
        if let Some(physical) = self.vmm.physical.get_mut(&id) {
            physical.references = physical.references.saturating_add(1);
        }
    }

    fn restore_physical(&mut self, physical: Physical) {
        // Its handle cannot have been handed out meanwhile, unless events are missing.
        self.close_lost_handle(physical.handle);
        if !self.vmm.physical.contains_key(&physical.id) {
            self.enter_physical(&physical);
            self.vmm.insert(physical);
        }
    }

    /// A handle to what is mapped at an address; it may be a new number.
    pub(super) fn retained(&mut self, event: &Event) {
        let at = event
            .address
            .and_then(|address| AddressRange::new(address, 1));
        let mapping = at.and_then(|at| self.vmm.mappings.containing(at));
        let physical = mapping.and_then(|mapping| mapping.physical);
        let (Some(handle), Some(id)) = (event.handle, physical) else {
            return;
        };
        if self.vmm.by_handle.get(&handle) != Some(&id) {
            self.close_lost_handle(handle);
            if self.vmm.by_handle.len() >= self.limits.blocks_per_process {
                return self.counters.untracked_mappings += 1;
            }
            self.vmm.by_handle.insert(handle, id);
        }
        if let Some(physical) = self.vmm.physical.get_mut(&id) {
            physical.references = physical.references.saturating_add(1);
        }
    }

    pub(super) fn mapped(&mut self, event: &Event) {
        let Some(range) = range_of(event) else {
            return self.counters.malformed += 1;
        };
        self.unmap_lost(range);
        self.close_lost_blocks(range);
        if !self.has_room() {
            return self.counters.untracked_mappings += 1;
        }
        let physical = event
            .handle
            .and_then(|handle| self.vmm.by_handle.get(&handle).copied());
        match physical {
            Some(id) => {
                let end = event.offset.unwrap_or(0).saturating_add(range.size());
                self.map_known(id, end);
            }
            None => self.counters.unknown_mappings += 1,
        }
        self.vmm.mappings.insert(Mapping {
            range,
            physical,
            at: Moment::of(event),
            tid: event.tid,
        });
    }

    /// Physical memory is mapped up to its byte `end`.
    fn map_known(&mut self, id: u64, end: u64) {
        let Some(physical) = self.vmm.physical.get_mut(&id) else {
            return;
        };
        physical.mapped = physical.mapped.saturating_add(1);
        // Of another process's memory, this is the first that tells its size.
        if physical.place == Place::Imported && physical.size.is_none() {
            physical.size = Some(end);
            let (device, at) = (physical.device, physical.origin.at);
            let device = self.device_mut(device);
            device.remove(MemoryKind::Ipc, Extent::Unknown);
            device.add(MemoryKind::Ipc, Extent::Pages(end), at);
        }
    }

    /// Takes the mappings in `range`, and the memory that nothing else refers to.
    pub(super) fn take_mappings(&mut self, range: AddressRange) -> Taken {
        let mappings = self.vmm.mappings.evict(range);
        let mut ended = Vec::new();
        for mapping in &mappings {
            ended.extend(self.one_mapping_less(mapping));
        }
        Taken::Mappings { mappings, ended }
    }

    fn one_mapping_less(&mut self, mapping: &Mapping) -> Option<Physical> {
        let physical = self.vmm.physical.get_mut(&mapping.physical?)?;
        physical.mapped = physical.mapped.saturating_sub(1);
        let (id, is_unused) = (physical.id, physical.is_unused());
        if is_unused {
            self.end_physical(id)
        } else {
            None
        }
    }

    pub(super) fn restore_mappings(&mut self, mappings: Vec<Mapping>, ended: Vec<Physical>) {
        for physical in ended {
            self.restore_physical(physical);
        }
        for mapping in mappings {
            // Its place cannot have been handed out meanwhile, unless events are missing.
            self.close_lost_blocks(mapping.range);
            self.remap(mapping);
        }
    }

    /// A mapping that was known before is there again.
    pub(crate) fn remap(&mut self, mapping: Mapping) {
        self.unmap_lost(mapping.range);
        if let Some(id) = mapping.physical
            && let Some(physical) = self.vmm.physical.get_mut(&id)
        {
            physical.mapped = physical.mapped.saturating_add(1);
        }
        self.vmm.mappings.insert(mapping);
    }

    /// `range` is used anew: what was mapped there has been unmapped unseen.
    pub(super) fn unmap_lost(&mut self, range: AddressRange) {
        for mapping in self.vmm.mappings.evict(range) {
            let ended = self.one_mapping_less(&mapping);
            self.segments_unmapped(mapping.range);
            if let Some(ended) = ended {
                self.count_physical_ended(&ended, |ended| &mut ended.lost_free);
            }
        }
    }
}
