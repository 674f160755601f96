//! One pass over the rows of a recording.

use std::collections::BTreeSet;

use agent_common::{ApiId, Effect, Family};
use ledger::{HostMemory, concerns_memory};
use trace::fact::{Clock, Settings};
use trace::{Cause, End, EventBatch, Fact, Kind};

use super::accounts::Books;
use super::calls::CallTable;
use super::launches::LaunchTable;
use super::life::ProcessTable;
use super::memory::MemoryBooks;
use super::row::Row;
use super::sampled::Windows;
use super::{Gap, Hold, OpenCall, Recording, Report, SCHEMA, Segment, Untraced, Window};
use crate::failures;
use crate::findings::{self, Figures};
use crate::host;
use crate::selection::Selection;
use crate::wall_clock;

/// The columns that a [`Collector`] reads, for [`trace::Reader::select`].
pub const COLUMNS: &[&str] = &[
    "duration",
    "api",
    "parent",
    "result",
    "device",
    "location",
    "location_id",
    "address",
    "source",
    "size",
    "offset",
    "copy_kind",
    "stream",
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "handle",
    "related",
    "option",
    "count",
    "device_free",
    "device_total",
    "flags",
    "kernel",
    "caller",
    "allocated",
    "reserved",
    "text",
];

/// `cudaMemcpyKind` (`driver_types.h`).
const HOST_TO_DEVICE: u8 = 1;
const DEVICE_TO_HOST: u8 = 2;

/// Makes a [`Report`]: batches go in by [`Collector::batch`], in the order of
/// the recording.
#[derive(Debug)]
pub struct Collector {
    selection: Selection,
    /// Bounds of the window, ns of `CLOCK_MONOTONIC`; known from the first row on.
    from: u64,
    to: Option<u64>,
    start: Option<u64>,
    end: u64,
    events: u64,
    complete: bool,
    is_live: bool,
    /// Of the first recording, where there are several.
    settings: Option<Settings>,
    /// Whether one of them does not have the calls that concern memory.
    is_without_memory: bool,
    segment: Option<Segment>,
    windows: Windows,
    /// The one nearest to the start.
    clock: Option<Clock>,
    calls: CallTable,
    launches: LaunchTable,
    host: host::Collector,
    memory: MemoryBooks,
    failures: failures::Collector,
    processes: ProcessTable,
    books: Books,
    in_flight: Vec<OpenCall>,
    abandoned: Vec<OpenCall>,
    untraced: BTreeSet<Untraced>,
    gaps: Vec<Gap>,
    holds: Vec<Hold>,
}

impl Collector {
    /// A report about the selected part of a recording.
    pub fn new(selection: Selection) -> Self {
        Self {
            selection,
            from: 0,
            to: None,
            start: None,
            end: 0,
            events: 0,
            complete: false,
            is_live: false,
            settings: None,
            is_without_memory: false,
            segment: None,
            windows: Windows::default(),
            clock: None,
            calls: CallTable::new(),
            launches: LaunchTable::new(),
            host: host::Collector::new(),
            memory: MemoryBooks::default(),
            failures: failures::Collector::default(),
            processes: ProcessTable::default(),
            books: Books::new(),
            in_flight: Vec::new(),
            abandoned: Vec::new(),
            untraced: BTreeSet::new(),
            gaps: Vec::new(),
            holds: Vec::new(),
        }
    }

    /// Takes in the next batch.
    pub fn batch(&mut self, batch: &EventBatch) {
        for row in Row::all(batch) {
            if self.start.is_none() {
                self.begin(row.timestamp());
            }
            self.events += 1;
            self.complete = false;
            self.end = self.end.max(row.end());
            match row.kind() {
                Some(Kind::Fact) => self.fact(row),
                Some(kind @ (Kind::Call | Kind::Begin | Kind::Abandoned | Kind::InFlight)) => {
                    // A function of a later version has no id.
                    if let Some(id) = row.api() {
                        self.books.row(id, kind);
                        self.call(id, kind, row);
                    }
                }
                None => {}
            }
        }
    }

    /// The recording goes on: what comes later was not there when it was read.
    pub fn goes_on(&mut self) {
        self.is_live = true;
    }

    /// The report of all batches, of a recording that ended so.
    pub fn finish(self, end_of_file: &End) -> Report {
        let Self {
            selection,
            from,
            to,
            start,
            end,
            events,
            complete,
            is_live,
            settings,
            is_without_memory: _,
            segment,
            windows,
            clock,
            calls,
            launches,
            host,
            memory,
            failures,
            processes,
            books,
            mut in_flight,
            abandoned,
            untraced,
            gaps,
            holds,
        } = self;
        in_flight.sort_by_key(|call| call.entered_ns);
        let (truncated, is_whole) = match end_of_file {
            End::Complete => (false, true),
            // All is there but the end marker, of which nothing but other tools have need.
            End::Truncated {
                cause: Cause::NoEndMarker,
                ..
            } => (true, true),
            End::Truncated {
                cause: Cause::Torn | Cause::Damaged(_),
                ..
            } => (true, false),
        };
        let complete = complete && is_whole && !is_live;
        let sampled = windows.finish(settings.as_ref().and_then(|settings| settings.max_overhead));
        let (lost, accounts) = books.finish(complete);
        let (calls, allocations, copies, waits) = calls.finish();
        let mut left_out = launches.left_out();
        left_out.extend(failures.left_out());
        let (failures, refusals) = failures.finish(|id| launches.kernel_name(id));
        let (launches, kernels, graph_launches) = launches.finish(sampled.is_some());
        let memory = memory.finish(&selection, to.map_or(end, |to| to.min(end)));
        left_out.extend(memory.left_out);
        left_out.sort_by_key(|left_out| left_out.what);
        let processes = processes.finish(&memory.doubts);
        let mut report = Report {
            schema: SCHEMA,
            findings: Vec::new(),
            recording: Recording {
                events,
                lost,
                complete,
                live: is_live,
                truncated,
                duration_ns: start.map(|start| end.saturating_sub(start)),
                start_ns: start,
                started: start
                    .zip(clock)
                    .and_then(|(start, clock)| wall_clock::utc(start, &clock)),
                settings,
                segment,
                sampled,
                left_out,
            },
            window: Window {
                from_ns: selection.from.map(|_| from),
                to_ns: to,
                pids: selection.pids,
                devices: selection.devices,
                device_uuids: selection.device_uuids,
            },
            calls,
            memory: memory.memory,
            growth: memory.growth,
            sleeps: memory.sleeps,
            failures,
            refusals,
            out_of_memory: memory.out_of_memory,
            allocations,
            launches,
            kernels,
            graph_launches,
            copies,
            waits,
            processes,
            in_flight,
            abandoned,
            accounts,
            untraced: untraced.into_iter().collect(),
            gaps,
            holds,
            host: host.finish(),
            fragmentation: memory.fragmentation,
        };
        report.findings = findings::of(Figures { report: &report });
        report
    }

    fn begin(&mut self, timestamp: u64) {
        self.start = Some(timestamp);
        self.from = self.selection.from.map_or(0, |from| from.after(timestamp));
        self.to = self.selection.to.map(|to| to.after(timestamp));
        // A segment repeats facts from long before.
        self.memory = MemoryBooks::new(self.from.max(timestamp), &self.selection);
    }

    /// A row about a call.
    fn call(&mut self, id: ApiId, kind: Kind, row: Row<'_>) {
        let pid = row.pid();
        let Some(api) = id.api() else { return };
        // Memory is a state: it has a history before the window, and a value at its end. What
        // one process shows, another one opens: all processes count.
        if concerns_memory(api.effect) && self.is_before_end(row.end()) {
            self.memory.apply(&row.event(), row.end());
        }
        if !self.selection.has_process(pid) {
            return;
        }
        self.processes.seen(pid);
        let entered = row.timestamp();
        if !self.is_before_end(entered) {
            return;
        }
        if !self.selection.has_device(pid, row.device()) {
            return;
        }
        match kind {
            // Still going on in the window, whenever it began.
            Kind::InFlight => self.in_flight.push(OpenCall::of(&row.event())),
            Kind::Abandoned if entered >= self.from => {
                self.abandoned.push(OpenCall::of(&row.event()));
            }
            Kind::Call if entered >= self.from => {
                let host = (api.effect == Effect::Copy).then(|| self.host_side(row));
                self.calls.call(id, api.effect, row, host.flatten());
                self.host.call(id, api, row, host.flatten());
                self.failures.call(id, api.effect, row);
                if api.effect == Effect::Launch {
                    self.launches.launch(id, row);
                } else if api.effect == Effect::GraphLaunch {
                    self.launches.graph_launch(row);
                } else if api.family == Family::Graph {
                    self.launches.graph(api.effect, row);
                }
            }
            Kind::Call | Kind::Abandoned | Kind::Begin | Kind::Fact => {}
        }
    }

    fn fact(&mut self, row: Row<'_>) {
        let Some(fact) = row.text().and_then(Fact::parse) else {
            return;
        };
        let pid = row.pid();
        let now = row.timestamp();
        let in_window = now >= self.from && self.is_before_end(now);
        let concerns_memory = matches!(
            fact,
            Fact::Process(_)
                | Fact::Fork { .. }
                | Fact::Exec
                | Fact::Exit
                | Fact::Vanished
                | Fact::Gap(_)
                | Fact::TorchSampled
                | Fact::Checkpoint { .. }
        );
        if concerns_memory && self.is_before_end(now) {
            self.memory.apply(&row.event(), now);
        }
        match fact {
            Fact::Process(process) => {
                if self.selection.has_process(process.pid) {
                    self.processes.told(process);
                }
            }
            Fact::Exit => {
                if self.selection.has_process(pid) {
                    self.processes.ended(pid, now);
                    self.failures.ended(pid);
                }
            }
            Fact::Kernel(kernel) => self.launches.kernel_named(kernel),
            Fact::Clock(clock) => self.clock(clock),
            Fact::Gap(gap) => {
                if in_window && self.selection.has_process(gap.pid) {
                    self.gaps.push(Gap::of(gap, now));
                }
            }
            Fact::Hold { duration } => {
                if in_window && self.selection.has_process(pid) {
                    self.holds.push(Hold::of(duration, pid, now));
                }
            }
            Fact::Settings(settings) => self.set(settings),
            Fact::Account(account) => self.books.account(account),
            Fact::RecursionMisses { count } => self.books.recursion_misses(count),
            Fact::End => {
                self.complete = true;
                self.books.part_ended();
            }
            Fact::Module(module) => self.untraced.extend(Untraced::in_module(module)),
            Fact::Segment(segment) => {
                let last = segment.number;
                self.segment.get_or_insert(Segment::of(&segment)).last = last;
            }
            Fact::Unwritten(unwritten) => self.books.unwritten(&unwritten),
            Fact::Caller(caller) => {
                self.memory.caller(caller.clone());
                self.host.caller(caller);
            }
            Fact::Window(window) => self.windows.add(&window),
            Fact::Exec
            | Fact::Vanished
            | Fact::Fork { .. }
            | Fact::Device(_)
            | Fact::TorchSampled
            | Fact::Checkpoint { .. } => {}
        }
    }

    /// How a recorder was set.
    fn set(&mut self, settings: Settings) {
        self.books.part_began();
        self.is_without_memory |= !settings.events.iter().any(|name| name == "memory");
        self.settings.get_or_insert(settings);
    }

    fn is_before_end(&self, moment: u64) -> bool {
        self.to.is_none_or(|to| moment < to)
    }

    /// What the host's side of a copy is; `None` where it has none, or that is not known.
    fn host_side(&self, row: Row<'_>) -> Option<HostMemory> {
        let address = match row.copy_kind() {
            Some(HOST_TO_DEVICE) => row.source(),
            Some(DEVICE_TO_HOST) => row.address(),
            Some(_) | None => return None,
        };
        if self.settings.is_none() || self.is_without_memory {
            return Some(HostMemory::Unknown);
        }
        let size = row.size().unwrap_or(1);
        Some(self.memory.host_memory(row.pid(), address, size))
    }

    fn clock(&mut self, clock: Clock) {
        let start = self.start.unwrap_or(0);
        let is_nearer =
            |known: Clock| clock.monotonic.abs_diff(start) < known.monotonic.abs_diff(start);
        if self.clock.is_none_or(is_nearer) {
            self.clock = Some(clock);
        }
    }
}
