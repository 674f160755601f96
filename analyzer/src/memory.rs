//! Device memory of each process: what is live, and what was live at the peak.
//!
//! A process's blocks are its own, whichever thread allocates or frees them, and end with
//! it. They are followed in the order of events, not of timestamps: an allocation counts
//! from its return on, if it succeeded; a free counts from its entry on, and is taken back
//! if it fails.

use std::collections::{BTreeMap, HashMap};

use agent_common::Effect;
use trace::{Event, Kind, fact};

/// The memory of all processes.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Peaks are those from this time on, ns of `CLOCK_MONOTONIC`.
    from: u64,
    processes: BTreeMap<u32, ProcessMemory>,
    /// Processes whose id another one has taken over.
    replaced: Vec<ProcessMemory>,
}

/// The memory of one process.
#[derive(Debug, Default)]
pub(crate) struct ProcessMemory {
    /// Process id in the recorder's pid namespace.
    pub(crate) pid: u32,
    /// Clock ticks after boot when it started; `None` where the recording does not tell.
    pub(crate) start_time: Option<u64>,
    /// By device ordinal; `None` is memory on an unknown device.
    pub(crate) devices: BTreeMap<Option<i32>, DeviceMemory>,
    /// Successful frees of blocks whose allocation is not in the recording.
    pub(crate) unknown_frees: u64,
    /// Blocks whose free is not in the recording: their address was allocated again.
    pub(crate) lost_frees: u64,
    /// Successful allocations whose address or size could not be read. Not in any total.
    pub(crate) unread_allocations: u64,
    blocks: HashMap<u64, Block>,
    /// By thread and address, the frees that have begun; `None` for an unknown block.
    freeing: HashMap<(u32, u64), Option<Block>>,
}

/// A process's memory on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceMemory {
    /// Bytes allocated and not freed.
    pub(crate) live_bytes: u64,
    /// Blocks allocated and not freed.
    pub(crate) live_blocks: u64,
    /// Most bytes that were live at once.
    pub(crate) peak_bytes: u64,
    /// Bytes that were live when the process ended, or replaced its program.
    pub(crate) ended_bytes: u64,
    /// What PyTorch's caching allocator reported last; `None` if it never did.
    pub(crate) torch: Option<TorchMemory>,
}

/// Totals of PyTorch's caching allocator on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TorchMemory {
    /// Bytes in use by tensors.
    pub allocated: Option<u64>,
    /// Bytes taken from the device.
    pub reserved: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    size: u64,
    device: Option<i32>,
    /// When its allocation returned.
    since: u64,
}

impl Memory {
    /// No memory. Peaks are those from `from` (ns of `CLOCK_MONOTONIC`) on.
    pub(crate) fn new(from: u64) -> Self {
        Self {
            from,
            ..Self::default()
        }
    }

    /// All processes that had anything to do with memory, by process id.
    pub(crate) fn into_processes(self) -> Vec<ProcessMemory> {
        let mut processes = self.replaced;
        processes.extend(self.processes.into_values());
        processes.sort_by_key(|process| process.pid);
        processes
    }

    /// Takes in a row about an allocation, a free or a report of PyTorch's allocator.
    pub(crate) fn apply(&mut self, event: &Event) {
        let Some(api) = event.api.and_then(agent_common::ApiId::api) else {
            return;
        };
        let from = self.from;
        let process = self.process(event.pid);
        match api.effect {
            Effect::DeviceAlloc => process.allocate(event, from),
            Effect::DeviceFree => process.free(event, from),
            Effect::TorchReport => process.torch_report(event),
            Effect::MemoryInfo
            | Effect::Launch
            | Effect::GraphLaunch
            | Effect::Copy
            | Effect::Wait
            | Effect::KernelLookup
            | Effect::SelectDevice => {}
        }
    }

    /// A process is traced from here on.
    pub(crate) fn process_seen(&mut self, seen: &fact::Process) {
        let known = self.process(seen.pid);
        match known.start_time {
            Some(start_time) if start_time != seen.start_time => {
                known.end();
                let ended = std::mem::replace(known, ProcessMemory::new(seen.pid));
                known.start_time = Some(seen.start_time);
                self.replaced.push(ended);
            }
            Some(_) | None => known.start_time = Some(seen.start_time),
        }
    }

    /// A process ended, or replaced its program: its blocks are gone.
    pub(crate) fn process_ended(&mut self, pid: u32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.end();
        }
    }

    fn process(&mut self, pid: u32) -> &mut ProcessMemory {
        self.processes
            .entry(pid)
            .or_insert_with(|| ProcessMemory::new(pid))
    }
}

impl ProcessMemory {
    fn new(pid: u32) -> Self {
        Self {
            pid,
            ..Self::default()
        }
    }

    fn allocate(&mut self, event: &Event, from: u64) {
        if event.kind != Kind::Call || event.result != Some(0) {
            return;
        }
        let Some(address) = event.address else {
            self.unread_allocations += 1;
            return;
        };
        if address == 0 {
            return; // What an allocation of 0 bytes returns.
        }
        if event.size.is_none() {
            self.unread_allocations += 1;
        }
        let block = Block {
            size: event.size.unwrap_or(0).cast_unsigned(),
            device: event.device,
            since: returned_at(event),
        };
        if self.take(address, block.since, from).is_some() {
            self.lost_frees += 1;
        }
        self.put(address, block, block.since, from);
    }

    fn free(&mut self, event: &Event, from: u64) {
        let succeeded = event.kind == Kind::Call && event.result == Some(0);
        let Some(address) = event.address else {
            self.unknown_frees += u64::from(succeeded);
            return;
        };
        if address == 0 {
            return; // `cudaFree(NULL)` frees nothing; programs use it to create the context.
        }
        let call = (event.tid, address);
        match event.kind {
            Kind::Begin => {
                let block = self.take(address, event.timestamp, from);
                self.freeing.insert(call, block);
            }
            Kind::Call => match self.freeing.remove(&call) {
                Some(Some(block)) if event.result.is_some_and(|result| result != 0) => {
                    self.put(address, block, returned_at(event), from);
                }
                Some(None) if succeeded => self.unknown_frees += 1,
                None if succeeded => self.free_without_begin(address, event, from),
                Some(_) | None => {}
            },
            // Whether the driver got to freeing it cannot be known. It is not in use any more.
            Kind::Abandoned | Kind::InFlight => {
                self.freeing.remove(&call);
            }
            Kind::Fact => {}
        }
    }

    /// The row of the free's entry was lost. A block that was allocated after that moment is
    /// another one, at the same address.
    fn free_without_begin(&mut self, address: u64, event: &Event, from: u64) {
        match self.blocks.get(&address) {
            Some(block) if block.since > event.timestamp => {}
            Some(_) => {
                self.take(address, returned_at(event), from);
            }
            None => self.unknown_frees += 1,
        }
    }

    fn torch_report(&mut self, event: &Event) {
        if event.kind == Kind::Call && event.device.is_some() {
            let Event {
                allocated,
                reserved,
                ..
            } = *event;
            self.devices.entry(event.device).or_default().torch = Some(TorchMemory {
                allocated,
                reserved,
            });
        }
    }

    fn put(&mut self, address: u64, block: Block, now: u64, from: u64) {
        if self.blocks.contains_key(&address) {
            return; // A failed free, of an address that was allocated again: damage.
        }
        self.blocks.insert(address, block);
        let device = self.devices.entry(block.device).or_default();
        device.live_bytes = device.live_bytes.saturating_add(block.size);
        device.live_blocks += 1;
        device.see_peak(now, from);
    }

    fn take(&mut self, address: u64, now: u64, from: u64) -> Option<Block> {
        let block = self.blocks.remove(&address)?;
        let device = self.devices.entry(block.device).or_default();
        device.live_bytes = device.live_bytes.saturating_sub(block.size);
        device.live_blocks = device.live_blocks.saturating_sub(1);
        device.see_peak(now, from);
        Some(block)
    }

    fn end(&mut self) {
        self.blocks.clear();
        self.freeing.clear();
        for device in self.devices.values_mut() {
            device.ended_bytes = device.ended_bytes.saturating_add(device.live_bytes);
            device.live_bytes = 0;
            device.live_blocks = 0;
        }
    }
}

impl DeviceMemory {
    fn see_peak(&mut self, now: u64, from: u64) {
        self.peak_bytes = if now < from {
            self.live_bytes
        } else {
            self.peak_bytes.max(self.live_bytes)
        };
    }
}

/// When the call returned, as far as that is known.
fn returned_at(event: &Event) -> u64 {
    event.timestamp.saturating_add(event.duration.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use agent_common::ApiId;

    use super::*;

    const PID: u32 = 10;
    const BLOCK: u64 = 0x7f00_0000_0000;

    /// A row of `api` at `timestamp` that took 10 ns, by thread 1.
    fn row(api: &str, kind: Kind, timestamp: u64) -> Event {
        Event {
            timestamp,
            duration: (kind == Kind::Call).then_some(10),
            pid: PID,
            tid: 1,
            kind,
            api: ApiId::by_name(api),
            result: (kind == Kind::Call).then_some(0),
            address: Some(BLOCK),
            ..Event::default()
        }
    }

    fn alloc(timestamp: u64, size: i64) -> Event {
        Event {
            size: Some(size),
            device: Some(0),
            ..row("cudaMalloc", Kind::Call, timestamp)
        }
    }

    fn begin(timestamp: u64) -> Event {
        row("cudaFree", Kind::Begin, timestamp)
    }

    fn freed(timestamp: u64) -> Event {
        row("cudaFree", Kind::Call, timestamp)
    }

    fn run(events: &[Event]) -> ProcessMemory {
        let mut memory = Memory::new(0);
        for event in events {
            memory.apply(event);
        }
        memory.into_processes().remove(0)
    }

    fn device(process: &ProcessMemory) -> &DeviceMemory {
        &process.devices[&Some(0)]
    }

    #[test]
    fn a_free_counts_from_its_entry_on() {
        let process = run(&[alloc(0, 512), begin(20)]);
        assert_eq!(
            (device(&process).live_bytes, device(&process).peak_bytes),
            (0, 512)
        );
        let process = run(&[alloc(0, 512), begin(20), freed(20)]);
        assert_eq!(device(&process).live_blocks, 0);
        assert_eq!(process.unknown_frees, 0);
    }

    #[test]
    fn a_failed_free_changes_nothing() {
        let failed = Event {
            result: Some(1),
            ..freed(20)
        };
        let process = run(&[alloc(0, 512), begin(20), failed]);
        assert_eq!(
            (device(&process).live_bytes, device(&process).live_blocks),
            (512, 1)
        );
    }

    #[test]
    fn a_failed_allocation_changes_nothing() {
        let process = run(&[Event {
            result: Some(2),
            address: None,
            ..alloc(0, 512)
        }]);
        assert!(process.devices.is_empty());
        assert_eq!(process.unread_allocations, 0);
    }

    #[test]
    fn another_thread_may_get_the_address_before_the_free_returns() {
        let other = Event {
            tid: 2,
            ..alloc(22, 1024)
        };
        let process = run(&[alloc(0, 512), begin(20), other, freed(20)]);
        assert_eq!(
            (device(&process).live_bytes, device(&process).peak_bytes),
            (1024, 1024)
        );
        assert_eq!((process.lost_frees, process.unknown_frees), (0, 0));
    }

    #[test]
    fn another_thread_may_free_a_block() {
        let by_other = |event: Event| Event { tid: 2, ..event };
        let process = run(&[alloc(0, 512), by_other(begin(20)), by_other(freed(20))]);
        assert_eq!(device(&process).live_blocks, 0);
    }

    #[test]
    fn a_free_whose_entry_was_lost_counts_at_its_return() {
        assert_eq!(device(&run(&[alloc(0, 512), freed(20)])).live_bytes, 0);
        let failed = Event {
            result: Some(1),
            ..freed(20)
        };
        assert_eq!(device(&run(&[alloc(0, 512), failed])).live_bytes, 512);
    }

    #[test]
    fn a_late_free_does_not_free_the_next_block_at_its_address() {
        let process = run(&[alloc(0, 512), alloc(25, 1024), freed(20)]);
        assert_eq!((device(&process).live_bytes, process.lost_frees), (1024, 1));
    }

    #[test]
    fn an_allocation_on_a_live_address_closes_the_old_block() {
        let process = run(&[alloc(0, 512), alloc(20, 1024)]);
        assert_eq!(
            (device(&process).live_bytes, device(&process).live_blocks),
            (1024, 1)
        );
        assert_eq!((device(&process).peak_bytes, process.lost_frees), (1024, 1));
    }

    #[test]
    fn frees_of_unknown_blocks_are_counted_if_they_succeed() {
        let failed = Event {
            result: Some(1),
            ..freed(40)
        };
        let process = run(&[begin(20), freed(20), begin(40), failed, freed(60)]);
        assert_eq!(process.unknown_frees, 2);
        assert!(process.devices.is_empty());
    }

    #[test]
    fn null_is_no_block() {
        let null = |event: Event| Event {
            address: Some(0),
            ..event
        };
        let process = run(&[null(alloc(0, 0)), null(begin(20)), null(freed(20))]);
        assert_eq!(process.unknown_frees, 0);
        assert!(process.devices.is_empty());
    }

    #[test]
    fn an_unread_address_is_counted_apart() {
        let process = run(&[Event {
            address: None,
            ..alloc(0, 512)
        }]);
        assert_eq!(process.unread_allocations, 1);
        assert!(process.devices.is_empty());
    }

    #[test]
    fn huge_sizes_do_not_overflow() {
        let second = Event {
            address: Some(BLOCK + 1),
            ..alloc(20, -1)
        };
        let process = run(&[alloc(0, -1), second, begin(40), freed(40)]);
        assert_eq!(device(&process).peak_bytes, u64::MAX);
    }

    #[test]
    fn blocks_end_with_their_process_and_not_with_its_id() {
        let seen = |start_time| fact::Process {
            pid: PID,
            namespace_pid: 1,
            start_time,
            parent: 1,
            exe: String::new(),
            title: String::new(),
            command: String::new(),
            from_start: true,
        };
        let mut memory = Memory::new(0);
        memory.process_seen(&seen(7));
        memory.apply(&alloc(0, 512));
        memory.process_seen(&seen(7));
        memory.process_seen(&seen(8));
        memory.apply(&alloc(20, 64));
        let [first, second] = &memory.into_processes()[..] else {
            panic!("two processes")
        };
        assert_eq!((first.start_time, second.start_time), (Some(7), Some(8)));
        assert_eq!(
            (device(first).live_bytes, device(first).ended_bytes),
            (0, 512)
        );
        assert_eq!((device(second).live_bytes, second.lost_frees), (64, 0));
    }

    #[test]
    fn exit_ends_all_blocks() {
        let mut memory = Memory::new(0);
        memory.apply(&alloc(0, 512));
        memory.process_ended(PID);
        memory.process_ended(PID + 1);
        let processes = memory.into_processes();
        assert_eq!(device(&processes[0]).ended_bytes, 512);
        assert_eq!(device(&processes[0]).live_bytes, 0);
    }

    #[test]
    fn the_peak_is_that_of_the_window() {
        let mut memory = Memory::new(100);
        let at = |address, event: Event| Event {
            address: Some(address),
            ..event
        };
        memory.apply(&at(1, alloc(0, 1000)));
        memory.apply(&at(2, alloc(20, 24)));
        memory.apply(&at(1, begin(40)));
        memory.apply(&at(3, alloc(100, 8)));
        let processes = memory.into_processes();
        assert_eq!(device(&processes[0]).peak_bytes, 32);
    }

    #[test]
    fn torch_totals_are_the_last_ones_of_each_device() {
        let report = |device, allocated| Event {
            device,
            allocated: Some(allocated),
            reserved: Some(1 << 20),
            ..row("c10::reportMemoryUsageToProfiler", Kind::Call, 0)
        };
        let process = run(&[report(Some(1), 5), report(Some(1), 6), report(None, 7)]);
        assert_eq!(process.devices.len(), 1);
        assert_eq!(
            process.devices[&Some(1)].torch,
            Some(TorchMemory {
                allocated: Some(6),
                reserved: Some(1 << 20)
            })
        );
    }
}
