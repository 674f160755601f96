//! One recording's ids and times, among several.

use std::collections::BTreeSet;

use ledger::{Ledger, Renumber};
use rustc_hash::FxHashMap;
use trace::{Event, Fact, fact};

/// Process ids of the second recording that has other processes begin here, of the third at
/// twice as many. Linux gives no id above 2^22.
pub(super) const APART: u32 = 10_000_000;

/// Ids that no recording has yet.
#[derive(Debug, Default)]
pub(super) struct Free {
    kernel: u32,
    caller: u32,
}

/// What the ids and times of one recording become.
#[derive(Debug)]
pub(super) struct Numbering {
    /// Added to process ids.
    pids: u32,
    /// Added to times, ns.
    shift: u64,
    kernels: FxHashMap<u32, u32>,
    callers: FxHashMap<u32, u32>,
    /// Processes that it told of, by their new ids.
    processes: BTreeSet<u32>,
    last: Option<u32>,
    checkpoints: u64,
}

impl Numbering {
    /// Adds `pids` to process ids and `shift` (ns) to times.
    pub(super) fn new(pids: u32, shift: u64) -> Self {
        Self {
            pids,
            shift,
            kernels: FxHashMap::default(),
            callers: FxHashMap::default(),
            processes: BTreeSet::new(),
            last: None,
            checkpoints: 0,
        }
    }

    /// A moment.
    pub(super) fn time(&self, time: u64) -> u64 {
        time.saturating_add(self.shift)
    }

    /// Renumbers a row; the fact that it now tells, if any.
    pub(super) fn event(&mut self, event: &mut Event, free: &mut Free) -> Option<Fact> {
        event.timestamp = self.time(event.timestamp);
        event.pid = self.process(event.pid);
        event.kernel = event.kernel.map(|id| self.kernel(id, free));
        event.caller = event.caller.map(|id| self.caller(id, free));
        let mut fact = event.text.as_deref().and_then(Fact::parse)?;
        self.fact(&mut fact, free);
        event.text = Some(fact.to_text());
        Some(fact)
    }

    fn fact(&mut self, fact: &mut Fact, free: &mut Free) {
        match fact {
            Fact::Process(process) => {
                process.pid = self.process(process.pid);
                process.parent = self.pid(process.parent);
            }
            Fact::Fork { child } => *child = self.process(*child),
            Fact::Device(device) => device.pid = self.process(device.pid),
            Fact::Gap(gap) => gap.pid = self.process(gap.pid),
            Fact::Kernel(kernel) => kernel.id = self.kernel(kernel.id, free),
            Fact::Caller(caller) => caller.id = self.caller(caller.id, free),
            Fact::Clock(fact::Clock {
                monotonic,
                boottime: _,
                realtime: _,
            }) => *monotonic = self.time(*monotonic),
            Fact::Checkpoint { part } => {
                let is_end = part.get("part").and_then(|part| part.as_str()) == Some("end");
                let mut of_checkpoint = OfCheckpoint {
                    numbering: self,
                    free,
                };
                Ledger::renumber(part, &mut of_checkpoint);
                self.checkpoints += u64::from(is_end);
            }
            Fact::Window(window) => {
                window.since = self.time(window.since);
                window.until = self.time(window.until);
            }
            Fact::Exec
            | Fact::TorchSampled
            | Fact::MemorySampled
            | Fact::Exit
            | Fact::Vanished
            | Fact::Module(_)
            | Fact::Hold { .. }
            | Fact::Settings(_)
            | Fact::Account(_)
            | Fact::RecursionMisses { .. }
            | Fact::Segment(_)
            | Fact::Unwritten(_)
            | Fact::End => {}
        }
    }

    /// 0 is no process.
    fn pid(&self, pid: u32) -> u32 {
        match pid {
            0 => 0,
            pid => pid.checked_add(self.pids).unwrap_or(pid),
        }
    }

    /// A process that the recording tells of.
    fn process(&mut self, pid: u32) -> u32 {
        let pid = self.pid(pid);
        if pid != 0 && self.last != Some(pid) {
            self.last = Some(pid);
            self.processes.insert(pid);
        }
        pid
    }

    fn kernel(&mut self, id: u32, free: &mut Free) -> u32 {
        *self
            .kernels
            .entry(id)
            .or_insert_with(|| next(&mut free.kernel))
    }

    fn caller(&mut self, id: u32, free: &mut Free) -> u32 {
        *self
            .callers
            .entry(id)
            .or_insert_with(|| next(&mut free.caller))
    }
}

fn next(free: &mut u32) -> u32 {
    let id = *free;
    *free = free.saturating_add(1);
    id
}

/// What the ledger asks when it renumbers a checkpoint.
struct OfCheckpoint<'a> {
    numbering: &'a mut Numbering,
    free: &'a mut Free,
}

impl Renumber for OfCheckpoint<'_> {
    fn pid(&mut self, pid: u32) -> u32 {
        self.numbering.pid(pid)
    }

    fn caller(&mut self, caller: u32) -> u32 {
        self.numbering.caller(caller, self.free)
    }

    fn time(&self, time: u64) -> u64 {
        self.numbering.time(time)
    }

    fn processes(&self) -> BTreeSet<u32> {
        self.numbering.processes.clone()
    }

    fn has_checkpoint(&self) -> bool {
        self.numbering.checkpoints > 0
    }
}
