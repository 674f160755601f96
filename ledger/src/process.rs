//! One process: what it holds, device by device.

use std::collections::BTreeMap;

use agent_common::{ApiId, Probe, ProbeClass, Shape};
use serde::{Deserialize, Serialize};
use trace::{Event, Kind, fact};

use crate::{
    Array, Block, CachingAllocator, Change, Device, Ended, Limits, MemoryPool, Moment, Origin,
    RangeMap, Tally, Vmm, context::Contexts, free::FreesUnderWay, graph::Graphs,
    operation::Operation, shared::SharedBlocks,
};

mod blocks;
mod frees;
mod owners;
mod queries;
mod torch_reports;
mod virtual_memory;

pub use queries::{Holder, HostMemory};

/// A process id and which of the processes that had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessKey {
    /// Process id in the recorder's pid namespace.
    pub pid: u32,
    /// 0 for the first process, or program, with this id, then 1, 2...
    pub incarnation: u32,
}

/// Why a process holds nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// It ended.
    Exit,
    /// It replaced its program.
    Exec,
    /// Its end was not seen: another process has its id now, or it was found to be gone.
    Unseen,
}

impl EndCause {
    /// The name in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Exec => "exec",
            Self::Unseen => "unseen",
        }
    }
}

/// When and why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// When.
    pub at: Moment,
    /// Why.
    pub cause: EndCause,
}

/// What happened in a process besides blocks coming and going.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Frees that succeeded on an address, or handle, that was not known: allocated before
    /// tracing began, or its allocation was lost.
    pub unknown_frees: u64,
    /// Frees of null, which do nothing.
    pub null_frees: u64,
    /// Allocations of no bytes, which yield null.
    pub empty_allocations: u64,
    /// Allocations that failed, and the bytes they asked for.
    pub failed_allocations: Tally,
    /// Frees that failed: their block stays.
    pub failed_frees: u64,
    /// Allocations that succeeded at an address that could not be read.
    pub unread_allocations: Tally,
    /// Memory whose size is not known: blocks of processes that are not traced, arrays of
    /// shrinking levels. It counts as 0 bytes.
    pub unsized_allocations: u64,
    /// Mappings of physical memory that was made before tracing began: in no total.
    pub unknown_mappings: u64,
    /// Frees that became part of a graph: they happen when it runs, unseen.
    pub captured_frees: u64,
    /// Memory that found no place in the ledger: in no total.
    pub untracked: Tally,
    /// Reservations, mappings and handles of physical memory that found none.
    #[serde(default)]
    pub untracked_mappings: u64,
    /// Pools, graphs and contexts that found none.
    pub untracked_objects: u64,
    /// Events that make no sense: a size or device that cannot be.
    pub malformed: u64,
    /// Stretches in which calls may have been missed.
    pub gaps: u64,
}

/// A process and what it holds.
#[derive(Clone, Debug)]
pub struct Process {
    pub(crate) key: ProcessKey,
    pub(crate) info: Option<fact::Process>,
    pub(crate) started: Moment,
    pub(crate) calls_seen: bool,
    pub(crate) end: Option<End>,
    pub(crate) limits: Limits,
    pub(crate) blocks: RangeMap<Block>,
    pub(crate) arrays: BTreeMap<u64, Array>,
    pub(crate) vmm: Vmm,
    pub(crate) pools: BTreeMap<u64, MemoryPool>,
    pub(crate) graphs: Graphs,
    pub(crate) contexts: Contexts,
    pub(crate) devices: BTreeMap<Option<i32>, Device>,
    pub(crate) allocators: BTreeMap<i32, CachingAllocator>,
    /// PyTorch's reports come in windows.
    pub(crate) torch_sampled: bool,
    /// Memory calls do.
    pub(crate) memory_sampled: bool,
    pub(crate) freeing: FreesUnderWay,
    pub(crate) counters: Counters,
    pub(crate) changes: Vec<Change>,
    pub(crate) just_freed: Vec<Freed>,
}

/// Memory that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Who had taken it, and when.
    pub origin: Origin,
    /// Ordinal of the device it was on; `None` where not known.
    pub device: Option<i32>,
}

impl Process {
    pub(crate) fn new(key: ProcessKey, started: Moment, limits: Limits) -> Self {
        Self {
            key,
            info: None,
            started,
            calls_seen: false,
            end: None,
            limits,
            blocks: RangeMap::default(),
            arrays: BTreeMap::new(),
            vmm: Vmm::default(),
            pools: BTreeMap::new(),
            graphs: Graphs::default(),
            contexts: Contexts::default(),
            devices: BTreeMap::new(),
            allocators: BTreeMap::new(),
            torch_sampled: false,
            memory_sampled: false,
            freeing: FreesUnderWay::default(),
            counters: Counters::default(),
            changes: Vec::new(),
            just_freed: Vec::new(),
        }
    }

    /// Its identity in the ledger.
    pub const fn key(&self) -> ProcessKey {
        self.key
    }

    /// What the recorder said about it.
    pub const fn info(&self) -> Option<&fact::Process> {
        self.info.as_ref()
    }

    /// Whether it was traced from before its first CUDA call on.
    pub fn from_start(&self) -> bool {
        self.info.as_ref().is_some_and(|info| info.from_start)
    }

    /// Whether it is known what its calls do to memory: they are probed at return, and all the time.
    /// What PyTorch reports is, in any case.
    pub fn knows_memory(&self) -> bool {
        let has_returns = |info: &fact::Process| info.entry_only.is_none();
        !self.memory_sampled && self.info.as_ref().is_none_or(has_returns)
    }

    /// Whether its memory calls come in windows.
    pub const fn is_memory_sampled(&self) -> bool {
        self.memory_sampled
    }

    /// The first the ledger heard of it.
    pub const fn started(&self) -> Moment {
        self.started
    }

    /// Its end, if it ended.
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// Its live blocks of all kinds, by address.
    pub const fn blocks(&self) -> &RangeMap<Block> {
        &self.blocks
    }

    /// Its live arrays.
    pub fn arrays(&self) -> impl ExactSizeIterator<Item = &Array> {
        self.arrays.values()
    }

    /// Its reservations, physical memory and mappings.
    pub const fn vmm(&self) -> &Vmm {
        &self.vmm
    }

    /// The memory pools that it named, by handle.
    pub fn pools(&self) -> impl ExactSizeIterator<Item = &MemoryPool> {
        self.pools.values()
    }

    /// Blocks that a thread is just freeing: no longer live, not yet freed.
    pub fn freeing(&self) -> impl Iterator<Item = &Block> {
        self.freeing.blocks()
    }

    /// Totals by device ordinal; `None` collects what lies on a device that is not known, and
    /// host memory that no device was chosen for.
    pub const fn devices(&self) -> &BTreeMap<Option<i32>, Device> {
        &self.devices
    }

    /// How memory ended, on all devices.
    pub fn ended(&self) -> Ended {
        let devices = self.devices.values();
        devices.fold(Ended::default(), |mut all, device| {
            all.merge(&device.ended);
            all
        })
    }

    /// PyTorch's caching allocators by device ordinal: those that have reported.
    pub const fn allocators(&self) -> &BTreeMap<i32, CachingAllocator> {
        &self.allocators
    }

    /// What the last event changed, in order. The end of the process is no change.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// What else happened.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// What the last row gave back: its return, with success.
    pub fn just_freed(&self) -> &[Freed] {
        &self.just_freed
    }

    /// Whether no call of it was seen yet.
    pub(crate) const fn is_untouched(&self) -> bool {
        !self.calls_seen
    }

    pub(crate) fn introduce(&mut self, info: fact::Process) {
        self.info = Some(info);
    }

    pub(crate) const fn note_gap(&mut self) {
        self.counters.gaps += 1;
    }

    /// Takes in a row that is no fact.
    pub(crate) fn apply(&mut self, event: &Event, shared: &mut SharedBlocks) {
        self.calls_seen = true;
        self.changes.clear();
        self.just_freed.clear();
        let Some(api) = event.api.and_then(ApiId::api) else {
            return;
        };
        let Some(operation) = Operation::of(api.effect) else {
            return;
        };
        // Of what the others did, nothing is known.
        if self.memory_sampled && api.class() == ProbeClass::Memory {
            return;
        }
        // Probed at its entry alone: whether it did anything, nobody knows.
        if event.kind == Kind::Call && event.result.is_none() && api.probe != Probe::Entry {
            return;
        }
        if let Operation::GiveBack(what) = operation {
            match event.kind {
                Kind::Begin => self.give_back_begun(what, event),
                Kind::Call => self.give_back_returned(what, event),
                Kind::Abandoned => self.give_back_abandoned(event),
                Kind::InFlight | Kind::Fact => {}
            }
        } else if event.kind == Kind::Call {
            self.called(operation, api.shape, event, shared);
        }
    }

    fn called(
        &mut self,
        operation: Operation,
        shape: Shape,
        event: &Event,
        shared: &mut SharedBlocks,
    ) {
        // Failed allocations are counted; PyTorch's reports have no result.
        let takes_any = matches!(
            operation,
            Operation::Allocate(_)
                | Operation::ArrayAllocate
                | Operation::Create
                | Operation::TorchReport
        );
        if event.result != Some(0) && !takes_any {
            return;
        }
        match operation {
            Operation::Allocate(kind) => self.allocated(kind, event),
            Operation::ArrayAllocate => self.array_allocated(event),
            Operation::GiveBack(_) => {}
            Operation::PoolOpen => self.pool_opened(event),
            Operation::PoolDestroy => self.pool_destroyed(event),
            Operation::PoolSet => self.pool_set(event),
            Operation::PoolLookup => self.pool_looked_up(event),
            Operation::PoolTrim => self.pool_trimmed(event),
            Operation::Export => self.exported(event, shared),
            Operation::Open => self.opened(event, shared),
            Operation::Reserve => self.reserved(event),
            Operation::Create => self.created(event),
            Operation::Retain => self.retained(event),
            Operation::Import => self.imported(event),
            Operation::Multicast => self.multicast(event),
            Operation::Map => self.mapped(event),
            Operation::MemoryInfo => self.memory_read(event),
            Operation::ContextSelect => self.contexts.select(event.tid, event.handle),
            Operation::ContextPush => self.contexts.push(event.tid, event.handle),
            Operation::ContextPop => self.contexts.pop(event.tid),
            Operation::ContextRetain => self.context_retained(event),
            Operation::ContextRelease => self.context_released(event),
            Operation::ContextCreate => self.context_created(event),
            Operation::ContextDestroy => self.context_destroyed(event),
            Operation::ContextReset => self.context_reset(event),
            Operation::CaptureEnd => self.capture_ended(event),
            Operation::GraphInstantiate => self.graph_instantiated(event),
            Operation::GraphDestroy => self.graph_destroyed(event),
            Operation::GraphExecDestroy => self.executable_destroyed(event),
            Operation::TorchReport if shape == Shape::TorchOutOfMemory => {
                self.torch_ran_out(event);
            }
            Operation::TorchReport => self.torch_reported(event),
        }
    }

    /// From now on not all memory calls are seen: what is held, and where PyTorch's segments lie, is
    /// not known any more.
    pub(crate) fn sample_memory(&mut self) {
        self.memory_sampled = true;
        self.blocks = RangeMap::default();
        self.arrays.clear();
        self.vmm = Vmm::default();
        self.pools.clear();
        self.freeing = FreesUnderWay::default();
        for device in self.devices.values_mut() {
            *device = Device::new(&self.limits);
        }
        self.changes.clear();
        self.just_freed.clear();
        self.sample_torch();
        for allocator in self.allocators.values_mut() {
            allocator.forget_segments();
        }
    }

    /// Ends the process: what it still held went with it.
    pub(crate) fn finish(&mut self, end: End) {
        self.end = Some(end);
        self.end_everything();
        for allocator in self.allocators.values_mut() {
            allocator.end();
        }
    }

    /// The totals that a device ordinal stands for: itself, or "not known" for an ordinal that
    /// cannot be one.
    pub(crate) fn device_key(&self, ordinal: Option<i32>) -> Option<i32> {
        let known = self.devices.contains_key(&ordinal);
        ordinal.filter(|&ordinal| {
            ordinal >= 0 && (known || self.devices.len() < self.limits.devices_per_process)
        })
    }

    pub(crate) fn device_mut(&mut self, key: Option<i32>) -> &mut Device {
        let limits = &self.limits;
        self.devices
            .entry(key)
            .or_insert_with(|| Device::new(limits))
    }

    /// Whether one more block, array, or thing of [`Vmm`] may be kept.
    pub(crate) fn has_room(&self) -> bool {
        let kept = self.blocks.len() + self.arrays.len() + self.vmm.len();
        kept < self.limits.blocks_per_process
    }

    /// Whether one more pool, graph or context may be kept; counts it if not.
    pub(crate) fn has_room_for_object(&mut self) -> bool {
        let kept = self.pools.len() + self.graphs.len() + self.contexts.len();
        let has_room = kept < self.limits.objects_per_process;
        self.counters.untracked_objects += u64::from(!has_room);
        has_room
    }
}
