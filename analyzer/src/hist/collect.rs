//! From rows to histograms.

use agent_common::{Api, ApiId, Effect, Family, Shape, flags};
use ledger::{Freed, Ledger, MemoryKind, Origin, concerns_memory};
use rustc_hash::FxHashMap;
use trace::{Event, EventBatch, Fact, Kind};

use super::group::{By, Key, Names, Whose};
use super::quantity::Quantity;
use super::table::Table;
use super::{Recording, Report, SCHEMA};
use crate::report::{GRAPHS, Graph, Graphs, Row, Window, Windows, is_allocation};
use crate::selection::Selection;
use crate::windows::{InWindows, Span};

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
    "size",
    "offset",
    "count",
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
    "kernel",
    "caller",
    "allocated",
    "reserved",
    "device_free",
    "device_total",
    "flags",
    "text",
];

/// Takes the rows of a recording, in order, and makes a [`Report`].
#[derive(Debug)]
pub struct Collector {
    selection: Selection,
    by: Option<By>,
    /// Bounds of the window, ns of `CLOCK_MONOTONIC`; known from the first row on.
    from: u64,
    to: Option<u64>,
    recording: Recording,
    ledger: Ledger,
    names: Names,
    /// When the process that has an id now started.
    starts: FxHashMap<u32, u64>,
    /// When a thread launched last, by process and thread id.
    launched: FxHashMap<(u32, u32), u64>,
    /// From one launch of a thread to its next.
    gaps: InWindows<Whose>,
    windows: Windows,
    max_overhead: Option<f64>,
    graphs: Graphs,
    /// Graphs that are ready to launch, by process id and handle.
    ready: FxHashMap<(u32, u64), Graph>,
    /// Those beyond the limit.
    untold_graphs: u64,
    table: Table,
}

impl Collector {
    /// Of the selected part, and the quantities in `of`, or all where that is empty.
    pub fn new(selection: Selection, by: Option<By>, of: &[Quantity]) -> Self {
        Self {
            selection,
            by,
            from: 0,
            to: None,
            recording: Recording::default(),
            ledger: Ledger::default(),
            names: Names::default(),
            starts: FxHashMap::default(),
            launched: FxHashMap::default(),
            gaps: InWindows::default(),
            windows: Windows::default(),
            max_overhead: None,
            graphs: Graphs::default(),
            ready: FxHashMap::default(),
            untold_graphs: 0,
            table: Table::new(by, of),
        }
    }

    /// Takes in the next rows.
    pub fn batch(&mut self, batch: &EventBatch) {
        for row in Row::all(batch) {
            if self.recording.start_ns.is_none() {
                self.begin(row.timestamp());
            }
            self.recording.events += 1;
            self.recording.complete = false;
            match (row.kind(), row.api()) {
                (Some(Kind::Fact), _) => self.fact(&row.event()),
                (Some(kind), Some(id)) => self.call(id, kind, &row),
                (Some(_) | None, _) => {}
            }
        }
    }

    fn begin(&mut self, start: u64) {
        self.recording.start_ns = Some(start);
        self.from = self.selection.from.map_or(0, |from| from.after(start));
        self.to = self.selection.to.map(|to| to.after(start));
    }

    /// A row about a call.
    fn call(&mut self, id: ApiId, kind: Kind, row: &Row<'_>) {
        let Some(api) = id.api() else { return };
        let (entered, duration, returned) = (row.timestamp(), row.duration(), row.end());
        if concerns_memory(api.effect) && self.is_before_end(returned) {
            self.memory(&row.event());
        }
        if self.is_before_end(returned) {
            let end = self.recording.end_ns.get_or_insert(returned);
            *end = returned.max(*end);
        }
        if kind == Kind::Call && self.is_before_end(entered) {
            self.graph(api, row);
        }
        let (pid, device) = (row.pid(), row.device());
        let is_selected = kind == Kind::Call && self.is_selected(pid, device);
        if !is_selected || !self.is_in_window(entered) {
            return;
        }
        let whose = Whose {
            pid,
            api: Some(id),
            device,
            caller: row.caller(),
            kernel: row.kernel(),
        };
        if let Some(duration) = duration {
            self.count(Quantity::CallNs, whose, duration);
        }
        let failed = row.result().is_some_and(|result| result != 0);
        let size = row.size();
        if is_allocation(api.effect) {
            let quantity = if failed {
                Quantity::FailedAllocationBytes
            } else {
                Quantity::AllocationBytes
            };
            if let Some(size) = size {
                self.count(quantity, whose, size);
            }
        } else if api.effect == Effect::TorchReport && api.shape == Shape::TorchReport {
            if let Some(size) = row.signed_size().filter(|size| *size > 0) {
                self.count(Quantity::TorchBlockBytes, whose, size.cast_unsigned());
            }
        } else if api.effect == Effect::Copy && !failed {
            if let Some(size) = size {
                self.count(Quantity::CopyBytes, whose, size);
                // Of the others the host waits for the submission alone.
                if let Some(rate) = rate(size, duration)
                    && !api.name.contains("Async")
                {
                    self.count(Quantity::CopyRate, whose, rate);
                }
            }
        } else if api.effect == Effect::Launch {
            if let Some(shape) = row.dimensions() {
                let (blocks, threads) = (volume(shape.grid), volume(shape.block));
                self.count(Quantity::GridBlocks, whose, blocks);
                self.count(Quantity::BlockThreads, whose, threads);
                let all = blocks.saturating_mul(threads);
                self.count(Quantity::LaunchThreads, whose, all);
            }
            if row.flags() & flags::CAPTURED == 0 {
                self.launched(whose, row.tid(), entered);
            }
        } else if api.effect == Effect::GraphLaunch {
            if let Some(duration) = duration {
                self.count(Quantity::GraphLaunchNs, whose, duration);
            }
            let graph = row
                .handle()
                .and_then(|handle| self.ready.get(&(pid, handle)));
            if let Some(kernels) = graph.and_then(|graph| graph.kernels) {
                self.count(Quantity::GraphLaunchKernels, whose, kernels);
            }
            self.launched(whose, row.tid(), entered);
        }
    }

    /// What a call tells of a graph before it is launched.
    fn graph(&mut self, api: &Api, row: &Row<'_>) {
        if api.effect == Effect::Launch && row.flags() & flags::CAPTURED != 0 {
            self.graphs.captured(row.pid(), row.tid());
        } else if api.family == Family::Graph
            && let Some(mut graph) = self.graphs.call(api.effect, row)
            && let Some(handle) = row.handle()
        {
            graph.kernels = graph.kernels.filter(|_| self.graphs.have_all_launches());
            let key = (row.pid(), handle);
            if self.ready.len() < GRAPHS || self.ready.contains_key(&key) {
                self.ready.insert(key, graph);
            } else {
                self.untold_graphs += 1;
            }
        }
    }

    /// A launch that runs something.
    fn launched(&mut self, whose: Whose, tid: u32, entered: u64) {
        if let Some(before) = self.launched.insert((whose.pid, tid), entered) {
            let gap = Span {
                what: whose,
                from: before,
                to: entered,
            };
            if let Some(gap) = self.gaps.add(gap) {
                self.gap(gap);
            }
        }
    }

    fn gap(&mut self, gap: Span<Whose>) {
        let length = gap.to.saturating_sub(gap.from);
        self.count(Quantity::LaunchGapNs, gap.what, length);
    }

    /// A row that concerns memory.
    fn memory(&mut self, event: &Event) {
        self.torch_lifetime(event);
        self.ledger.apply(event);
        if !self.is_in_window(event.timestamp) {
            return;
        }
        let Some(process) = self.ledger.process(event.pid) else {
            return;
        };
        for freed in process.just_freed().to_vec() {
            let Freed { origin, device } = freed;
            if self.is_selected(event.pid, device) {
                let lifetime = event.timestamp.saturating_sub(origin.returned);
                let whose = taker(event.pid, device, &origin);
                self.count(Quantity::LifetimeNs, whose, lifetime);
            }
        }
    }

    /// PyTorch reports that it frees a block.
    fn torch_lifetime(&mut self, event: &Event) {
        let is_free = event.size.is_some_and(|size| size < 0);
        let (Some(address), Some(device), true) = (event.address, event.device, is_free) else {
            return;
        };
        let is_report = event.api.and_then(ApiId::api).map(|api| api.shape);
        if is_report != Some(Shape::TorchReport) || !self.is_in_window(event.timestamp) {
            return;
        }
        let process = self.ledger.process(event.pid);
        let allocator = process.and_then(|process| process.allocators().get(&device));
        let block = allocator.and_then(|allocator| allocator.active().get(address));
        if let Some(born) = block.map(|block| block.at.timestamp)
            && self.is_selected(event.pid, Some(device))
        {
            let whose = Whose {
                pid: event.pid,
                api: event.api,
                device: Some(device),
                caller: None,
                kernel: None,
            };
            let lifetime = event.timestamp.saturating_sub(born);
            self.count(Quantity::TorchLifetimeNs, whose, lifetime);
        }
    }

    fn fact(&mut self, event: &Event) {
        let Some(fact) = event.text.as_deref().and_then(Fact::parse) else {
            return;
        };
        if self.is_before_end(event.timestamp) {
            if self.is_in_window(event.timestamp)
                && let Some(process) = self.ledger.about_to_end(event)
            {
                let ages = ages(process, event.timestamp);
                self.count_ages(ages);
            }
            self.ledger.apply(event);
        }
        match fact {
            Fact::Process(process) => {
                self.starts.insert(process.pid, process.start_time);
                let identity = (process.pid, process.start_time);
                self.names.titles.insert(identity, process.title);
            }
            Fact::Kernel(kernel) => self.names.kernel(kernel),
            Fact::Caller(caller) => {
                self.names.callers.insert(caller.id, caller.module);
            }
            Fact::Device(device) => {
                if let Some(uuid) = device.uuid {
                    let place = (device.pid, device.ordinal);
                    self.names.uuids.insert(place, uuid);
                }
            }
            Fact::Account(account) => self.recording.losses.account(&account),
            Fact::RecursionMisses { count } => self.recording.losses.missed(count),
            Fact::Unwritten(unwritten) => self.recording.losses.missed(unwritten.events),
            Fact::Settings(settings) => {
                self.recording.losses.began();
                self.graphs.recorder_set(&settings);
                if let Some(share) = settings.max_overhead {
                    self.max_overhead.get_or_insert(share);
                    self.gaps.sample();
                }
            }
            Fact::TorchSampled => self.windows.sample(Family::Torch),
            Fact::MemorySampled => self.windows.sample(Family::Memory),
            Fact::Window(window) => {
                self.windows.add(&window);
                self.graphs.sampled();
                for gap in self.gaps.window(&window) {
                    self.gap(gap);
                }
            }
            Fact::End => {
                self.recording.complete = true;
                self.recording.losses.ended();
            }
            Fact::Fork { .. }
            | Fact::Exec
            | Fact::Exit
            | Fact::Vanished
            | Fact::Module(_)
            | Fact::Clock(_)
            | Fact::Gap(_)
            | Fact::Hold { .. }
            | Fact::Checkpoint { .. }
            | Fact::Segment(_) => {}
        }
    }

    /// The report on all rows taken in.
    pub fn finish(mut self) -> Report {
        let end = self.to.or(self.recording.end_ns);
        if let Some(now) = end {
            let ages: Vec<_> = self
                .ledger
                .live()
                .flat_map(|process| ages(process, now))
                .collect();
            self.count_ages(ages);
        }
        let Self {
            selection,
            by,
            from,
            to,
            mut recording,
            names,
            table,
            gaps,
            windows,
            max_overhead,
            graphs,
            untold_graphs,
            ..
        } = self;
        recording.sampled = windows.finish(max_overhead);
        recording.launch_gaps_left_out = gaps.outside();
        recording.left_out = graphs.left_out(untold_graphs).into_iter().collect();
        let histograms = table.finish(&names, recording.sampled.as_ref());
        Report {
            schema: SCHEMA,
            recording,
            window: Window::of(selection, from, to),
            by,
            histograms,
        }
    }

    fn count_ages(&mut self, ages: Vec<(Quantity, Whose, u64)>) {
        for (quantity, whose, age) in ages {
            if self.is_selected(whose.pid, whose.device) {
                self.count(quantity, whose, age);
            }
        }
    }

    fn count(&mut self, quantity: Quantity, whose: Whose, value: u64) {
        let by = match (self.by, quantity) {
            // All functions together tell nothing.
            (None, Quantity::CallNs) => Some(By::Api),
            (by, _) => by,
        };
        let key = match by {
            None => Key::All,
            Some(By::Api) => Key::Api(whose.api.map(|ApiId(id)| id)),
            Some(By::Process) => Key::Process(whose.pid, self.starts.get(&whose.pid).copied()),
            Some(By::Device) => Key::Device(whose.pid, whose.device),
            Some(By::Caller) => Key::Caller(whose.caller),
            Some(By::Kernel) if quantity.is_of_kernel() && !whose.is_graph() => {
                Key::Kernel(whose.kernel)
            }
            Some(By::Kernel) => return,
        };
        self.table.count(quantity, key, value);
    }

    fn is_selected(&self, pid: u32, device: Option<i32>) -> bool {
        self.selection.has_process(pid) && self.selection.has_device(pid, device)
    }

    fn is_in_window(&self, moment: u64) -> bool {
        moment >= self.from && self.is_before_end(moment)
    }

    fn is_before_end(&self, moment: u64) -> bool {
        self.to.is_none_or(|to| moment < to)
    }
}

/// Who took memory.
fn taker(pid: u32, device: Option<i32>, origin: &Origin) -> Whose {
    Whose {
        pid,
        api: Some(origin.api),
        device,
        caller: origin.caller,
        kernel: None,
    }
}

/// How long what a process holds has been live at `now`. What is another process's is not held.
fn ages(process: &ledger::Process, now: u64) -> Vec<(Quantity, Whose, u64)> {
    let pid = process.key().pid;
    let held = |origin: &Origin, device| {
        let age = now.saturating_sub(origin.returned);
        (Quantity::LiveAgeNs, taker(pid, device, origin), age)
    };
    let blocks = process.blocks().iter();
    let own = blocks.filter(|block| block.kind() != MemoryKind::Ipc);
    let mut ages: Vec<_> = own
        .map(|block| held(&block.origin, block.device()))
        .collect();
    ages.extend(
        process
            .arrays()
            .map(|array| held(&array.origin, array.device())),
    );
    let physical = process.vmm().physical();
    let own =
        physical.filter(|physical| physical.kind().is_some_and(|kind| kind != MemoryKind::Ipc));
    ages.extend(own.map(|physical| held(&physical.origin, physical.device())));
    for (&device, allocator) in process.allocators() {
        let blocks = allocator.active().iter();
        ages.extend(blocks.map(|block| {
            let whose = Whose {
                pid,
                api: ApiId::by_name(TORCH_REPORT),
                device: Some(device),
                caller: None,
                kernel: None,
            };
            let age = now.saturating_sub(block.at.timestamp);
            (Quantity::TorchLiveAgeNs, whose, age)
        }));
    }
    ages
}

/// By which PyTorch tells of its blocks.
const TORCH_REPORT: &str = "c10::reportMemoryUsageToProfiler";

/// Bytes a second; `None` where there is nothing to divide.
fn rate(bytes: u64, duration: Option<u64>) -> Option<u64> {
    let duration = duration.filter(|duration| *duration > 0 && bytes > 0)?;
    let rate = u128::from(bytes) * 1_000_000_000 / u128::from(duration);
    Some(u64::try_from(rate).unwrap_or(u64::MAX))
}

fn volume([x, y, z]: [u32; 3]) -> u64 {
    (u64::from(x) * u64::from(y)).saturating_mul(u64::from(z))
}
