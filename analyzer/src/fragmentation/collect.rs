//! From events to a report.

use std::collections::{BTreeMap, BTreeSet};

use agent_common::ApiId;
use ledger::{Ledger, Limits, concerns_memory};
use trace::{Event, EventBatch, Fact, Kind, fact};

use crate::findings;
use crate::selection::{Selection, Time};

use super::{
    driver,
    report::{Device, DeviceMemory, LateStart, Process, Recording, Report, SCHEMA},
    requests::AllRequests,
    torch,
};

pub use ledger::COLUMNS;

/// Takes the events of a recording, in order of `seq`, and makes a [`Report`].
#[derive(Debug, Default)]
pub struct Collector {
    at: Option<Time>,
    selection: Selection,
    /// Whether the selected time has begun.
    is_in_window: bool,
    fit: Option<u64>,
    ledger: Ledger,
    watch: Watch,
    recording: Recording,
    /// Events after the moment that was asked for: only what they say of losses counts.
    is_past: bool,
    accounts_seen: bool,
    processes: Vec<Process>,
}

impl Collector {
    /// For the state at `at`, or at the end of each process; with an answer whether a request
    /// of `fit` bytes would succeed then.
    pub fn new(at: Option<Time>, fit: Option<u64>) -> Self {
        Self {
            at,
            fit,
            ..Self::default()
        }
    }

    /// Only the selected part: processes that end before it are left out, and those that go on
    /// are shown as they are at its end.
    #[must_use]
    pub fn select(self, selection: Selection) -> Self {
        Self {
            watch: Watch::of(selection.clone()),
            selection,
            ..self
        }
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

    fn count(&mut self, timestamp: u64) -> u64 {
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
            Some(Fact::Caller(caller)) => self.watch.caller(caller),
            Some(Fact::Account(_) | Fact::RecursionMisses { .. }) => {
                self.accounts_seen = true;
                self.ledger.apply(event);
                return;
            }
            Some(Fact::End) => self.recording.complete = true,
            Some(_) | None => {}
        }
        if let Some(moment) = moment_of(event, fact.as_ref()) {
            let at = self.at.map(|at| at.after(start));
            let to = self.selection.to.map(|to| to.after(start));
            self.is_past |= at.is_some_and(|at| moment > at) || to.is_some_and(|to| moment >= to);
            let from = self.selection.from.map(|from| from.after(start));
            self.is_in_window |= from.is_none_or(|from| moment >= from);
            if !self.is_past {
                let end = self.recording.end_ns.get_or_insert(moment);
                *end = moment.max(*end);
            }
        }
        if self.is_past {
            return;
        }
        if self.at.is_none()
            && self.is_in_window
            && let Some(process) = self.ledger.about_to_end(event)
        {
            let ended = match fact {
                Some(Fact::Exit) => "exit",
                Some(Fact::Exec) => "exec",
                Some(_) | None => "unseen",
            };
            let (limits, now) = (self.ledger.limits(), event.timestamp);
            let report = self
                .watch
                .process(process, limits, self.fit, now, Some(ended));
            self.processes.extend(report);
            self.watch.ended(process);
        }
        self.watch.event(event);
        self.ledger.apply(event);
    }

    /// The report on all events taken in.
    pub fn finish(mut self) -> Report {
        let start = self.recording.start_ns.unwrap_or(0);
        let at_ns = self.at.map(|at| at.after(start));
        let now = at_ns.or(self.recording.end_ns).unwrap_or(start);
        let live: Vec<Process> = self
            .ledger
            .live()
            .filter_map(|process| {
                let limits = self.ledger.limits();
                self.watch.process(process, limits, self.fit, now, None)
            })
            .collect();
        self.processes.extend(live);
        let losses = self.ledger.losses();
        let known = |count| self.accounts_seen.then_some(count);
        let recording = Recording {
            lost_memory_records: known(losses.memory),
            lost_torch_reports: known(losses.torch),
            recursion_misses: known(losses.recursion_misses),
            ..self.recording
        };
        Report {
            schema: SCHEMA,
            recording,
            at_ns,
            findings: findings::of_memory(&self.processes, recording.lost_anything()),
            processes: self.processes,
        }
    }
}

/// What a report on a process needs beside the ledger: what was asked for, and by whom.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Of whom.
    selection: Selection,
    callers: BTreeMap<u32, Option<String>>,
    requests: AllRequests,
}

impl Watch {
    pub(crate) fn of(selection: Selection) -> Self {
        Self {
            selection,
            ..Self::default()
        }
    }

    pub(crate) fn caller(&mut self, caller: &fact::Caller) {
        self.callers.insert(caller.id, caller.module.clone());
    }

    /// Takes in an event that concerns memory.
    pub(crate) fn event(&mut self, event: &Event) {
        self.requests.event(event);
    }

    /// The process is about to be forgotten.
    pub(crate) fn ended(&mut self, process: &ledger::Process) {
        self.requests.forget(process.key().pid);
    }

    /// The state of a process; `None` for one that had nothing to do with device memory.
    pub(crate) fn process(
        &self,
        process: &ledger::Process,
        limits: &Limits,
        fit: Option<u64>,
        now: u64,
        ended: Option<&'static str>,
    ) -> Option<Process> {
        let ordinals: BTreeSet<Option<i32>> = process
            .devices()
            .keys()
            .copied()
            .chain(process.allocators().keys().copied().map(Some))
            .filter(|ordinal| self.selection.has_device(process.key().pid, *ordinal))
            .collect();
        if ordinals.is_empty() || !self.selection.has_process(process.key().pid) {
            return None;
        }
        let info = process.info();
        Some(Process {
            pid: process.key().pid,
            incarnation: process.key().incarnation,
            exe: info.map(|info| info.exe.clone()),
            title: info.map(|info| info.title.clone()),
            at_ns: now,
            ended,
            late_start: (!process.from_start()).then(|| LateStart {
                unknown_frees: process.counters().unknown_frees,
            }),
            memory_sampled: process.is_memory_sampled(),
            gaps: process.counters().gaps,
            devices: ordinals
                .into_iter()
                .map(|ordinal| self.device(process, limits, ordinal, fit, now))
                .collect(),
        })
    }

    fn device(
        &self,
        process: &ledger::Process,
        limits: &Limits,
        ordinal: Option<i32>,
        fit: Option<u64>,
        now: u64,
    ) -> Device {
        let device = process.devices().get(&ordinal);
        let allocator = ordinal.and_then(|ordinal| process.allocators().get(&ordinal));
        let memory = device.and_then(|device| memory(device, now));
        let requests = ordinal.and_then(|ordinal| self.requests.of(process.key().pid, ordinal));
        let caller = |id| self.callers.get(&id).cloned().flatten();
        Device {
            device: ordinal,
            memory,
            torch: allocator
                .map(|allocator| torch::report(allocator, memory.as_ref(), fit, requests, now)),
            driver: device
                .filter(|_| process.knows_memory())
                .map(|device| driver::report(process, ordinal, device, limits, caller)),
        }
    }
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

fn memory(device: &ledger::Device, now: u64) -> Option<DeviceMemory> {
    let ledger::MemoryReading {
        free,
        total,
        at,
        tid: _,
        held,
    } = device.reading()?;
    let free_then = free.saturating_add(held);
    Some(DeviceMemory {
        free_bytes: free,
        total_bytes: total,
        age_ns: now.saturating_sub(at.timestamp),
        free_now_bytes: free_then.saturating_sub(device.held_bytes()).min(total),
    })
}
