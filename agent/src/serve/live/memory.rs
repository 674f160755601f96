//! Memory: the ledger, and what happened to blocks.

use agent_common::{Api, Effect};
use analyzer::memory::Collector;
use ledger::{MemoryKind, Process, Ranged as _, kind_taken};
use rustc_hash::FxHashMap;
use trace::{Event, Kind};

use super::histogram::{Histogram, LIFETIME, SIZE};
use crate::serve::metrics::Distribution;

/// Most threads of which it is kept what they could not allocate.
const THREADS: usize = 1024;

/// Memory of all processes.
#[derive(Debug)]
pub(super) struct MemoryBooks {
    pub(super) collector: Collector,
    /// By [`MemoryKind`].
    sizes: [Histogram<{ SIZE.len() }>; MemoryKind::ALL.len()],
    lifetimes: [Histogram<{ LIFETIME.len() }>; MemoryKind::ALL.len()],
    /// The size of a thread's last allocation, where that failed.
    failed: FxHashMap<(u32, u32), u64>,
    /// Memory calls came in windows, in this session or an earlier one: of allocations, too few were seen.
    is_sampled: bool,
}

/// What became of an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Allocation {
    /// It failed.
    pub(super) failed: bool,
    /// The thread's last one had failed, of the same size, and this one succeeded.
    pub(super) is_retry: bool,
}

impl MemoryBooks {
    pub(super) fn new() -> Self {
        Self {
            collector: Collector::live(),
            sizes: [const { Histogram::new(&SIZE) }; MemoryKind::ALL.len()],
            lifetimes: [const { Histogram::new(&LIFETIME) }; MemoryKind::ALL.len()],
            failed: FxHashMap::default(),
            is_sampled: false,
        }
    }

    /// Tracing begins anew: what was known may be wrong by now. What was missed stays missed.
    pub(super) fn begin(&mut self) {
        self.collector = Collector::live();
        self.failed.clear();
    }

    /// Memory calls come in windows from now on.
    pub(super) fn sample(&mut self) {
        self.failed.clear();
        self.is_sampled = true;
    }

    pub(super) fn process(&self, pid: u32) -> Option<&Process> {
        self.collector.ledger().process(pid)
    }

    /// Takes in an event that concerns memory.
    pub(super) fn apply(&mut self, api: &Api, event: &Event) -> Allocation {
        if self.is_sampled {
            self.collector.push(event);
            return Allocation::default();
        }
        let succeeded = event.kind == Kind::Call && event.result == Some(0);
        if succeeded && gives_back(api.effect) {
            self.freed(event);
        }
        self.collector.push(event);
        match kind_taken(api.effect) {
            Some(kind) if event.kind == Kind::Call => self.allocated(kind, event),
            Some(_) | None => Allocation::default(),
        }
    }

    /// A block is about to be taken out of the ledger for good.
    fn freed(&mut self, event: &Event) {
        let (Some(process), Some(address)) = (self.process(event.pid), event.address) else {
            return;
        };
        let block = process
            .freeing()
            .find(|block| block.range().start() == address)
            .or_else(|| process.blocks().get(address));
        if let Some(block) = block {
            let age = event.timestamp.saturating_sub(block.origin.returned);
            self.lifetimes[block.kind() as usize].add(age);
        }
    }

    fn allocated(&mut self, kind: MemoryKind, event: &Event) -> Allocation {
        let Some(size) = event.size.and_then(|size| u64::try_from(size).ok()) else {
            return Allocation::default();
        };
        let thread = (event.pid, event.tid);
        match event.result {
            Some(0) => {}
            Some(_) => {
                if self.failed.len() < THREADS {
                    self.failed.insert(thread, size);
                }
                return Allocation {
                    failed: true,
                    is_retry: false,
                };
            }
            None => return Allocation::default(),
        }
        let is_retry = !self.failed.is_empty() && self.failed.remove(&thread) == Some(size);
        // What an allocation in stream order is, the ledger knows by its pool and stream.
        let block = event
            .address
            .and_then(|address| self.process(event.pid)?.blocks().get(address));
        let kind = block.map_or(kind, ledger::Block::kind);
        self.sizes[kind as usize].add(size);
        Allocation {
            failed: false,
            is_retry,
        }
    }

    /// A process has ended.
    pub(super) fn end(&mut self, pid: u32) {
        self.failed.retain(|(of, _), _| *of != pid);
    }

    /// Sizes of allocations, bytes, by kind: those that were seen before memory calls came in windows
    /// are not told any more.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (MemoryKind, Distribution)> {
        let sizes = self.sizes.iter().map(|sizes| sizes.distribution(1.0));
        let sizes = MemoryKind::ALL.into_iter().zip(sizes);
        sizes.filter(|_| !self.is_sampled)
    }

    /// Lifetimes of blocks, seconds, by kind; likewise.
    pub(super) fn lifetimes(&self) -> impl Iterator<Item = (MemoryKind, Distribution)> {
        let lifetimes = self.lifetimes.iter();
        let lifetimes = lifetimes.map(|lifetimes| lifetimes.distribution(1e9));
        let lifetimes = MemoryKind::ALL.into_iter().zip(lifetimes);
        lifetimes.filter(|_| !self.is_sampled)
    }
}

/// Whether a call of this effect gives back a block at an address.
const fn gives_back(effect: Effect) -> bool {
    matches!(
        effect,
        Effect::DeviceFree
            | Effect::HostFree
            | Effect::HostUnregister
            | Effect::PoolFree
            | Effect::IpcClose
    )
}
