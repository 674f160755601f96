//! From the rows of one recording to what is compared.

use std::collections::BTreeMap;

use agent_common::{ApiId, Effect, Family, ProbeClass, flags};
use rustc_hash::FxHashMap;
use trace::{EventBatch, Fact, Kind, fact};

use super::blocks::Blocks;
use super::processes::Visible;
use super::slices::Slices;
use super::{Side, Subject};
use crate::hist::Losses;
use crate::histogram::{Histogram, Precision};
use crate::memory;
use crate::report::Windows;
use crate::selection::Selection;
use crate::windows::{InWindows, Span};

pub use crate::hist::COLUMNS;

/// Takes the rows of one of the two recordings.
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
    losses: Losses,
    host: Option<String>,
    version: Option<String>,
    timed: BTreeMap<Subject, Timed>,
    calls: BTreeMap<ApiId, Slices>,
    launched: FxHashMap<(u32, u32), u64>,
    /// From one launch of a thread to its next.
    gaps: InWindows<()>,
    /// Launches, copies and waits.
    hot: InWindows<ApiId>,
    windows: Windows,
    max_overhead: Option<f64>,
    visible: Visible,
    memory: memory::Collector,
}

/// How long something took, each time.
#[derive(Debug)]
pub(super) struct Timed {
    pub(super) histogram: Histogram,
    pub(super) blocks: Blocks,
}

/// What one recording says.
#[derive(Debug)]
pub struct Collected {
    pub(super) side: Side,
    pub(super) timed: BTreeMap<Subject, Timed>,
    pub(super) calls: BTreeMap<ApiId, Slices>,
    pub(super) memory: memory::Report,
    pub(super) visible: Visible,
}

impl Collector {
    /// Of the selected part.
    pub fn new(selection: Selection) -> Self {
        let memory = memory::Collector::new(None, true).select(selection.clone());
        Self {
            selection,
            from: 0,
            to: None,
            start: None,
            end: 0,
            events: 0,
            complete: false,
            losses: Losses::default(),
            host: None,
            version: None,
            timed: BTreeMap::new(),
            calls: BTreeMap::new(),
            launched: FxHashMap::default(),
            gaps: InWindows::default(),
            hot: InWindows::default(),
            windows: Windows::default(),
            max_overhead: None,
            visible: Visible::new(),
            memory,
        }
    }

    /// Takes in the next rows.
    pub fn batch(&mut self, batch: &EventBatch) {
        self.memory.batch(batch);
        for row in 0..batch.len() {
            let entered = batch.ts()[row];
            if self.start.is_none() {
                self.start = Some(entered);
                self.from = self
                    .selection
                    .from
                    .map_or(entered, |from| from.after(entered));
                self.to = self.selection.to.map(|to| to.after(entered));
            }
            self.events += 1;
            self.complete = false;
            if batch.kind().get(row) == Some(Kind::Fact) {
                if let Some(fact) = batch.text().get(row).and_then(Fact::parse) {
                    self.fact(fact);
                }
            } else if let Some(id) = batch.api().get(row) {
                self.call(id, batch, row);
            }
        }
    }

    fn call(&mut self, id: ApiId, batch: &EventBatch, row: usize) {
        let Some(api) = id.api() else { return };
        let (entered, duration) = (batch.ts()[row], batch.duration().get(row));
        let returned = entered.saturating_add(duration.unwrap_or(0));
        self.end = self.end.max(returned);
        let (pid, device) = (batch.pid()[row], batch.device().get(row));
        let is_in_window = entered >= self.from && self.to.is_none_or(|to| entered < to);
        let is_selected = self.selection.has_process(pid) && self.selection.has_device(pid, device);
        let kind = batch.kind().get(row);
        let is_counted = match kind {
            Some(Kind::Call) => true,
            // Its window was over before it returned: it was made in it all the same.
            Some(Kind::Abandoned) => api.class() == ProbeClass::Hot && self.hot.is_sampled(),
            Some(Kind::Begin | Kind::InFlight | Kind::Fact) | None => false,
        };
        if !is_counted || !is_in_window || !is_selected {
            return;
        }
        let call = Span {
            what: id,
            from: entered,
            to: entered,
        };
        if api.class() != ProbeClass::Hot {
            self.called(id, entered - self.from);
        } else if self.hot.add(call).is_some() {
            self.hot(call);
        }
        if kind != Some(Kind::Call) {
            return;
        }
        if let Some(duration) = duration {
            self.took(Subject::Call { api: api.name }, duration);
        }
        let is_captured = batch.flags()[row] & flags::CAPTURED != 0;
        let runs =
            api.effect == Effect::GraphLaunch || api.effect == Effect::Launch && !is_captured;
        if runs && let Some(before) = self.launched.insert((pid, batch.tid()[row]), entered) {
            let gap = Span {
                what: (),
                from: before,
                to: entered,
            };
            if self.gaps.add(gap).is_some() {
                self.gap(gap);
            }
        }
    }

    fn called(&mut self, id: ApiId, offset: u64) {
        self.calls
            .entry(id)
            .or_insert_with(Slices::new)
            .push(offset);
    }

    /// A call that may be sampled: what counts then is the time in windows.
    fn hot(&mut self, call: Span<ApiId>) {
        let offset = if self.hot.is_sampled() {
            self.hot.time_of(call.from)
        } else {
            call.from - self.from
        };
        self.called(call.what, offset);
    }

    fn gap(&mut self, gap: Span<()>) {
        self.took(Subject::LaunchGap, gap.to.saturating_sub(gap.from));
    }

    fn window(&mut self, window: &fact::Window) {
        self.windows.add(window);
        for gap in self.gaps.window(window) {
            self.gap(gap);
        }
        self.hot.sample();
        let until = self.to.map_or(window.until, |to| window.until.min(to));
        let selected = fact::Window {
            since: window.since.max(self.from),
            until,
            ..window.clone()
        };
        if selected.since < until {
            for call in self.hot.window(&selected) {
                self.hot(call);
            }
        }
    }

    fn took(&mut self, subject: Subject, duration: u64) {
        let timed = self.timed.entry(subject).or_insert_with(|| Timed {
            histogram: Histogram::new(Precision::Fine),
            blocks: Blocks::new(),
        });
        timed.histogram.record(duration);
        timed.blocks.push(duration);
    }

    fn fact(&mut self, fact: Fact) {
        match fact {
            Fact::Account(account) => self.losses.account(&account),
            Fact::RecursionMisses { count } => self.losses.missed(count),
            Fact::Unwritten(unwritten) => self.losses.missed(unwritten.events),
            Fact::Settings(settings) => {
                self.losses.began();
                if let Some(share) = settings.max_overhead {
                    self.max_overhead.get_or_insert(share);
                    self.gaps.sample();
                    self.hot.sample();
                }
                self.host.get_or_insert(settings.host);
                self.version.get_or_insert(settings.version);
            }
            Fact::End => {
                self.complete = true;
                self.losses.ended();
            }
            Fact::TorchSampled => self.windows.sample(Family::Torch),
            Fact::MemorySampled => self.windows.sample(Family::Memory),
            Fact::Window(window) => self.window(&window),
            Fact::Process(process) => {
                if let Some(visible) = process.visible_devices {
                    self.visible
                        .insert((process.pid, process.start_time), visible);
                }
            }
            Fact::Fork { .. }
            | Fact::Exec
            | Fact::Exit
            | Fact::Vanished
            | Fact::Module(_)
            | Fact::Device(_)
            | Fact::Kernel(_)
            | Fact::Caller(_)
            | Fact::Clock(_)
            | Fact::Gap(_)
            | Fact::Hold { .. }
            | Fact::Checkpoint { .. }
            | Fact::Segment(_) => {}
        }
    }

    /// What the recording says.
    pub fn finish(self) -> Collected {
        let to = self.to.unwrap_or(self.end);
        Collected {
            side: Side {
                events: self.events,
                host: self.host,
                version: self.version,
                length_ns: to.saturating_sub(self.from),
                complete: self.complete,
                lossy: self.losses.any(),
                sampled: self.windows.finish(self.max_overhead),
                windows_ns: self.hot.time(),
                outside_windows: self.hot.outside(),
            },
            timed: self.timed,
            calls: self.calls,
            memory: self.memory.finish(),
            visible: self.visible,
        }
    }
}
