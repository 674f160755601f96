//! The pass over the rows that counts: calls, launches, copies, waits, failures.

use std::collections::BTreeSet;

use agent_common::{ApiId, Effect, Family};
use trace::fact::{Clock, Settings};
use trace::{Cause, End, EventBatch, Fact, Kind};

use super::accounts::Books;
use super::bounds::Bounds;
use super::calls::CallTable;
use super::launches::LaunchTable;
use super::life::ProcessTable;
use super::memory_pass::{HostSides, MemoryPass};
use super::row::Row;
use super::sampled::Windows;
use super::{
    Gap, Hold, Kept, LeftOut, OpenCall, Recording, Report, SCHEMA, Segment, Untraced, Window,
};
use crate::failures;
use crate::findings::{self, Figures};
use crate::host;
use crate::selection::Selection;
use crate::wall_clock;

/// Most calls that did not return. With an overhead budget many are open when their window ends.
const ABANDONED: usize = 65_536;

/// Counts all but the state of memory.
#[derive(Debug)]
pub(super) struct CallPass {
    selection: Selection,
    bounds: Bounds,
    end: u64,
    events: u64,
    complete: bool,
    is_live: bool,
    /// Of the first recording, where there are several.
    settings: Option<Settings>,
    segment: Option<Segment>,
    windows: Windows,
    /// The one nearest to the start.
    clock: Option<Clock>,
    calls: CallTable,
    launches: LaunchTable,
    host: host::Collector,
    failures: failures::Collector,
    processes: ProcessTable,
    books: Books,
    in_flight: Vec<OpenCall>,
    abandoned: Vec<OpenCall>,
    /// Those beyond [`ABANDONED`].
    abandoned_left_out: u64,
    untraced: BTreeSet<Untraced>,
    gaps: Vec<Gap>,
    holds: Vec<Hold>,
}

impl CallPass {
    pub(super) fn new(selection: Selection) -> Self {
        Self {
            selection,
            bounds: Bounds::default(),
            end: 0,
            events: 0,
            complete: false,
            is_live: false,
            settings: None,
            segment: None,
            windows: Windows::default(),
            clock: None,
            calls: CallTable::new(),
            launches: LaunchTable::new(),
            host: host::Collector::new(),
            failures: failures::Collector::default(),
            processes: ProcessTable::default(),
            books: Books::new(),
            in_flight: Vec::new(),
            abandoned: Vec::new(),
            abandoned_left_out: 0,
            untraced: BTreeSet::new(),
            gaps: Vec::new(),
            holds: Vec::new(),
        }
    }

    /// Takes in the next batch, and what [`super::memory_pass::MemoryPass`] found of its copies.
    pub(super) fn batch(&mut self, batch: &EventBatch, hosts: &HostSides) {
        for row in Row::all(batch) {
            self.bounds.begin(&self.selection, row.timestamp());
            self.events += 1;
            self.complete = false;
            self.end = self.end.max(row.end());
            match row.kind() {
                Some(Kind::Fact) => self.fact(&row),
                Some(kind @ (Kind::Call | Kind::Begin | Kind::Abandoned | Kind::InFlight)) => {
                    // A function of a later version has no id.
                    if let Some(id) = row.api() {
                        self.books.row(id, kind);
                        self.call(id, kind, &row, hosts);
                    }
                }
                None => {}
            }
        }
    }

    /// The recording goes on: what comes later was not there when it was read.
    pub(super) fn goes_on(&mut self) {
        self.is_live = true;
    }

    /// The report of all batches, of a recording that ended so.
    pub(super) fn finish(self, memory: MemoryPass, end_of_file: &End) -> Report {
        let Self {
            selection,
            bounds: Bounds { start, from, to },
            end,
            events,
            complete,
            is_live,
            settings,
            segment,
            windows,
            clock,
            calls,
            launches,
            host,
            failures,
            processes,
            books,
            mut in_flight,
            abandoned,
            abandoned_left_out,
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
        left_out.extend(LeftOut::of(
            Kept::AbandonedCalls,
            ABANDONED,
            abandoned_left_out,
        ));
        let (failures, refusals) = failures.finish(|id| launches.kernel_name(id));
        let (launches, kernels, graph_launches) = launches.finish();
        let memory = memory.finish(end);
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
            window: Window::of(selection, from, to),
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

    /// A row about a call.
    fn call(&mut self, id: ApiId, kind: Kind, row: &Row<'_>, hosts: &HostSides) {
        let pid = row.pid();
        let Some(api) = id.api() else { return };
        if !self.selection.has_process(pid) {
            return;
        }
        self.processes.seen(pid);
        let entered = row.timestamp();
        if !self.bounds.is_before_end(entered) {
            return;
        }
        if !self.selection.has_device(pid, row.device()) {
            return;
        }
        match kind {
            // Still going on in the window, whenever it began.
            Kind::InFlight => self.in_flight.push(OpenCall::of(&row.event())),
            Kind::Abandoned if entered >= self.bounds.from => {
                if self.abandoned.len() < ABANDONED {
                    self.abandoned.push(OpenCall::of(&row.event()));
                } else {
                    self.abandoned_left_out += 1;
                }
            }
            Kind::Call if entered >= self.bounds.from => {
                let host = hosts.of(row);
                self.calls.call(id, api.effect, row, host);
                self.failures.call(id, api.effect, row);
                if api.effect == Effect::Launch {
                    let shape = row.dimensions();
                    self.launches.launch(id, row, shape);
                    self.host.launch(row, shape);
                    return;
                }
                self.host.call(id, api, row, host);
                if api.effect == Effect::GraphLaunch {
                    self.launches.graph_launch(row);
                } else if api.family == Family::Graph {
                    self.launches.graph(api.effect, row);
                }
            }
            Kind::Call | Kind::Abandoned | Kind::Begin | Kind::Fact => {}
        }
    }

    fn fact(&mut self, row: &Row<'_>) {
        let Some(fact) = row.text().and_then(Fact::parse) else {
            return;
        };
        let pid = row.pid();
        let now = row.timestamp();
        let in_window = now >= self.bounds.from && self.bounds.is_before_end(now);
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
            Fact::Settings(settings) => {
                self.books.part_began();
                self.launches.recorder_set(&settings);
                self.settings.get_or_insert(settings);
            }
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
            Fact::Caller(caller) => self.host.caller(caller),
            Fact::TorchSampled => self.windows.sample(Family::Torch),
            Fact::MemorySampled => self.windows.sample(Family::Memory),
            Fact::Window(window) => {
                self.windows.add(&window);
                self.launches.sampled();
            }
            Fact::Exec
            | Fact::Vanished
            | Fact::Fork { .. }
            | Fact::Device(_)
            | Fact::Checkpoint { .. } => {}
        }
    }

    fn clock(&mut self, clock: Clock) {
        let start = self.bounds.start.unwrap_or(0);
        let is_nearer =
            |known: Clock| clock.monotonic.abs_diff(start) < known.monotonic.abs_diff(start);
        if self.clock.is_none_or(is_nearer) {
            self.clock = Some(clock);
        }
    }
}
