//! What memory belongs to: pools, graphs and contexts.

use trace::Event;

use crate::{
    Block, MemoryKind, MemoryPool,
    process::{Process, virtual_memory::ON_DEVICE},
    vmm::Place,
};

/// `cudaMemPoolAttrReleaseThreshold` (`driver_types.h`).
const RELEASE_THRESHOLD: u64 = 4;

impl Process {
    /// A pool is made; with no location, another process's is opened.
    pub(super) fn pool_opened(&mut self, event: &Event) {
        let (place, device) = match event.location {
            Some(ON_DEVICE) => (Place::Device, event.location_id),
            Some(_) => (Place::Host, None),
            None => (Place::Imported, event.device),
        };
        let Some(handle) = event.handle else { return };
        self.pools.remove(&handle);
        self.pool_mut(handle, place, device);
    }

    pub(super) fn pool_destroyed(&mut self, event: &Event) {
        if let Some(handle) = event.handle {
            self.pools.remove(&handle);
        }
    }

    pub(super) fn pool_set(&mut self, event: &Event) {
        let Some(handle) = event.handle else { return };
        if event.option != Some(RELEASE_THRESHOLD) {
            return;
        }
        let threshold = event.size.map(i64::cast_unsigned);
        if let Some(pool) = self.pool_mut(handle, Place::Device, None) {
            pool.release_threshold = threshold;
        }
    }

    /// The program learns, or says, which device a pool is of.
    pub(super) fn pool_looked_up(&mut self, event: &Event) {
        let (Some(handle), Some(device)) = (event.handle, event.device) else {
            return;
        };
        if let Some(pool) = self.pool_mut(handle, Place::Device, Some(device))
            && pool.place == Place::Device
        {
            pool.device = Some(device);
        }
    }

    pub(super) fn pool_trimmed(&mut self, event: &Event) {
        if let Some(handle) = event.handle
            && let Some(pool) = self.pool_mut(handle, Place::Device, None)
        {
            pool.trims = pool.trims.saturating_add(1);
        }
    }

    fn pool_mut(
        &mut self,
        handle: u64,
        place: Place,
        device: Option<i32>,
    ) -> Option<&mut MemoryPool> {
        if !self.pools.contains_key(&handle) {
            if !self.has_room_for_object() {
                return None;
            }
            let mut pool = MemoryPool::new(handle, place, device);
            let is_of =
                |block: &&Block| block.kind == MemoryKind::Pool && block.owner == Some(handle);
            for block in self.blocks.iter().filter(is_of) {
                pool.live.add(block.range.size());
            }
            self.pools.insert(handle, pool);
        }
        self.pools.get_mut(&handle)
    }

    pub(super) fn graph_instantiated(&mut self, event: &Event) {
        if let (Some(executable), Some(graph)) = (event.handle, event.related)
            && self.graphs.owners.contains_key(&graph)
            && self.has_room_for_object()
        {
            self.graphs.instantiated(executable, graph);
        }
    }

    pub(super) fn graph_destroyed(&mut self, event: &Event) {
        let ended = event.handle.and_then(|graph| self.graphs.destroyed(graph));
        self.end_graph_memory(ended);
    }

    pub(super) fn executable_destroyed(&mut self, event: &Event) {
        let ended = event
            .handle
            .and_then(|executable| self.graphs.executable_destroyed(executable));
        self.end_graph_memory(ended);
    }

    fn end_graph_memory(&mut self, graph: Option<u64>) {
        if graph.is_none() {
            return;
        }
        let is_of = |block: &Block| block.kind == MemoryKind::Graph && block.owner == graph;
        for block in self.blocks.take_where(is_of) {
            let taken = self.take_out(block);
            self.settle(taken, |ended| &mut ended.freed);
        }
    }

    pub(super) fn context_created(&mut self, event: &Event) {
        if let Some(context) = event.handle
            && self.has_room_for_object()
        {
            self.contexts.created(event.tid, context);
        }
    }

    /// A context that the program had made ends, and what lies in it.
    pub(super) fn context_destroyed(&mut self, event: &Event) {
        let Some(context) = event.handle else { return };
        if self.contexts.destroyed(context) {
            let (context, entered) = (Some(context), event.timestamp);
            self.end_where(
                |block| block.context == context && block.origin.returned <= entered,
                |array| array.context == context && array.origin.returned <= entered,
                |_| false,
            );
        }
    }

    pub(super) fn context_retained(&mut self, event: &Event) {
        if let Some(device) = event.device {
            self.contexts.retain_primary(device);
        }
    }

    /// The last reference ends the context; how many there are is known only of a process that
    /// was traced from its start.
    pub(super) fn context_released(&mut self, event: &Event) {
        let Some(device) = event.device else { return };
        if self.contexts.release_primary(device) && self.from_start() {
            self.end_device(device, event.timestamp);
        }
    }

    pub(super) fn context_reset(&mut self, event: &Event) {
        if let Some(device) = event.device {
            self.contexts.reset_primary(device);
            self.end_device(device, event.timestamp);
        }
    }

    /// A device's primary context ended, and all that was taken there before `entered`.
    fn end_device(&mut self, device: i32, entered: u64) {
        let device = Some(device);
        self.end_where(
            |block| {
                block.device == device
                    && block.context.is_none()
                    && block.origin.returned <= entered
            },
            |array| {
                array.device == device
                    && array.context.is_none()
                    && array.origin.returned <= entered
            },
            |physical| {
                physical.place == Place::Device
                    && physical.device == device
                    && physical.origin.returned <= entered
            },
        );
    }
}
