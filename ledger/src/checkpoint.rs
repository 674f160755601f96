//! The whole state as facts, and back.
//!
//! A recording that does not begin with its processes (a segment of a rolling one, a stream that
//! someone joins) begins with a checkpoint, so that its reader does not start blind. A checkpoint
//! is a row of facts, `begin` first and `end` last; it counts when it is whole. Totals are not in
//! it: they follow from what is. Ended processes are not in it either, but for their number.
//!
//! What the state refers to by id (callers) is told by facts of its own, which the recorder
//! repeats.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use trace::{Fact, fact};

use crate::{
    Array, Block, CachingAllocator, Counters, Ended, Ledger, Limits, Losses, MemoryKind,
    MemoryPool, MemoryReading, Moment, Peak, Process, ProcessKey, Ranged, Segment, Tally,
    TorchBlock,
    context::Contexts,
    free::Freeing,
    graph::Graphs,
    serial,
    torch::Account,
    vmm::{Mapping, Physical, Reservation},
};

/// Version of the parts. Another one is not resumed from.
const VERSION: u32 = 1;

/// Most things in one part: it must fit a row ([`trace::TEXT_CAPACITY`]).
const PER_PART: usize = 1024;

/// One fact of a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
enum Part {
    /// What follows replaces all that was known.
    Begin {
        version: u32,
        /// Ended processes.
        ended: u64,
        ignored: u64,
        losses: Losses,
        /// Where recordings are read together: the processes of the one that this is of, which
        /// alone are replaced. Never written by a recorder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<BTreeSet<u32>>,
    },
    /// Something of a live process.
    Of {
        pid: u32,
        #[serde(flatten)]
        state: Box<State>,
    },
    /// Blocks shown to other processes.
    Shared { shared: Vec<Shared> },
    /// The checkpoint is whole.
    End,
}

/// A checkpoint that is being read.
#[derive(Clone, Debug)]
pub(crate) struct Resumed {
    ledger: Ledger,
    /// The processes that it replaces; `None`: all.
    of: Option<BTreeSet<u32>>,
}

/// A part of a process's state; `Process` comes first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Process(ProcessState),
    Pools(Vec<MemoryPool>),
    Blocks(Vec<Block>),
    Arrays(Vec<Array>),
    Reservations(Vec<Reservation>),
    Physical(Vec<Physical>),
    /// Handles to physical memory besides those that it was made with.
    Handles(Vec<Handle>),
    Mappings(Vec<Mapping>),
    Graphs(Graphs),
    Contexts(Contexts),
    /// By thread.
    Freeing(Vec<(u32, Freeing)>),
    /// By device; its segments and blocks follow.
    Allocator(i32, Account),
    Segments(i32, Vec<Segment>),
    TorchBlocks(i32, Vec<TorchBlock>),
}

#[derive(Debug, Serialize, Deserialize)]
struct ProcessState {
    incarnation: u32,
    info: Option<fact::Process>,
    started: Moment,
    calls_seen: bool,
    counters: Counters,
    next_physical: u64,
    devices: Vec<DeviceState>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    memory_sampled: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct DeviceState {
    device: Option<i32>,
    peak: Peak,
    peak_by_kind: [u64; MemoryKind::ALL.len()],
    ended: Ended,
    reading: Option<MemoryReading>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Handle {
    #[serde(with = "serial::hex")]
    handle: u64,
    physical: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Shared {
    #[serde(with = "serial::hex")]
    fingerprint: u64,
    size: u64,
}

impl Ledger {
    /// The whole state, as facts to be written one after the other, without other rows between.
    /// The rows have pid 0.
    pub fn checkpoint(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        let mut write = |part: Part| {
            // Numbers, strings and lists: nothing that JSON lacks.
            let part = serde_json::to_value(part).unwrap_or_default();
            facts.push(Fact::Checkpoint { part });
        };
        write(Part::Begin {
            version: VERSION,
            ended: self.forgotten().saturating_add(self.ended().len() as u64),
            ignored: self.ignored(),
            losses: self.losses(),
            of: None,
        });
        let shared: Vec<(u64, u64)> = self.shared.iter().collect();
        for some in shared.chunks(PER_PART) {
            let shared = some
                .iter()
                .map(|&(fingerprint, size)| Shared { fingerprint, size });
            write(Part::Shared {
                shared: shared.collect(),
            });
        }
        for process in self.live() {
            let pid = process.key().pid;
            process.write(&mut |state| {
                write(Part::Of {
                    pid,
                    state: Box::new(state),
                });
            });
        }
        write(Part::End);
        facts
    }

    /// Takes in one fact of a checkpoint.
    pub(crate) fn resume(&mut self, part: serde_json::Value, at: Moment) {
        match serde_json::from_value::<Part>(part) {
            Ok(Part::Begin {
                version: VERSION,
                ended,
                ignored,
                losses,
                of,
            }) => {
                let mut resumed = Self::new(*self.limits());
                resumed.forgotten = ended;
                resumed.ignored = ignored;
                resumed.losses = losses;
                self.resumed = Some(Box::new(Resumed {
                    ledger: resumed,
                    of,
                }));
            }
            Ok(Part::Begin { .. }) | Err(_) => {
                self.resumed = None;
                self.damaged_checkpoints += 1;
            }
            Ok(Part::Of { pid, state }) => {
                if let Some(resumed) = &mut self.resumed {
                    resumed.ledger.add(pid, *state);
                }
            }
            Ok(Part::Shared { shared }) => {
                let limit = self.limits.shared_blocks;
                if let Some(resumed) = &mut self.resumed {
                    for Shared { fingerprint, size } in shared {
                        resumed.ledger.shared.show(fingerprint, size, limit);
                    }
                }
            }
            Ok(Part::End) => {
                if let Some(resumed) = self.resumed.take() {
                    self.take_over(*resumed, at);
                }
            }
        }
    }

    fn take_over(&mut self, resumed: Resumed, at: Moment) {
        let Resumed {
            ledger: resumed,
            of,
        } = resumed;
        let Self {
            limits,
            mut live,
            ended: _,
            forgotten,
            ignored,
            losses,
            shared,
            resumed: _,
            damaged_checkpoints: _,
            checkpoints: _,
            peaks_from: _,
        } = resumed;
        self.checkpoints += 1;
        for (pid, process) in &mut live {
            process.reconcile();
            let known = self.live.get(pid).filter(|known| known.is_same(process));
            process.keep_peaks_since(self.peaks_from, known, at);
        }
        if let Some(replaced) = of {
            self.live.retain(|pid, _| !replaced.contains(pid));
            self.live.append(&mut live);
            self.ignored = self.ignored.saturating_add(ignored);
            self.losses.merge(losses);
            for (fingerprint, size) in shared.iter() {
                self.shared.show(fingerprint, size, limits.shared_blocks);
            }
        } else {
            self.live = live;
            // Those that ended here are still listed.
            self.forgotten = forgotten.saturating_sub(self.ended.len() as u64);
            self.ignored = ignored;
            self.losses = losses;
            self.shared = shared;
        }
    }

    fn add(&mut self, pid: u32, state: State) {
        if let State::Process(state) = state {
            if self.live.len() < self.limits.processes {
                let process = Process::resume(pid, state, self.limits);
                self.live.insert(pid, process);
            }
        } else if let Some(process) = self.live.get_mut(&pid) {
            process.add(state);
        }
    }
}

/// Writes `all` in parts that fit a row.
fn in_parts<T>(
    all: impl Iterator<Item = T>,
    write: &mut impl FnMut(State),
    part: impl Fn(Vec<T>) -> State,
) {
    let mut some = Vec::new();
    for one in all {
        some.push(one);
        if some.len() == PER_PART {
            write(part(std::mem::take(&mut some)));
        }
    }
    if !some.is_empty() {
        write(part(some));
    }
}

impl Process {
    /// Whether `other` is this process, as another recorder, or part of a recording, tells of it.
    fn is_same(&self, other: &Self) -> bool {
        let start = |process: &Self| process.info.as_ref().map(|info| info.start_time);
        self.key == other.key && start(self) == start(other)
    }

    fn keep_peaks_since(&mut self, from: Moment, known: Option<&Self>, at: Moment) {
        for (ordinal, device) in &mut self.devices {
            let known = known.and_then(|known| known.devices.get(ordinal));
            device.keep_peak_since(from, known, at);
        }
    }

    fn write(&self, write: &mut impl FnMut(State)) {
        // Exhaustive: a new field must be written, or named here as not.
        let Self {
            key,
            info,
            started,
            calls_seen,
            end: _,
            limits: _,
            blocks,
            arrays,
            vmm,
            pools,
            graphs,
            contexts,
            devices,
            allocators,
            // Each allocator tells.
            torch_sampled: _,
            memory_sampled,
            freeing,
            counters,
            changes: _,
            just_freed: _,
        } = self;
        let devices = devices.iter().map(|(device, state)| DeviceState {
            device: *device,
            peak: state.peak(),
            peak_by_kind: MemoryKind::ALL.map(|kind| state.at_peak(kind)),
            ended: state.ended(),
            reading: state.reading(),
        });
        write(State::Process(ProcessState {
            incarnation: key.incarnation,
            info: info.clone(),
            started: *started,
            calls_seen: *calls_seen,
            counters: *counters,
            next_physical: vmm.next_id,
            devices: devices.collect(),
            memory_sampled: *memory_sampled,
        }));
        in_parts(pools.values().cloned(), write, State::Pools);
        in_parts(blocks.iter().cloned(), write, State::Blocks);
        in_parts(arrays.values().cloned(), write, State::Arrays);
        let reservations = vmm.reservations.iter().cloned();
        in_parts(reservations, write, State::Reservations);
        in_parts(vmm.physical.values().cloned(), write, State::Physical);
        let is_another = |(handle, id): &(&u64, &u64)| {
            let made = vmm.physical.get(id).map(|physical| physical.handle);
            made != Some(**handle)
        };
        let handles = vmm.by_handle.iter().filter(is_another);
        let handles = handles.map(|(&handle, &physical)| Handle { handle, physical });
        in_parts(handles, write, State::Handles);
        in_parts(vmm.mappings.iter().cloned(), write, State::Mappings);
        if *graphs != Graphs::default() {
            write(State::Graphs(graphs.clone()));
        }
        if *contexts != Contexts::default() {
            write(State::Contexts(contexts.clone()));
        }
        let under_way = freeing.iter().map(|(tid, freeing)| (tid, freeing.clone()));
        in_parts(under_way, write, State::Freeing);
        for (&device, allocator) in allocators {
            write(State::Allocator(device, allocator.account()));
            let segments = allocator.segments().iter().cloned();
            in_parts(segments, write, |some| State::Segments(device, some));
            let blocks = allocator.active().iter().cloned();
            in_parts(blocks, write, |some| State::TorchBlocks(device, some));
        }
    }

    fn resume(pid: u32, state: ProcessState, limits: Limits) -> Self {
        let ProcessState {
            incarnation,
            info,
            started,
            calls_seen,
            counters,
            next_physical,
            devices,
            memory_sampled,
        } = state;
        let mut process = Self::new(ProcessKey { pid, incarnation }, started, limits);
        process.info = info;
        process.calls_seen = calls_seen;
        process.memory_sampled = memory_sampled;
        process.counters = counters;
        process.vmm.next_id = next_physical.min(u64::MAX >> 1);
        for DeviceState {
            device,
            peak,
            peak_by_kind,
            ended,
            reading,
        } in devices
        {
            let device = process.device_key(device);
            let device = process.device_mut(device);
            device.resume(peak, peak_by_kind, ended, reading);
        }
        process
    }

    /// Physical memory is referred to, and a segment that is no run of mappings is a block, which
    /// says so of itself: others were made up, and are left out.
    fn reconcile(&mut self) {
        let physical = self.vmm.physical.values();
        let unused = physical.filter(|physical| physical.is_unused());
        let unused: Vec<u64> = unused.map(|physical| physical.id).collect();
        for id in unused {
            self.end_physical(id);
        }
        for (&ordinal, allocator) in &mut self.allocators {
            let blocks = &self.blocks;
            allocator.reconcile(|range| {
                let block = blocks.get(range.start());
                block.is_some_and(|it| it.range == range && it.segment_of == Some(ordinal))
            });
        }
        for block in self.blocks.iter_mut() {
            block.segment_of = block.segment_of.filter(|ordinal| {
                let allocator = self.allocators.get(ordinal);
                allocator.is_some_and(|it| it.segments().get(block.range.start()).is_some())
            });
        }
    }

    /// Takes in a part. What does not fit together, or has no place, is left out.
    fn add(&mut self, state: State) {
        match state {
            State::Process(_) => {}
            State::Pools(pools) => {
                for pool in pools {
                    if self.has_room_for_object() {
                        let live = Tally::default();
                        let pool = MemoryPool { live, ..pool };
                        self.pools.insert(pool.handle(), pool);
                    }
                }
            }
            State::Blocks(blocks) => {
                for block in blocks {
                    let is_free = self.blocks.last_in(block.range()).is_none();
                    if is_free && self.has_room() {
                        let device = self.device_key(block.device());
                        self.enter(Block { device, ..block });
                    }
                }
            }
            State::Arrays(arrays) => {
                for array in arrays {
                    if !self.arrays.contains_key(&array.handle) && self.has_room() {
                        let device = self.device_key(array.device());
                        self.enter_array(Array { device, ..array });
                    }
                }
            }
            State::Reservations(reservations) => {
                for held in reservations {
                    self.vmm.reservations.evict(held.range());
                    if self.has_room() {
                        self.vmm.reservations.insert(held);
                    }
                }
            }
            State::Physical(physical) => {
                for physical in physical {
                    // A later one with the same handle has taken it over: oldest first.
                    let is_free = !self.vmm.physical.contains_key(&physical.id);
                    if is_free && physical.id < self.vmm.next_id && self.has_room() {
                        let physical = Physical {
                            device: self.device_key(physical.device()),
                            mapped: 0,
                            ..physical
                        };
                        self.enter_physical(&physical);
                        self.vmm.insert(physical);
                    }
                }
            }
            State::Handles(handles) => {
                for Handle { handle, physical } in handles {
                    let has_room = self.vmm.by_handle.len() < self.limits.blocks_per_process;
                    if self.vmm.physical.contains_key(&physical) && has_room {
                        // Memory that is only mapped may have been made with that number.
                        self.vmm.by_handle.insert(handle, physical);
                    }
                }
            }
            State::Mappings(mappings) => {
                for mapping in mappings {
                    if self.has_room() {
                        self.remap(mapping);
                    }
                }
            }
            State::Graphs(graphs) => self.graphs = graphs,
            State::Contexts(contexts) => self.contexts = contexts,
            State::Freeing(freeing) => {
                for (tid, freeing) in freeing {
                    if self.freeing.has_room(tid, self.limits.threads_per_process) {
                        self.freeing.insert(tid, freeing);
                    }
                }
            }
            State::Allocator(device, account) => {
                if device >= 0 && self.allocators.len() < self.limits.devices_per_process {
                    let allocator = CachingAllocator::resume(account);
                    self.torch_sampled |= allocator.is_sampled();
                    self.allocators.insert(device, allocator);
                }
            }
            State::Segments(device, segments) => {
                if let Some(allocator) = self.allocators.get_mut(&device) {
                    for segment in segments {
                        allocator.resume_segment(segment);
                    }
                }
            }
            State::TorchBlocks(device, blocks) => {
                let most = self.limits.torch_blocks_per_device;
                if let Some(allocator) = self.allocators.get_mut(&device) {
                    for block in blocks {
                        if allocator.active().len() < most {
                            allocator.resume_block(block);
                        }
                    }
                }
            }
        }
    }
}
