//! Calls that give memory back: two rows each, and either may be missing.

use agent_common::flags;
use trace::Event;

use crate::{
    AddressRange, Array, Block, Device, Ended, MemoryKind, Tally, Vmm,
    free::{Freeing, Taken},
    graph::Graphs,
    operation::GiveBack,
    process::{Freed, Process, blocks::size_of},
    vmm::Physical,
};

/// Which of the ends something came to.
pub(super) type Ending = fn(&mut Ended) -> &mut Tally;

/// What such a call names: an address or a handle.
fn subject_of(what: GiveBack, event: &Event) -> Option<u64> {
    match what {
        GiveBack::Block | GiveBack::Mapping | GiveBack::Reservation => event.address,
        GiveBack::Array | GiveBack::Reference => event.handle,
    }
}

impl Process {
    pub(super) fn give_back_begun(&mut self, what: GiveBack, event: &Event) {
        // Of the calls that a thread was in, one that encloses this one is the only one that can
        // go on: the rows that ended the others were lost.
        if event.parent.is_none() {
            self.settle_all_of(event.tid);
        }
        let Some(subject) = subject_of(what, event).filter(|subject| *subject != 0) else {
            return;
        };
        // A call that finds no place here takes effect when it returns.
        let threads = self.limits.threads_per_process;
        if let Some(api) = event.api
            && self.freeing.has_room(event.tid, threads)
        {
            let taken = self.take(what, subject, event);
            let freeing = Freeing {
                api,
                subject,
                taken,
            };
            self.freeing.insert(event.tid, freeing);
        }
    }

    pub(super) fn give_back_returned(&mut self, what: GiveBack, event: &Event) {
        let Some(subject) = subject_of(what, event) else {
            return self.counters.malformed += 1;
        };
        let begun = self.take_begun(event, subject);
        if event.flags & flags::CAPTURED != 0 {
            // It frees when the graph runs.
            self.counters.captured_frees += 1;
            if let Some(taken) = begun {
                self.restore(taken);
            }
            return;
        }
        match event.result {
            Some(0) if subject == 0 => self.counters.null_frees += 1,
            Some(0) => {
                if let Some(taken) = begun.or_else(|| self.take_unseen(what, subject, event)) {
                    self.note_freed(&taken);
                    self.settle(taken, |ended| &mut ended.freed);
                }
            }
            Some(_) => {
                self.counters.failed_frees += 1;
                if let Some(taken) = begun {
                    self.restore(taken);
                }
            }
            None => {
                if let Some(taken) = begun.or_else(|| self.take_unseen(what, subject, event)) {
                    self.settle(taken, |ended| &mut ended.unknown);
                }
            }
        }
    }

    /// The thread died, or jumped out, inside the call.
    pub(super) fn give_back_abandoned(&mut self, event: &Event) {
        self.settle_all_of(event.tid);
    }

    fn settle_all_of(&mut self, tid: u32) {
        for freeing in self.freeing.take_all(tid) {
            self.settle(freeing.taken, |ended| &mut ended.unknown);
        }
    }

    /// What the call took when it began. Those that were begun inside it are over, too, and so
    /// are all that the thread was in when it is in none that encloses this one.
    fn take_begun(&mut self, event: &Event, subject: u64) -> Option<Taken> {
        let (found, inner) = self.freeing.take(event.tid, event.api, subject);
        for freeing in inner {
            self.settle(freeing.taken, |ended| &mut ended.unknown);
        }
        if event.parent.is_none() {
            self.settle_all_of(event.tid);
        }
        found.map(|freeing| freeing.taken)
    }

    /// What a call gave back whose beginning was not seen. `None` where what is at its address
    /// was taken after the call had begun: then it gave back the one before, which that
    /// allocation has closed.
    fn take_unseen(&mut self, what: GiveBack, subject: u64, event: &Event) -> Option<Taken> {
        let vmm = &mut self.vmm;
        let since = match what {
            GiveBack::Block => self.blocks.get(subject).map(|block| block.origin.returned),
            GiveBack::Array => self.arrays.get(&subject).map(|array| array.origin.returned),
            GiveBack::Reference => vmm
                .by_handle_mut(subject)
                .map(|physical| physical.origin.returned),
            GiveBack::Mapping => vmm
                .mappings
                .get(subject)
                .map(|mapping| mapping.at.timestamp),
            GiveBack::Reservation => vmm.reservations.get(subject).map(|held| held.at.timestamp),
        };
        let is_newer = since.is_some_and(|since| since > event.timestamp);
        (!is_newer).then(|| self.take(what, subject, event))
    }

    /// Takes what the call gives back out of the state.
    fn take(&mut self, what: GiveBack, subject: u64, event: &Event) -> Taken {
        match what {
            GiveBack::Block => self.take_block(subject),
            GiveBack::Array => self
                .take_array(subject)
                .map_or(Taken::Unknown, Taken::Array),
            GiveBack::Reference => self.take_reference(subject),
            GiveBack::Mapping => {
                let range = AddressRange::new(subject, size_of(event).unwrap_or(1));
                range.map_or(Taken::Nothing, |range| self.take_mappings(range))
            }
            GiveBack::Reservation => {
                let held = self.vmm.reservations.remove(subject);
                held.map_or(Taken::Nothing, Taken::Reservation)
            }
        }
    }

    /// Takes the block at `address`, if any, out of the live ones.
    fn take_block(&mut self, address: u64) -> Taken {
        if let Some(block) = self.blocks.get_mut(address)
            && block.opened > 1
        {
            block.opened -= 1;
            return Taken::Opening { address };
        }
        match self.blocks.remove(address) {
            Some(block) => self.take_out(block),
            None => Taken::Unknown,
        }
    }

    /// Takes what `block` was out of the totals.
    pub(super) fn take_out(&mut self, block: Block) -> Taken {
        self.leave(&block);
        let segment = self.release_segment_of(&block);
        Taken::Block { block, segment }
    }

    fn note_freed(&mut self, taken: &Taken) {
        let physical = |physical: &Physical| Freed {
            origin: physical.origin,
            device: physical.device,
        };
        match taken {
            Taken::Unknown
            | Taken::Nothing
            | Taken::Reservation(_)
            | Taken::Opening { .. }
            | Taken::Reference { ended: None, .. } => {}
            // What is another process's was not taken here.
            Taken::Block { block, .. } if block.kind == MemoryKind::Ipc => {}
            Taken::Block { block, .. } => self.just_freed.push(Freed {
                origin: block.origin,
                device: block.device,
            }),
            Taken::Array(array) => self.just_freed.push(Freed {
                origin: array.origin,
                device: array.device,
            }),
            Taken::Reference {
                ended: Some(ended), ..
            } => self.just_freed.push(physical(ended)),
            Taken::Mappings { ended, .. } => self.just_freed.extend(ended.iter().map(physical)),
        }
    }

    /// Something is over: counts how it ended.
    pub(super) fn settle(&mut self, taken: Taken, how: Ending) {
        match taken {
            Taken::Unknown => self.counters.unknown_frees += 1,
            Taken::Nothing | Taken::Reservation(_) | Taken::Opening { .. } => {}
            Taken::Block { block, segment } => {
                self.count_ended(block.device, block.extent().bytes(), how);
                if let Some(segment) = segment {
                    self.confirm_release(&segment);
                }
            }
            Taken::Array(array) => {
                self.count_ended(array.device, array.extent().bytes(), how);
            }
            Taken::Reference { id: _, ended } => {
                if let Some(physical) = ended {
                    self.count_physical_ended(&physical, how);
                }
            }
            Taken::Mappings { mappings, ended } => {
                for mapping in mappings {
                    self.segments_unmapped(mapping.range);
                }
                for physical in ended {
                    self.count_physical_ended(&physical, how);
                }
            }
        }
    }

    pub(super) fn count_ended(&mut self, device: Option<i32>, bytes: u64, how: Ending) {
        if let Some(Device { ended, .. }) = self.devices.get_mut(&device) {
            how(ended).add(bytes);
        }
    }

    /// The call failed: what it would have given back is live as before.
    fn restore(&mut self, taken: Taken) {
        match taken {
            Taken::Unknown | Taken::Nothing => {}
            Taken::Block { mut block, segment } => {
                // Its address cannot have been handed out meanwhile, unless events are missing.
                self.close_lost(block.range);
                if let Some(segment) = segment {
                    self.restore_segment(*segment);
                } else {
                    block.segment_of = None;
                }
                if block.kind == MemoryKind::Graph && block.owner.is_none() {
                    let capture = (block.origin.tid, None);
                    self.graphs.captured.insert(block.range.start(), capture);
                }
                self.enter(block);
            }
            Taken::Opening { address } => {
                if let Some(block) = self.blocks.get_mut(address) {
                    block.opened = block.opened.saturating_add(1);
                }
            }
            Taken::Array(array) => {
                if !self.arrays.contains_key(&array.handle) {
                    self.enter_array(array);
                }
            }
            Taken::Reference { id, ended } => self.restore_reference(id, ended),
            Taken::Mappings { mappings, ended } => self.restore_mappings(mappings, ended),
            Taken::Reservation(held) => {
                self.vmm.reservations.evict(held.range);
                self.vmm.reservations.insert(held);
            }
        }
    }

    /// Everything that the process holds has ended with it.
    pub(super) fn end_everything(&mut self) {
        let under_way: Vec<Freeing> = self.freeing.drain().collect();
        for freeing in under_way {
            if freeing.taken != Taken::Unknown {
                self.settle(freeing.taken, |ended| &mut ended.implicit);
            }
        }
        self.end_where(|_| true, |_| true, |_| true);
        self.vmm = Vmm::default();
        self.graphs = Graphs::default();
    }

    /// Ends what the conditions choose, as the end of a context does.
    pub(super) fn end_where(
        &mut self,
        block_ends: impl Fn(&Block) -> bool,
        array_ends: impl Fn(&Array) -> bool,
        physical_ends: impl Fn(&Physical) -> bool,
    ) {
        let implicit: Ending = |ended| &mut ended.implicit;
        for block in self.blocks.take_where(block_ends) {
            let taken = self.take_out(block);
            self.settle(taken, implicit);
        }
        let arrays = self.arrays.values().filter(|array| array_ends(array));
        let arrays: Vec<u64> = arrays.map(|array| array.handle).collect();
        for handle in arrays {
            if let Some(array) = self.take_array(handle) {
                self.settle(Taken::Array(array), implicit);
            }
        }
        let physical = self.vmm.physical.values();
        let physical: Vec<u64> = physical
            .filter(|physical| physical_ends(physical))
            .map(|physical| physical.id)
            .collect();
        for id in physical {
            if let Some(ended) = self.end_physical(id) {
                self.count_physical_ended(&ended, implicit);
            }
        }
        let Vmm {
            mappings, physical, ..
        } = &mut self.vmm;
        let is_gone = |id: u64| !physical.contains_key(&id);
        let gone = mappings.take_where(|mapping| mapping.physical.is_some_and(is_gone));
        for mapping in gone {
            self.segments_unmapped(mapping.range);
        }
    }
}
