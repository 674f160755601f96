//! One process: what it holds, device by device.

use std::collections::BTreeMap;

use agent_common::{ApiId, Effect, Shape};
use trace::{Event, Kind, fact};

use crate::{
    Block, CachingAllocator, Device, Limits, Moment, RangeMap, Tally, free::FreesUnderWay,
};

mod device_memory;
mod torch_reports;

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
    /// Its end was not seen, and another process has its id now.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frees that succeeded on an address where no block was known: allocated before tracing
    /// began, or its allocation was lost.
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
    /// Blocks that found no place in the ledger: in no total.
    pub untracked: Tally,
    /// Events that make no sense: a size or device that cannot be.
    pub malformed: u64,
    /// Stretches in which calls may have been missed.
    pub gaps: u64,
}

/// A process and what it holds.
#[derive(Debug)]
pub struct Process {
    key: ProcessKey,
    info: Option<fact::Process>,
    started: Moment,
    calls_seen: bool,
    end: Option<End>,
    limits: Limits,
    blocks: RangeMap<Block>,
    devices: BTreeMap<Option<i32>, Device>,
    allocators: BTreeMap<i32, CachingAllocator>,
    freeing: FreesUnderWay,
    counters: Counters,
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
            devices: BTreeMap::new(),
            allocators: BTreeMap::new(),
            freeing: FreesUnderWay::default(),
            counters: Counters::default(),
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

    /// The first the ledger heard of it.
    pub const fn started(&self) -> Moment {
        self.started
    }

    /// Its end, if it ended.
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// Its live device blocks, by address.
    pub const fn blocks(&self) -> &RangeMap<Block> {
        &self.blocks
    }

    /// Blocks that a thread is just freeing: no longer live, not yet freed.
    pub fn freeing(&self) -> impl Iterator<Item = &Block> {
        self.freeing.blocks()
    }

    /// Totals by device ordinal; `None` collects what lies on a device that is not known.
    pub const fn devices(&self) -> &BTreeMap<Option<i32>, Device> {
        &self.devices
    }

    /// PyTorch's caching allocators by device ordinal: those that have reported.
    pub const fn allocators(&self) -> &BTreeMap<i32, CachingAllocator> {
        &self.allocators
    }

    /// What else happened.
    pub const fn counters(&self) -> Counters {
        self.counters
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
    pub(crate) fn apply(&mut self, event: &Event) {
        self.calls_seen = true;
        let Some(api) = event.api.and_then(ApiId::api) else {
            return;
        };
        let returned = event.kind == Kind::Call;
        match api.effect {
            Effect::DeviceAlloc if returned => self.allocated(event),
            Effect::DeviceFree => match event.kind {
                Kind::Begin => self.free_begun(event),
                Kind::Call => self.free_returned(event),
                Kind::Abandoned => self.free_abandoned(event),
                Kind::InFlight | Kind::Fact => {}
            },
            Effect::MemoryInfo if returned => self.memory_read(event),
            Effect::TorchReport if returned && api.shape == Shape::TorchOutOfMemory => {
                self.torch_ran_out(event);
            }
            Effect::TorchReport if returned => self.torch_reported(event),
            Effect::DeviceAlloc
            | Effect::MemoryInfo
            | Effect::TorchReport
            | Effect::Launch
            | Effect::GraphLaunch
            | Effect::Copy
            | Effect::Wait
            | Effect::KernelLookup
            | Effect::SelectDevice => {}
        }
    }

    /// Ends the process: what it still held went with it.
    pub(crate) fn finish(&mut self, end: End) {
        self.end = Some(end);
        let under_way = self.freeing.drain().filter_map(|freeing| freeing.block);
        for block in under_way {
            if let Some(device) = self.devices.get_mut(&block.device) {
                device.ended.implicit.add(block.range.size());
            }
        }
        for block in self.blocks.drain() {
            if let Some(device) = self.devices.get_mut(&block.device) {
                device.remove(block.range);
                device.ended.implicit.add(block.range.size());
            }
        }
        for allocator in self.allocators.values_mut() {
            allocator.end();
        }
    }

    /// The totals that a device ordinal stands for: itself, or "not known" for an ordinal that
    /// cannot be one.
    fn device_key(&self, ordinal: Option<i32>) -> Option<i32> {
        let known = self.devices.contains_key(&ordinal);
        ordinal.filter(|&ordinal| {
            ordinal >= 0 && (known || self.devices.len() < self.limits.devices_per_process)
        })
    }

    fn device_mut(&mut self, key: Option<i32>) -> &mut Device {
        let page = self.limits.page_bytes;
        self.devices.entry(key).or_insert_with(|| Device::new(page))
    }
}
