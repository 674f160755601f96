//! From the ledger's changes to lines.

use std::collections::BTreeMap;

use agent_common::{ApiId, Effect};
use ledger::{Ledger, MemoryKind, Process, ProcessKey, Ranged};
use rustc_hash::FxHashMap;
use trace::{Event, Kind, fact};

use super::line::{Key, Line, Memory, Whose, class_of, sizes_of};
use super::lines::{LINES, Lines};
use super::series::{BINS, Clock, Series};
use super::sleep::{self, Sleep, Watch};
use super::verdict::{Judged, Shape};
use super::{Growth, cycles};
use crate::report::{Kept, LeftOut};

/// Most lines of processes that ended.
const ENDED_LINES: usize = 8192;

/// Most callers that are named.
const CALLERS: usize = 65_536;

/// The file of PyTorch's caching allocator.
const ALLOCATOR: &str = "libc10_cuda.so";

/// Follows live memory.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    clock: Option<Clock>,
    lines: Lines,
    sleeps: Watch,
    ended: Vec<Growth>,
    /// Files by caller id.
    callers: FxHashMap<u32, String>,
    left_out: Counts,
}

/// What was more than is kept.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Lines beyond [`ENDED_LINES`].
    ended: u64,
    /// Call sites beyond [`CALLERS`].
    callers: u64,
}

impl Collector {
    /// Begins anew at `now` with what is live: the window begins.
    pub(crate) fn restart(&mut self, ledger: &Ledger, now: u64) {
        self.clock = Some(Clock::starting(now));
        self.lines.clear();
        for (key, total) in totals(ledger) {
            self.lines.line(key, 0, total);
        }
    }

    /// A checkpoint was read at `now`: the lines go on from what it says is live, whatever was
    /// missed before it.
    pub(crate) fn resume(&mut self, ledger: &Ledger, now: u64) {
        if self.clock.is_none() {
            return self.restart(ledger, now);
        }
        let bin = self.bin(now);
        let mut totals = totals(ledger);
        for (key, line) in self.lines.iter_mut() {
            let told = totals.remove(&key);
            // PyTorch's totals tell themselves with the next report.
            if let Memory::Calls { .. } = key.whose.memory {
                line.series.set(bin, told.unwrap_or(0));
            }
        }
        for (key, total) in totals {
            self.lines.line(key, bin, total);
        }
    }

    /// A call site has a name.
    pub(crate) fn caller(&mut self, caller: fact::Caller) {
        let Some(module) = caller.module else { return };
        if self.callers.len() < CALLERS || self.callers.contains_key(&caller.id) {
            self.callers.insert(caller.id, module);
        } else {
            self.left_out.callers += 1;
        }
    }

    /// Takes in an event that the ledger has taken in; `moment` is the last that it tells of.
    pub(crate) fn note(&mut self, ledger: &Ledger, event: &Event, moment: u64) {
        let Some(effect) = event.api.and_then(ApiId::api).map(|api| api.effect) else {
            return;
        };
        let Some(process) = ledger.process(event.pid) else {
            return;
        };
        let changes = process.changes();
        let held = || {
            let devices = process.devices().values();
            devices.fold(0, |sum: u64, device| {
                sum.saturating_add(device.live().bytes)
            })
        };
        self.sleeps.note(event, effect, changes, held);
        if changes.is_empty() && effect != Effect::TorchReport {
            return;
        }
        let bin = self.bin(moment);
        let process_key = process.key();
        for change in changes {
            let memory = Memory::Calls {
                kind: change.kind,
                caller: change.caller,
                is_segment: change.is_segment,
            };
            if memory.source().is_none() {
                continue;
            }
            let whose = Whose {
                process: process_key,
                device: change.device,
                memory,
            };
            let class = class_of(change.size);
            self.lines.change(whose, class, bin, |series| {
                if change.is_gone {
                    series.remove(bin, change.size);
                } else {
                    series.add(bin, change.size);
                }
            });
        }
        if effect == Effect::TorchReport && event.kind == Kind::Call {
            self.torch(process_key, event, bin);
        }
    }

    /// What the process held when it ended, right before it does.
    pub(crate) fn about_to_end(&mut self, process: &Process, now: u64) {
        let bin = self.bin(now);
        self.sleeps.forget(process.key().pid);
        let growth = self.judge(process, bin);
        let room = ENDED_LINES.saturating_sub(self.ended.len());
        self.left_out.ended += growth.len().saturating_sub(room) as u64;
        self.ended.extend(growth.into_iter().take(room));
    }

    /// All lines, all sleeps, and what was more than is kept, up to `end`.
    pub(crate) fn finish(
        mut self,
        ledger: &Ledger,
        end: u64,
    ) -> (Vec<Growth>, Vec<Sleep>, Vec<LeftOut>) {
        let bin = self.bin(end);
        let mut growth = std::mem::take(&mut self.ended);
        for process in ledger.live() {
            growth.extend(self.judge(process, bin));
        }
        growth.sort_by(|a, b| {
            let key = |growth: &Growth| {
                let total = !growth.is_total();
                (
                    growth.shape,
                    growth.pid,
                    growth.device,
                    growth.source,
                    total,
                )
            };
            key(a).cmp(&key(b)).then(b.live_bytes.cmp(&a.live_bytes))
        });
        let Counts { ended, callers } = self.left_out;
        let (sleeps, untold_sleeps) = self.sleeps.finish();
        let left_out = [
            LeftOut::of(Kept::GrowthLines, LINES, self.lines.left_out()),
            LeftOut::of(Kept::EndedGrowthLines, ENDED_LINES, ended),
            LeftOut::of(Kept::GrowthCallers, CALLERS, callers),
            LeftOut::of(Kept::Sleeps, sleep::KEPT, untold_sleeps),
        ];
        (growth, sleeps, left_out.into_iter().flatten().collect())
    }

    /// PyTorch says itself what its totals are: they hold whatever was missed.
    fn torch(&mut self, process: ProcessKey, event: &Event, bin: usize) {
        let (Some(device), Some(change), Some(allocated), Some(reserved)) =
            (event.device, event.size, event.allocated, event.reserved)
        else {
            return;
        };
        let of = |memory, class| {
            let whose = Whose {
                process,
                device: Some(device),
                memory,
            };
            Key { whose, class }
        };
        // A report that memory ran out tells of a size, too, and changes nothing.
        let is_change = event.address.is_some();
        let before = if is_change {
            allocated.saturating_add_signed(change.saturating_neg())
        } else {
            allocated
        };
        if let Some(line) = self.lines.line(of(Memory::Torch, None), bin, before) {
            line.series.set(bin, allocated);
        }
        if let Some(line) = self.lines.line(of(Memory::Reserved, None), bin, reserved) {
            line.series.set(bin, reserved);
        }
        let size = change.unsigned_abs();
        let of_its_size = of(Memory::Torch, Some(class_of(size)));
        if is_change && let Some(line) = self.lines.line(of_its_size, bin, 0) {
            if change > 0 {
                line.series.add(bin, size);
            } else {
                line.series.remove(bin, size);
            }
        }
    }

    /// The bin of a moment; bins become longer until it has one.
    fn bin(&mut self, moment: u64) -> usize {
        let clock = self.clock.get_or_insert(Clock::starting(moment));
        loop {
            if let Some(bin) = clock.bin(moment) {
                return bin;
            }
            clock.double();
            self.lines.iter_mut().for_each(|(_, line)| line.fold());
        }
    }

    /// Judges the lines of a process, whose end is `bin`, and forgets them.
    fn judge(&mut self, process: &Process, bin: usize) -> Vec<Growth> {
        let Some(clock) = self.clock else {
            return Vec::new();
        };
        let mut lines = self.lines.take(process.key());
        // What it holds is not known at the end, and so not whether it came back.
        if process.is_memory_sampled() {
            lines.retain(|key, _| !matches!(key.whose.memory, Memory::Calls { .. }));
        }
        for line in lines.values_mut() {
            line.series.pass(bin);
        }
        each_live(process, |key, size, at| {
            if let Some(line) = lines.get_mut(&key) {
                line.survives(clock.bin(at).unwrap_or(BINS - 1), size);
            }
        });
        let mut activity = vec![0_u64; BINS];
        for line in lines
            .iter()
            .filter(|(key, _)| key.class.is_none())
            .map(|(_, line)| line)
        {
            for (sum, bin) in activity.iter_mut().zip(line.series.bins()) {
                *sum += u64::from(bin.falls);
            }
        }
        let mut merged: BTreeMap<Place<'_>, Line> = BTreeMap::new();
        for (key, line) in lines {
            let place = self.place(&key, process);
            match merged.get_mut(&place) {
                Some(known) => known.merge(&line),
                None => {
                    merged.insert(place, line);
                }
            }
        }
        merged
            .into_iter()
            .filter_map(|(place, line)| place.growth(&line, process, clock, &activity))
            .collect()
    }

    fn place(&self, key: &Key, process: &Process) -> Place<'_> {
        let Key {
            whose:
                Whose {
                    process: _,
                    device,
                    memory,
                },
            class,
        } = *key;
        let (caller, is_segment) = match memory {
            Memory::Calls {
                kind: _,
                caller,
                is_segment,
            } => (caller, is_segment),
            Memory::Torch | Memory::Reserved => (None, false),
        };
        let caller = caller.and_then(|id| self.callers.get(&id));
        let allocator = device.is_some_and(|device| process.allocators().contains_key(&device));
        let is_of_allocator = caller.is_some_and(|path| {
            let name = path.rsplit('/').next();
            name.is_some_and(|name| name.starts_with(ALLOCATOR))
        });
        Place {
            device,
            memory: match memory {
                Memory::Calls { kind, .. } => Memory::Calls {
                    kind,
                    caller: None,
                    is_segment: false,
                },
                Memory::Torch | Memory::Reserved => memory,
            },
            caller,
            is_allocator: is_segment || allocator && is_of_allocator,
            class,
        }
    }
}

/// What is live, by line.
fn totals(ledger: &Ledger) -> FxHashMap<Key, u64> {
    let mut totals: FxHashMap<Key, u64> = FxHashMap::default();
    for process in ledger.live() {
        each_live(process, |key, size, _| {
            let total = totals.entry(key).or_default();
            *total = total.saturating_add(size);
        });
    }
    totals
}

/// What lines are told apart by, call sites of one file together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'a> {
    device: Option<i32>,
    memory: Memory,
    caller: Option<&'a String>,
    is_allocator: bool,
    class: Option<u16>,
}

impl Place<'_> {
    fn growth(
        self,
        line: &Line,
        process: &Process,
        clock: Clock,
        activity: &[u64],
    ) -> Option<Growth> {
        let Self {
            device,
            memory,
            caller,
            is_allocator,
            class,
        } = self;
        let judged = Judged {
            line,
            clock,
            activity,
            has_blocks: memory != Memory::Reserved,
        };
        let (shape, rate) = judged.shape();
        let live_bytes = line.series.current();
        if live_bytes == 0 && class.is_some() && shape != Shape::Growing {
            return None;
        }
        let sizes = class.map(sizes_of);
        Some(Growth {
            pid: process.key().pid,
            start_time: process.info().map(|info| info.start_time),
            device,
            source: memory.source()?,
            caller: caller.cloned(),
            is_allocator,
            sizes_above: sizes.map(|(above, _)| above),
            sizes_to: sizes.map(|(_, to)| to),
            live_bytes,
            peak_growth_bytes: line.series.peak_growth(),
            shape,
            rate,
            cycles: cycles::of(line.series.bins()).filter(|_| class.is_none()),
            free_bytes: free_bytes(process, device),
        })
    }
}

/// What the program last read as free on the device, less what it took since.
fn free_bytes(process: &Process, device: Option<i32>) -> Option<u64> {
    let device = process.devices().get(&device)?;
    let reading = device.reading()?;
    let taken = device.held_bytes().saturating_sub(reading.held);
    Some(reading.free.saturating_sub(taken))
}

/// Everything live: its line, its bytes, and since when.
fn each_live(process: &Process, mut tell: impl FnMut(Key, u64, u64)) {
    let mut tell = |device, memory: Memory, size: u64, at: u64| {
        if memory.source().is_some() {
            for class in [None, Some(class_of(size))] {
                let whose = Whose {
                    process: process.key(),
                    device,
                    memory,
                };
                tell(Key { whose, class }, size, at);
            }
        }
    };
    for block in process.blocks().iter() {
        let memory = Memory::Calls {
            kind: block.kind(),
            caller: block.origin.caller,
            is_segment: block.segment_of().is_some(),
        };
        let at = block.origin.at.timestamp;
        tell(block.device(), memory, block.size().unwrap_or(0), at);
    }
    for array in process.arrays() {
        let memory = Memory::Calls {
            kind: MemoryKind::Device,
            caller: array.origin.caller,
            is_segment: false,
        };
        let at = array.origin.at.timestamp;
        tell(array.device(), memory, array.size.unwrap_or(0), at);
    }
    for physical in process.vmm().physical() {
        if let Some(kind) = physical.kind() {
            let memory = Memory::Calls {
                kind,
                caller: physical.origin.caller,
                is_segment: false,
            };
            let at = physical.origin.at.timestamp;
            tell(physical.device(), memory, physical.size.unwrap_or(0), at);
        }
    }
    for (&device, allocator) in process.allocators() {
        for block in allocator.active().iter() {
            let size = block.range().size();
            tell(Some(device), Memory::Torch, size, block.at.timestamp);
        }
    }
}

impl Line {
    pub(super) fn starting(first: usize, value: u64) -> Self {
        Self {
            series: Series::starting(first, value),
            ..Self::default()
        }
    }

    /// Takes in a line of the same file: the sum of two floors is at most the floor of the sum.
    fn merge(&mut self, other: &Self) {
        self.series.merge(&other.series);
        self.survivor_count += other.survivor_count;
        if self.survivors.is_empty() {
            self.survivors.clone_from(&other.survivors);
        } else {
            for (sum, bytes) in self.survivors.iter_mut().zip(&other.survivors) {
                *sum = sum.saturating_add(*bytes);
            }
        }
    }
}
