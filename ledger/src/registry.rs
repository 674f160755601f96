//! The ledger: all processes.

use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroU64,
};

use trace::{Event, Fact, Kind};

use crate::{
    End, EndCause, Losses, MemoryKind, Moment, Process, ProcessKey, checkpoint::Resumed,
    shared::SharedBlocks,
};

/// The columns of a recording that a [`Ledger`] reads, besides those that every row has.
pub const COLUMNS: &[&str] = &[
    "duration",
    "api",
    "parent",
    "result",
    "device",
    "location",
    "location_id",
    "address",
    "size",
    "offset",
    "count",
    "stream",
    "handle",
    "related",
    "option",
    "caller",
    "allocated",
    "reserved",
    "device_free",
    "device_total",
    "flags",
    "text",
];

/// How large a ledger may become, and the size of a device page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a device page. 2 MiB where it was measured (H100); smaller blocks share one.
    pub page_bytes: NonZeroU64,
    /// Bytes of the pieces that a memory pool takes from its device, aligned to their size. 32 MiB
    /// where it was measured (H200, driver 580), for default pools and a program's own.
    pub pool_page_bytes: NonZeroU64,
    /// Live processes.
    pub processes: usize,
    /// Ended processes of which the totals are kept.
    pub ended_processes: usize,
    /// Device ordinals a process.
    pub devices_per_process: usize,
    /// Threads a process that are inside a free at the same time.
    pub threads_per_process: usize,
    /// Live blocks, arrays, physical memory, reservations and mappings a process, together.
    pub blocks_per_process: usize,
    /// Pools, graphs that own memory, and contexts a process, together.
    pub objects_per_process: usize,
    /// Blocks shown between processes, in all.
    pub shared_blocks: usize,
    /// Blocks of PyTorch's allocator, per process and device.
    pub torch_blocks_per_device: usize,
    /// Moments kept at which PyTorch ran out of memory, per process and device.
    pub out_of_memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const PAGE: NonZeroU64 = NonZeroU64::new(2 << 20).unwrap();
        const POOL_PAGE: NonZeroU64 = NonZeroU64::new(32 << 20).unwrap();
        Self {
            page_bytes: PAGE,
            pool_page_bytes: POOL_PAGE,
            processes: 4096,
            ended_processes: 1024,
            devices_per_process: 256,
            threads_per_process: 65_536,
            blocks_per_process: 1 << 20,
            objects_per_process: 8192,
            shared_blocks: 65_536,
            torch_blocks_per_device: 1 << 20,
            out_of_memory: 256,
        }
    }
}

impl Limits {
    /// Bytes of the pages that memory of this kind lies in.
    pub const fn page_of(&self, kind: MemoryKind) -> NonZeroU64 {
        match kind {
            MemoryKind::Pool => self.pool_page_bytes,
            MemoryKind::Device
            | MemoryKind::Managed
            | MemoryKind::PinnedHost
            | MemoryKind::RegisteredHost
            | MemoryKind::Vmm
            | MemoryKind::Graph
            | MemoryKind::Ipc => self.page_bytes,
        }
    }
}

/// The state of all traced processes.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub(crate) limits: Limits,
    pub(crate) live: BTreeMap<u32, Process>,
    pub(crate) ended: VecDeque<Process>,
    pub(crate) forgotten: u64,
    pub(crate) ignored: u64,
    pub(crate) losses: Losses,
    pub(crate) shared: SharedBlocks,
    /// A checkpoint that is not whole yet.
    pub(crate) resumed: Option<Box<Resumed>>,
    pub(crate) damaged_checkpoints: u64,
    /// Whole checkpoints that were taken over.
    pub(crate) checkpoints: u64,
    /// Since when peaks count.
    pub(crate) peaks_from: Moment,
}

impl Ledger {
    /// An empty ledger.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// How large it may become.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes in the next event. Events come in order of `seq`.
    pub fn apply(&mut self, event: &Event) {
        match event.kind {
            Kind::Fact => return self.apply_fact(event),
            Kind::Begin | Kind::Call => self.enter(event.pid, Moment::of(event)),
            // The last rows of a process, written after its end: they bring none back.
            Kind::Abandoned | Kind::InFlight => {}
        }
        let Self { live, shared, .. } = self;
        if let Some(process) = live.get_mut(&event.pid) {
            process.apply(event, shared);
        }
    }

    /// Processes that live, by pid.
    pub fn live(&self) -> impl ExactSizeIterator<Item = &Process> {
        self.live.values()
    }

    /// Processes that ended, oldest first. They hold nothing; their peaks and counts stay.
    pub fn ended(&self) -> impl ExactSizeIterator<Item = &Process> {
        self.ended.iter()
    }

    /// The live process with this id.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        self.live.get(&pid)
    }

    /// Ended processes that are no longer kept.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Events of processes that found no place.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// What the recording says it lost; complete at its end.
    pub const fn losses(&self) -> Losses {
        self.losses
    }

    /// Checkpoints that could not be read, and were not resumed from.
    pub const fn damaged_checkpoints(&self) -> u64 {
        self.damaged_checkpoints
    }

    /// Checkpoints that it went on from.
    pub const fn checkpoints(&self) -> u64 {
        self.checkpoints
    }

    /// Peaks count from `at` on: what is live now is the first.
    pub fn restart_peaks(&mut self, at: Moment) {
        self.peaks_from = at;
        let processes = self.live.values_mut();
        for device in processes.flat_map(|process| process.devices.values_mut()) {
            device.restart_peak(at);
        }
    }

    /// The process that `event` is about to end: the last chance to look at what it holds.
    pub fn about_to_end(&self, event: &Event) -> Option<&Process> {
        let (pid, _) = self.ending(event, &fact_of(event)?)?;
        self.live.get(&pid)
    }

    /// Which process a fact ends, and why.
    fn ending(&self, event: &Event, fact: &Fact) -> Option<(u32, EndCause)> {
        match fact {
            Fact::Exec => Some((event.pid, EndCause::Exec)),
            Fact::Exit => Some((event.pid, EndCause::Exit)),
            Fact::Vanished => Some((event.pid, EndCause::Unseen)),
            // Another start time: another process.
            Fact::Process(info) => self
                .live
                .get(&info.pid)
                .and_then(Process::info)
                .filter(|known| known.start_time != info.start_time)
                .map(|_| (info.pid, EndCause::Unseen)),
            // A child is new. If nothing is known of it but its name, that came early.
            Fact::Fork { child } => self
                .live
                .get(child)
                .filter(|process| !process.is_untouched())
                .map(|_| (*child, EndCause::Unseen)),
            Fact::Module(_)
            | Fact::Device(_)
            | Fact::Kernel(_)
            | Fact::Caller(_)
            | Fact::Clock(_)
            | Fact::Gap(_)
            | Fact::Hold { .. }
            | Fact::Settings(_)
            | Fact::Account(_)
            | Fact::RecursionMisses { .. }
            | Fact::Checkpoint { .. }
            | Fact::Segment(_)
            | Fact::Unwritten(_)
            | Fact::Window(_)
            | Fact::TorchSampled
            | Fact::MemorySampled
            | Fact::End => None,
        }
    }

    /// What is not known of processes that live, since their calls come in windows. A recording that
    /// begins with a checkpoint tells that after it.
    pub fn samples(&self) -> impl Iterator<Item = (u32, Fact)> {
        self.live.iter().flat_map(|(&pid, process)| {
            let torch = process.torch_sampled.then_some(Fact::TorchSampled);
            let memory = process.memory_sampled.then_some(Fact::MemorySampled);
            torch.into_iter().chain(memory).map(move |fact| (pid, fact))
        })
    }

    fn apply_fact(&mut self, event: &Event) {
        let Some(fact) = fact_of(event) else { return };
        let at = Moment::of(event);
        if let Some((pid, cause)) = self.ending(event, &fact) {
            self.end(pid, End { at, cause });
        }
        match fact {
            Fact::Process(info) => {
                if let Some(process) = self.process_mut(info.pid, at) {
                    process.introduce(info);
                }
            }
            // Nothing of the parent's CUDA state works in the child: it starts empty.
            Fact::Fork { child } => {
                self.process_mut(child, at);
            }
            Fact::Gap(gap) => {
                self.losses.gaps += 1;
                if let Some(process) = self.live.get_mut(&gap.pid) {
                    process.note_gap();
                }
            }
            Fact::Account(account) => self.losses.account(&account),
            Fact::RecursionMisses { count } => {
                self.losses.recursion_misses = self.losses.recursion_misses.saturating_add(count);
            }
            Fact::TorchSampled => {
                if let Some(process) = self.process_mut(event.pid, at) {
                    process.sample_torch();
                }
            }
            Fact::MemorySampled => {
                if let Some(process) = self.process_mut(event.pid, at) {
                    process.sample_memory();
                }
            }
            Fact::Checkpoint { part } => self.resume(part, at),
            Fact::Exec
            | Fact::Exit
            | Fact::Vanished
            | Fact::Module(_)
            | Fact::Device(_)
            | Fact::Kernel(_)
            | Fact::Caller(_)
            | Fact::Clock(_)
            | Fact::Hold { .. }
            | Fact::Settings(_)
            | Fact::Segment(_)
            | Fact::Unwritten(_)
            | Fact::Window(_)
            | Fact::End => {}
        }
    }

    fn process_mut(&mut self, pid: u32, at: Moment) -> Option<&mut Process> {
        self.enter(pid, at);
        self.live.get_mut(&pid)
    }

    /// A process lives from now on, if it does not already and there is room.
    fn enter(&mut self, pid: u32, at: Moment) {
        if self.live.contains_key(&pid) {
            return;
        }
        if self.live.len() >= self.limits.processes {
            self.ignored = self.ignored.saturating_add(1);
            return;
        }
        let incarnations = self
            .ended
            .iter()
            .map(Process::key)
            .filter(|key| key.pid == pid);
        let incarnation = incarnations
            .map(|key| key.incarnation + 1)
            .max()
            .unwrap_or(0);
        let process = Process::new(ProcessKey { pid, incarnation }, at, self.limits);
        self.live.insert(pid, process);
    }

    fn end(&mut self, pid: u32, end: End) {
        let Some(mut process) = self.live.remove(&pid) else {
            return;
        };
        if process.is_untouched() && process.info().is_none() {
            return;
        }
        process.finish(end);
        self.ended.push_back(process);
        if self.ended.len() > self.limits.ended_processes {
            self.ended.pop_front();
            self.forgotten += 1;
        }
    }
}

fn fact_of(event: &Event) -> Option<Fact> {
    (event.kind == Kind::Fact).then(|| event.text.as_deref().and_then(Fact::parse))?
}
