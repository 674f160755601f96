//! The memory of each process at the end of the window, and its peak inside.

use std::collections::BTreeMap;

use ledger::{HostMemory, Ledger, Moment, ProcessKey};
use trace::Event;

use super::{Memory, TorchMemory};
use crate::memory::Kinds;
use crate::selection::Selection;

/// Most processes that ended whose last reports of PyTorch's allocator are kept.
const ENDED: usize = 1024;

/// The ledger, and what it forgets at the end of a process.
#[derive(Debug, Default)]
pub(super) struct MemoryBooks {
    ledger: Ledger,
    /// Peaks are those from this time on, ns of `CLOCK_MONOTONIC`.
    from: u64,
    is_in_window: bool,
    /// What PyTorch reported last in processes that ended.
    torch: BTreeMap<(ProcessKey, i32), TorchMemory>,
}

/// What makes a process's totals doubtful.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubts {
    pub(super) unknown_frees: u64,
    pub(super) lost_frees: u64,
    pub(super) unread_allocations: u64,
}

/// What is known of memory, by process.
pub(super) struct Outcome {
    pub(super) memory: Vec<Memory>,
    /// By process id and start time.
    pub(super) doubts: BTreeMap<(u32, Option<u64>), Doubts>,
}

impl MemoryBooks {
    /// No memory. Peaks are those from `from` (ns of `CLOCK_MONOTONIC`) on.
    pub(super) fn new(from: u64) -> Self {
        Self {
            from,
            ..Self::default()
        }
    }

    /// Takes in a row that concerns memory, or a fact; `moment` is the last that it tells of.
    pub(super) fn apply(&mut self, event: &Event, moment: u64) {
        if !self.is_in_window && moment >= self.from {
            self.is_in_window = true;
            self.ledger.restart_peaks(Moment::of(event));
        }
        if let Some(process) = self.ledger.about_to_end(event)
            && self.torch.len() < ENDED
        {
            for (&device, allocator) in process.allocators() {
                let torch = TorchMemory::of(allocator);
                self.torch.insert((process.key(), device), torch);
            }
        }
        self.ledger.apply(event);
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
    pub(super) fn finish(self, selection: &Selection) -> Outcome {
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
            let mut ordinals: Vec<Option<i32>> = process.devices().keys().copied().collect();
            ordinals.extend(process.allocators().keys().copied().map(Some));
            ordinals.sort_unstable();
            ordinals.dedup();
            ordinals.retain(|ordinal| selection.has_device(*ordinal));
            for ordinal in ordinals {
                // Programs that one process ran one after the other share a row.
                let memory = devices
                    .entry((pid, start_time, ordinal))
                    .or_insert_with(|| nothing(pid, start_time, ordinal));
                if let Some(device) = process.devices().get(&ordinal) {
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
            doubts,
        }
    }
}

fn nothing(pid: u32, start_time: Option<u64>, device: Option<i32>) -> Memory {
    Memory {
        pid,
        start_time,
        device,
        live_bytes: 0,
        live_blocks: 0,
        held_bytes: 0,
        waste_bytes: 0,
        peak_bytes: 0,
        ended_bytes: 0,
        by_kind: Kinds::default(),
        unattributed_bytes: None,
        torch: None,
    }
}

impl Memory {
    fn add(&mut self, device: &ledger::Device) {
        self.live_bytes = device.live().bytes;
        self.live_blocks = device.live().count;
        self.held_bytes = device.held_bytes();
        self.waste_bytes = device.waste_bytes();
        self.peak_bytes = self.peak_bytes.max(device.peak().bytes);
        let ended = device.ended().implicit.bytes;
        self.ended_bytes = self.ended_bytes.saturating_add(ended);
        self.by_kind = Kinds::of(|kind| device.of_kind(kind).bytes);
        let reading = device.reading();
        self.unattributed_bytes = reading.and_then(|reading| reading.unattributed());
    }
}
