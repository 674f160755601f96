//! From events to a report.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use agent_common::ApiId;
use ledger::{Ledger, MemoryKind, Moment, ProcessKey, concerns_memory};
use trace::{Event, EventBatch, Fact, Kind, fact};

use super::report::{Device, Held, Holder, Kinds, Pool, Process, Recording, Report, SCHEMA, Torch};
use super::timeline::Timeline;
use crate::selection::{Selection, Time};

/// Most identities of devices that are kept.
const IDENTITIES: usize = 65_536;

/// Processes that have ended of which a [`Collector::live`] keeps how they were.
const ENDED: usize = 64;

/// Where the events are that come, in the time that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Before,
    Within,
    /// Only what they say of losses counts.
    After,
}

/// Takes the events of a recording, or of a running agent, in order of `seq`, and makes a
/// [`Report`]. A copy of one that goes on makes the report of that moment.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    at: Option<Time>,
    selection: Selection,
    /// Whether it runs on for ever: what concerns processes that ended is forgotten in time.
    is_live: bool,
    ledger: Ledger,
    /// By id: the process, and the file.
    callers: BTreeMap<u32, (u32, Option<String>)>,
    /// By process id and ordinal.
    uuids: BTreeMap<(u32, i32), String>,
    recording: Recording,
    phase: Phase,
    accounts_seen: bool,
    timeline: Option<Timeline>,
    /// Processes that ended, as they were right before.
    ended: Vec<(ProcessKey, Process)>,
}

impl Collector {
    /// For the state at `at`, or at the end of each process; with the curves, where asked for.
    pub fn new(at: Option<Time>, timeline: bool) -> Self {
        Self {
            at,
            timeline: timeline.then(Timeline::default),
            ..Self::default()
        }
    }

    /// Only the selected part: processes that end before it are left out, peaks and curves begin
    /// with it, and processes that go on are shown as they are at its end.
    #[must_use]
    pub fn select(self, selection: Selection) -> Self {
        Self { selection, ..self }
    }

    /// For a running agent: of processes that ended, the last ones are kept.
    pub fn live() -> Self {
        Self {
            is_live: true,
            ..Self::default()
        }
    }

    /// What is known now.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The UUID of the device that a process calls so, where it is known.
    pub fn uuid(&self, pid: u32, ordinal: i32) -> Option<&str> {
        self.uuids.get(&(pid, ordinal)).map(String::as_str)
    }

    /// What the ids of devices and callers mean, as the facts that said so, each with its
    /// process.
    pub fn names(&self) -> impl Iterator<Item = (u32, Fact)> {
        let devices = self.uuids.iter().map(|(&(pid, ordinal), uuid)| {
            let device = fact::Device {
                pid,
                ordinal,
                uuid: Some(uuid.clone()),
                pci_bus_id: None,
            };
            (pid, Fact::Device(device))
        });
        let callers = self.callers.iter().map(|(&id, (pid, module))| {
            let module = module.clone();
            (*pid, Fact::Caller(fact::Caller { id, module }))
        });
        devices.chain(callers)
    }

    /// Takes in the next rows.
    pub fn batch(&mut self, batch: &EventBatch) {
        for row in 0..batch.len() {
            let api = batch.api().get(row).and_then(ApiId::api);
            if api.is_none_or(|api| concerns_memory(api.effect)) {
                self.push(&batch.event(row));
            } else {
                // Nothing that concerns memory: not worth putting together.
                self.count(batch.ts()[row]);
            }
        }
    }

    /// Counts an event that does not concern memory: all that [`Self::push`] would do.
    pub fn count(&mut self, timestamp: u64) -> u64 {
        self.recording.events += 1;
        *self.recording.start_ns.get_or_insert(timestamp)
    }

    /// Takes in the next event.
    pub fn push(&mut self, event: &Event) {
        let start = self.count(event.timestamp);
        let fact = (event.kind == Kind::Fact)
            .then(|| event.text.as_deref().and_then(Fact::parse))
            .flatten();
        match &fact {
            Some(Fact::Caller(fact::Caller { id, module })) => {
                // Of a process that has ended nobody asks any more.
                if !self.is_live || self.ledger.process(event.pid).is_some() {
                    self.callers.insert(*id, (event.pid, module.clone()));
                }
            }
            Some(Fact::Device(device)) => self.identify(device),
            Some(Fact::Account(_) | Fact::RecursionMisses { .. }) => {
                self.accounts_seen = true;
                self.ledger.apply(event);
                return;
            }
            Some(Fact::End) => self.recording.complete = true,
            Some(_) | None => {}
        }
        let moment = moment_of(event, fact.as_ref());
        if let Some(moment) = moment {
            let at = self.at.map(|at| at.after(start));
            let to = self.selection.to.map(|to| to.after(start));
            if at.is_some_and(|at| moment > at) || to.is_some_and(|to| moment >= to) {
                self.phase = Phase::After;
            }
            self.enter_window(event, moment, start);
            if self.phase != Phase::After {
                let end = self.recording.end_ns.get_or_insert(moment);
                *end = moment.max(*end);
            }
        }
        if self.phase == Phase::After {
            return;
        }
        if let Some(process) = self.ledger.about_to_end(event) {
            let key = process.key();
            if self.at.is_none() && self.phase == Phase::Within {
                let ended = self.process(process, event.timestamp);
                self.ended.push((key, ended));
            }
            if let Some(timeline) = &mut self.timeline {
                timeline.end(key, event.timestamp, start);
            }
            if self.is_live {
                self.forget(key.pid);
            }
        }
        self.ledger.apply(event);
        if let (Some(timeline), Some(moment), true) =
            (&mut self.timeline, moment, self.phase == Phase::Within)
        {
            timeline.note(&self.ledger, event.pid, moment, start);
        }
    }

    /// Peaks are those of the selected time.
    fn enter_window(&mut self, event: &Event, moment: u64, start: u64) {
        let from = self.selection.from.map(|from| from.after(start));
        if self.phase == Phase::Before && from.is_none_or(|from| moment >= from) {
            self.phase = Phase::Within;
            if from.is_some() {
                self.ledger.restart_peaks(Moment::of(event));
            }
        }
    }

    fn forget(&mut self, pid: u32) {
        self.callers.retain(|_, (owner, _)| *owner != pid);
        self.uuids.retain(|(owner, _), _| *owner != pid);
        let surplus = self.ended.len().saturating_sub(ENDED);
        self.ended.drain(..surplus);
    }

    fn identify(&mut self, device: &fact::Device) {
        if let Some(uuid) = &device.uuid
            && self.uuids.len() < IDENTITIES
        {
            self.uuids
                .insert((device.pid, device.ordinal), uuid.clone());
        }
    }

    /// The report on all events taken in.
    pub fn finish(mut self) -> Report {
        let start = self.recording.start_ns.unwrap_or(0);
        let at_ns = self.at.map(|at| at.after(start));
        let now = at_ns.or(self.recording.end_ns).unwrap_or(start);
        let mut processes: Vec<Process> = Vec::new();
        for (key, mut process) in std::mem::take(&mut self.ended) {
            if let Some(ended) = self.ledger.ended().find(|ended| ended.key() == key) {
                process.end = ended.end().map(|end| end.cause.name());
                process.ended = ended.ended().into();
            }
            processes.push(process);
        }
        let live = self.ledger.live().map(|process| self.process(process, now));
        processes.extend(live);
        processes.retain(|process| {
            self.selection.has_process(process.pid) && has_memory(process, &self.selection)
        });
        let losses = self.ledger.losses();
        let known = |count| self.accounts_seen.then_some(count);
        let recording = Recording {
            lost_memory_records: known(losses.memory),
            lost_torch_reports: known(losses.torch),
            recursion_misses: known(losses.recursion_misses),
            damaged_checkpoints: self.ledger.damaged_checkpoints(),
            ..self.recording
        };
        Report {
            schema: SCHEMA,
            recording,
            at_ns,
            processes,
            timeline: self.timeline.map(|timeline| {
                let mut curves = timeline.finish();
                curves.retain(|curve| {
                    self.selection.has_process(curve.pid)
                        && self.selection.has_device(curve.pid, curve.device)
                });
                curves
            }),
        }
    }

    fn process(&self, process: &ledger::Process, now: u64) -> Process {
        let info = process.info();
        // Exhaustive: a new counter must be shown, or named here as not.
        let ledger::Counters {
            unknown_frees,
            null_frees,
            empty_allocations: _,
            failed_allocations,
            failed_frees,
            unread_allocations,
            unsized_allocations,
            unknown_mappings,
            captured_frees,
            untracked,
            untracked_mappings: _,
            untracked_objects: _,
            malformed: _,
            gaps,
        } = process.counters();
        let mut ordinals: Vec<Option<i32>> = process.devices().keys().copied().collect();
        ordinals.extend(process.allocators().keys().copied().map(Some));
        ordinals.sort_unstable();
        ordinals.dedup();
        let pid = process.key().pid;
        ordinals.retain(|ordinal| self.selection.has_device(pid, *ordinal));
        Process {
            pid,
            incarnation: process.key().incarnation,
            start_time: info.map(|info| info.start_time),
            exe: info.map(|info| info.exe.clone()),
            title: info.map(|info| info.title.clone()),
            at_ns: now,
            end: None,
            from_start: process.from_start(),
            gaps,
            devices: ordinals
                .into_iter()
                .map(|ordinal| self.device(process, ordinal))
                .filter(is_used)
                .collect(),
            pools: process
                .pools()
                .filter(|pool| self.selection.has_device(pid, pool.device()))
                .map(pool)
                .collect(),
            reserved_address_bytes: process.vmm().reserved_address_bytes(),
            ended: process.ended().into(),
            unknown_frees,
            null_frees,
            failed_frees,
            captured_frees,
            failed_allocations: failed_allocations.into(),
            unread_allocations: unread_allocations.into(),
            memory_sampled: process.is_memory_sampled(),
            unsized_allocations,
            unknown_mappings,
            untracked: untracked.into(),
        }
    }

    fn device(&self, process: &ledger::Process, ordinal: Option<i32>) -> Device {
        let device = process.devices().get(&ordinal);
        let allocator = ordinal.and_then(|ordinal| process.allocators().get(&ordinal));
        let uuid = ordinal.and_then(|ordinal| self.uuids.get(&(process.key().pid, ordinal)));
        let live = device.map(ledger::Device::live).unwrap_or_default();
        let peak = device.map(ledger::Device::peak).unwrap_or_default();
        let reading = device.and_then(ledger::Device::reading);
        let bytes = |kind| device.map_or(0, |device| device.of_kind(kind).bytes);
        let at_peak = |kind: MemoryKind| device.map_or(0, |device| device.at_peak(kind));
        let known = |value: u64| process.knows_memory().then_some(value);
        Device {
            device: ordinal,
            uuid: uuid.cloned(),
            live_bytes: known(live.bytes),
            live_count: known(live.count),
            held_bytes: known(device.map_or(0, ledger::Device::held_bytes)),
            waste_bytes: known(device.map_or(0, ledger::Device::waste_bytes)),
            peak_bytes: known(peak.bytes),
            peak_ns: (peak.bytes > 0).then_some(peak.at.timestamp),
            by_kind: process.knows_memory().then(|| Kinds::of(bytes)),
            peak_by_kind: process.knows_memory().then(|| Kinds::of(at_peak)),
            unattributed_bytes: reading.and_then(|reading| reading.unattributed()),
            unattributed_at_ns: reading.map(|reading| reading.at.timestamp),
            free_bytes: reading.map(|reading| reading.free),
            total_bytes: reading.map(|reading| reading.total),
            torch: allocator.map(Torch::of),
            holders: self.holders(process.holders(ordinal)),
        }
    }

    /// The ledger tells call sites apart; a person asks for the library.
    fn holders(&self, by_site: Vec<ledger::Holder>) -> Vec<Holder> {
        let mut by_file: BTreeMap<(Option<&String>, &'static str, u64), Held> = BTreeMap::new();
        for holder in by_site {
            let ledger::Holder {
                caller,
                kind,
                size_class,
                live,
            } = holder;
            let file = caller.and_then(|id| self.callers.get(&id)?.1.as_ref());
            let held = by_file.entry((file, kind.name(), size_class)).or_default();
            held.count = held.count.saturating_add(live.count);
            held.bytes = held.bytes.saturating_add(live.bytes);
        }
        let mut holders: Vec<Holder> = by_file
            .into_iter()
            .map(|((file, kind, size_class_bytes), live)| Holder {
                caller: file.cloned(),
                kind,
                size_class_bytes,
                live_count: live.count,
                live_bytes: live.bytes,
            })
            .collect();
        holders.sort_by_key(|holder| Reverse((holder.live_bytes, holder.live_count)));
        holders
    }
}

/// Whether there is anything to say of a device.
fn is_used(device: &Device) -> bool {
    let Device {
        device: _,
        uuid: _,
        live_bytes: _,
        live_count: _,
        held_bytes: _,
        waste_bytes: _,
        peak_bytes,
        peak_ns: _,
        by_kind,
        peak_by_kind,
        unattributed_bytes,
        unattributed_at_ns: _,
        free_bytes: _,
        total_bytes: _,
        torch,
        holders,
    } = device;
    peak_bytes.is_some_and(|bytes| bytes > 0)
        || [by_kind, peak_by_kind]
            .iter()
            .any(|kinds| kinds.is_some_and(|kinds| kinds != Kinds::default()))
        || unattributed_bytes.is_some()
        || torch.is_some()
        || !holders.is_empty()
}

fn pool(pool: &ledger::MemoryPool) -> Pool {
    Pool {
        handle: pool.handle(),
        device: pool.device(),
        live_count: pool.live.count,
        live_bytes: pool.live.bytes,
        reserved_bytes: None,
        release_threshold_bytes: pool.release_threshold,
        trims: pool.trims,
    }
}

fn has_memory(process: &Process, selection: &Selection) -> bool {
    // Of an unknown block, the device is not known either.
    let unknown_frees = process.unknown_frees > 0 && selection.has_all_devices();
    let is_told = unknown_frees || process.memory_sampled;
    !process.devices.is_empty() || is_told || !process.pools.is_empty()
}

/// When what an event tells had happened; `None` for rows that define or sum up something.
fn moment_of(event: &Event, fact: Option<&Fact>) -> Option<u64> {
    match event.kind {
        Kind::Call | Kind::Begin => {
            Some(event.timestamp.saturating_add(event.duration.unwrap_or(0)))
        }
        Kind::Fact => matches!(fact, Some(Fact::Exit | Fact::Exec | Fact::Vanished))
            .then_some(event.timestamp),
        Kind::Abandoned | Kind::InFlight => None,
    }
}
