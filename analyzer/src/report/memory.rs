//! The memory of each process at the end of the window, and its peak inside.

use std::collections::BTreeMap;

use ledger::{HostMemory, Ledger, Moment, ProcessKey};
use trace::{Event, fact};

use super::{Kept, LeftOut, Memory, TorchMemory};
use crate::fragmentation::{self, Watch};
use crate::growth::{self, Growth, Sleep};
use crate::memory::Kinds;
use crate::oom::{self, OutOfMemory};
use crate::selection::Selection;

/// Most processes that ended whose state right before is kept; the ledger's own limit is the same.
const ENDED: usize = 1024;

/// Most times that memory ran out in processes that ended.
const OUT_OF_MEMORY: usize = 4096;

/// The ledger, and what it forgets at the end of a process.
#[derive(Debug, Default)]
pub(super) struct MemoryBooks {
    ledger: Ledger,
    /// Peaks are those from this time on, ns of `CLOCK_MONOTONIC`.
    from: u64,
    is_in_window: bool,
    /// What PyTorch reported last in processes that ended.
    torch: BTreeMap<(ProcessKey, i32), TorchMemory>,
    /// What `fragmentation` says of processes, and what it needs for it.
    watch: Watch,
    ended: Vec<fragmentation::Process>,
    growth: growth::Collector,
    /// Of processes that ended.
    out_of_memory: Vec<OutOfMemory>,
    /// Of them, those that had memory.
    ended_processes: usize,
    left_out: Counts,
}

/// What was more than is kept.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    out_of_memory: u64,
    ended_out_of_memory: u64,
    blocks: u64,
    objects: u64,
    torch_blocks: u64,
    /// Processes that the ledger no longer has.
    forgotten: u64,
    /// Events of processes that the ledger has no place for.
    ignored: u64,
}

/// What makes a process's totals doubtful.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubts {
    pub(super) unknown_frees: u64,
    pub(super) lost_frees: u64,
    pub(super) unread_allocations: u64,
    pub(super) memory_sampled: bool,
}

/// What is known of memory, by process.
pub(super) struct Outcome {
    pub(super) memory: Vec<Memory>,
    /// What `fragmentation` says of the selected processes, without segments and blocks.
    pub(super) fragmentation: Vec<fragmentation::Process>,
    pub(super) growth: Vec<Growth>,
    pub(super) sleeps: Vec<Sleep>,
    pub(super) out_of_memory: Vec<OutOfMemory>,
    pub(super) left_out: Vec<LeftOut>,
    /// By process id and start time.
    pub(super) doubts: BTreeMap<(u32, Option<u64>), Doubts>,
}

impl MemoryBooks {
    /// No memory. Peaks are those from `from` (ns of `CLOCK_MONOTONIC`) on.
    pub(super) fn new(from: u64, selection: &Selection) -> Self {
        Self {
            from,
            watch: Watch::of(selection.clone()),
            ..Self::default()
        }
    }

    /// Takes in a row that concerns memory, or a fact; `moment` is the last that it tells of.
    pub(super) fn apply(&mut self, event: &Event, moment: u64) {
        if !self.is_in_window && moment >= self.from {
            self.is_in_window = true;
            self.ledger.restart_peaks(Moment::of(event));
            self.growth.restart(&self.ledger, moment);
        }
        if let Some(process) = self.ledger.about_to_end(event) {
            let has_room = self.ended_processes < ENDED;
            let is_empty = process.devices().is_empty() && process.allocators().is_empty();
            self.ended_processes += usize::from(!is_empty);
            self.left_out.process(process);
            if has_room {
                for (&device, allocator) in process.allocators() {
                    let torch = TorchMemory::of(allocator);
                    self.torch.insert((process.key(), device), torch);
                }
            }
            if self.is_in_window {
                self.growth.about_to_end(process, moment);
                let room = OUT_OF_MEMORY.saturating_sub(self.out_of_memory.len());
                let ran_out = oom::recorded_in(process);
                self.left_out.ended_out_of_memory += ran_out.len().saturating_sub(room) as u64;
                self.out_of_memory.extend(ran_out.into_iter().take(room));
            }
            if has_room {
                let (limits, now) = (self.ledger.limits(), event.timestamp);
                let state = self
                    .watch
                    .process(process, limits, None, now, Some("ended"));
                self.ended
                    .extend(state.map(fragmentation::Process::summed_up));
            }
            self.watch.ended(process);
        }
        self.watch.event(event);
        let checkpoints = self.ledger.checkpoints();
        let (forgotten, ignored) = (self.ledger.forgotten(), self.ledger.ignored());
        self.ledger.apply(event);
        if self.ledger.checkpoints() > checkpoints {
            self.growth.resume(&self.ledger, moment);
            return;
        }
        // A checkpoint tells of processes and events that were none of this recording's.
        self.left_out.forgotten += self.ledger.forgotten().saturating_sub(forgotten);
        self.left_out.ignored += self.ledger.ignored().saturating_sub(ignored);
        if self.is_in_window {
            self.growth.note(&self.ledger, event, moment);
        }
    }

    /// The file of a call site.
    pub(super) fn caller(&mut self, caller: fact::Caller) {
        self.watch.caller(&caller);
        self.growth.caller(caller);
    }

    /// What the host memory of a copy is to the device.
    pub(super) fn host_memory(&self, pid: u32, address: Option<u64>, size: u64) -> HostMemory {
        let process = self.ledger.process(pid);
        let known = process
            .zip(address)
            .map(|(process, address)| process.host_memory(address, size));
        known.unwrap_or(HostMemory::Unknown)
    }

    /// The memory of the selected processes.
    pub(super) fn finish(self, selection: &Selection, end: u64) -> Outcome {
        let live = self.ledger.live().filter_map(|process| {
            let limits = self.ledger.limits();
            let state = self.watch.process(process, limits, None, end, None)?;
            Some(state.summed_up())
        });
        let mut fragmentation = self.ended;
        fragmentation.extend(live);
        let mut counts = self.left_out;
        self.ledger
            .live()
            .for_each(|process| counts.process(process));
        let mut left_out = counts.finish(&self.ledger, self.ended_processes);
        let (mut growth, mut sleeps, growth_left_out) = self.growth.finish(&self.ledger, end);
        left_out.extend(growth_left_out);
        growth.retain(|growth| {
            selection.has_process(growth.pid) && selection.has_device(growth.pid, growth.device)
        });
        sleeps.retain(|sleep| selection.has_process(sleep.pid));
        let mut out_of_memory = self.out_of_memory;
        out_of_memory.extend(self.ledger.live().flat_map(oom::recorded_in));
        out_of_memory.retain(|ran_out| {
            ran_out.at_ns.is_some_and(|at| at >= self.from)
                && ran_out.pid.is_some_and(|pid| selection.has_process(pid))
        });
        out_of_memory.sort_by_key(|ran_out| ran_out.at_ns);
        let mut devices: BTreeMap<(u32, Option<u64>, Option<i32>), Memory> = BTreeMap::new();
        let mut doubts: BTreeMap<(u32, Option<u64>), Doubts> = BTreeMap::new();
        let processes = self.ledger.ended().chain(self.ledger.live());
        for process in processes.filter(|process| selection.has_process(process.key().pid)) {
            let pid = process.key().pid;
            let start_time = process.info().map(|info| info.start_time);
            let doubts = doubts.entry((pid, start_time)).or_default();
            let counters = process.counters();
            doubts.unknown_frees += counters.unknown_frees;
            doubts.lost_frees += process.ended().lost_free.count;
            doubts.unread_allocations += counters.unread_allocations.count;
            doubts.memory_sampled |= process.is_memory_sampled();
            let mut ordinals: Vec<Option<i32>> = process.devices().keys().copied().collect();
            ordinals.extend(process.allocators().keys().copied().map(Some));
            ordinals.sort_unstable();
            ordinals.dedup();
            ordinals.retain(|ordinal| selection.has_device(pid, *ordinal));
            for ordinal in ordinals {
                // Programs that one process ran one after the other share a row.
                let memory = devices
                    .entry((pid, start_time, ordinal))
                    .or_insert_with(|| unknown(pid, start_time, ordinal));
                if process.knows_memory() {
                    memory.is_nothing_yet();
                }
                if let Some(device) = process.devices().get(&ordinal)
                    && process.knows_memory()
                {
                    memory.add(device);
                }
                let allocator = ordinal.and_then(|ordinal| process.allocators().get(&ordinal));
                if let (Some(allocator), Some(ordinal)) = (allocator, ordinal) {
                    let last = self.torch.get(&(process.key(), ordinal));
                    memory.torch = match process.end() {
                        Some(_) => last.copied(),
                        None => Some(TorchMemory::of(allocator)),
                    };
                }
            }
        }
        Outcome {
            memory: devices.into_values().collect(),
            fragmentation,
            growth,
            sleeps,
            out_of_memory,
            left_out,
            doubts,
        }
    }
}

impl Counts {
    /// What found no place in the ledger's books of a process.
    fn process(&mut self, process: &ledger::Process) {
        let counters = process.counters();
        let untracked = counters.untracked.count;
        let blocks = untracked.saturating_add(counters.untracked_mappings);
        self.blocks = self.blocks.saturating_add(blocks);
        self.objects = self.objects.saturating_add(counters.untracked_objects);
        for allocator in process.allocators().values() {
            let untracked = allocator.untracked().count;
            self.torch_blocks = self.torch_blocks.saturating_add(untracked);
            let kept = allocator.out_of_memory().len() as u64;
            let untold = allocator.out_of_memory_count().saturating_sub(kept);
            self.out_of_memory = self.out_of_memory.saturating_add(untold);
        }
    }

    fn finish(self, ledger: &Ledger, ended_processes: usize) -> Vec<LeftOut> {
        let Self {
            out_of_memory,
            ended_out_of_memory,
            blocks,
            objects,
            torch_blocks,
            forgotten,
            ignored,
        } = self;
        let limits = ledger.limits();
        let ended = forgotten.max(ended_processes.saturating_sub(ENDED) as u64);
        let all = [
            LeftOut::of(Kept::MemoryProcesses, limits.processes, ignored),
            LeftOut::of(Kept::MemoryBlocks, limits.blocks_per_process, blocks),
            LeftOut::of(Kept::MemoryObjects, limits.objects_per_process, objects),
            LeftOut::of(
                Kept::TorchBlocks,
                limits.torch_blocks_per_device,
                torch_blocks,
            ),
            LeftOut::of(Kept::EndedProcesses, ENDED, ended),
            LeftOut::of(Kept::OutOfMemory, limits.out_of_memory, out_of_memory),
            LeftOut::of(Kept::EndedOutOfMemory, OUT_OF_MEMORY, ended_out_of_memory),
        ];
        all.into_iter().flatten().collect()
    }
}

fn unknown(pid: u32, start_time: Option<u64>, device: Option<i32>) -> Memory {
    Memory {
        pid,
        start_time,
        device,
        live_bytes: None,
        live_blocks: None,
        held_bytes: None,
        waste_bytes: None,
        peak_bytes: None,
        ended_bytes: None,
        by_kind: None,
        unattributed_bytes: None,
        torch: None,
    }
}

impl Memory {
    /// What is not known is 0 from now on.
    fn is_nothing_yet(&mut self) {
        for bytes in [
            &mut self.live_bytes,
            &mut self.live_blocks,
            &mut self.held_bytes,
            &mut self.waste_bytes,
            &mut self.peak_bytes,
            &mut self.ended_bytes,
        ] {
            bytes.get_or_insert(0);
        }
        self.by_kind.get_or_insert_default();
    }

    fn add(&mut self, device: &ledger::Device) {
        self.live_bytes = Some(device.live().bytes);
        self.live_blocks = Some(device.live().count);
        self.held_bytes = Some(device.held_bytes());
        self.waste_bytes = Some(device.waste_bytes());
        self.peak_bytes = self.peak_bytes.max(Some(device.peak().bytes));
        let ended = device.ended().implicit.bytes;
        self.ended_bytes = Some(self.ended_bytes.unwrap_or(0).saturating_add(ended));
        self.by_kind = Some(Kinds::of(|kind| device.of_kind(kind).bytes));
        let reading = device.reading();
        self.unattributed_bytes = reading.and_then(|reading| reading.unattributed());
    }
}
