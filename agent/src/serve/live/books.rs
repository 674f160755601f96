//! All that is counted, and the ledger: one event after the other.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::{Api, ApiId, Effect, Family, Shape, flags};
use ledger::concerns_memory;
use trace::{Event, Fact, Kind, fact};

use super::{
    calls::{CallBooks, LAYERS},
    devices,
    kernels::Kernels,
    lanes::{Ending, Home, Lanes},
    limits::{LIBRARIES, OTHER},
    memory::MemoryBooks,
    streams::{Opened, Streams},
};
use crate::serve::metrics::{Metric, Samples, Text};

/// How often it is looked which kernels are launched most.
const RANKING: Duration = Duration::from_secs(10);

/// What is counted.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) lanes: Lanes,
    pub(super) memory: MemoryBooks,
    pub(super) streams: Streams,
    calls: CallBooks,
    kernels: Kernels,
    /// By family; the last for facts.
    events: [u64; Family::ALL.len() + 1],
    /// File names with the number of their probes.
    libraries: Vec<(String, u64)>,
    ranked: Instant,
}

impl Books {
    pub(super) fn new() -> Self {
        Self {
            lanes: Lanes::new(),
            memory: MemoryBooks::new(),
            streams: Streams::default(),
            calls: CallBooks::new(),
            kernels: Kernels::default(),
            events: [0; Family::ALL.len() + 1],
            libraries: Vec::new(),
            ranked: Instant::now(),
        }
    }

    /// Another session begins: what was counted stays, what was known of processes goes.
    pub(super) fn begin(&mut self) {
        self.lanes.end_all();
        self.kernels.forget_all();
        self.memory.begin();
        self.streams.begin();
        self.libraries.clear();
    }

    /// Takes in the next event.
    pub(super) fn event(&mut self, event: &Event) {
        self.streams.push(event);
        if event.kind == Kind::Fact {
            self.events[Family::ALL.len()] += 1;
            return self.fact(event);
        }
        let Some((id, api)) = event.api.and_then(|id| Some((id, id.api()?))) else {
            return;
        };
        self.events[api.family as usize] += 1;
        let allocation = if concerns_memory(api.effect) {
            self.memory.apply(api, event)
        } else {
            self.memory.collector.count(event.timestamp);
            super::memory::Allocation::default()
        };
        match event.kind {
            Kind::Call | Kind::Abandoned => self.call(id, api, event),
            // Both are told by another row.
            Kind::Begin | Kind::InFlight | Kind::Fact => return,
        }
        if allocation.failed || allocation.is_retry {
            let lane = self.lanes.of(event.pid);
            lane.failed_allocations += u64::from(allocation.failed);
            lane.retried_allocations += u64::from(allocation.is_retry);
        }
    }

    #[inline]
    fn call(&mut self, id: ApiId, api: &Api, event: &Event) {
        let result = event.result.filter(|_| event.kind == Kind::Call);
        let ending = match result {
            Some(0) => Ending::Success,
            Some(code) => {
                self.calls.failed(id, api.layer, code);
                Ending::Error
            }
            None => Ending::Unknown,
        };
        self.lanes.call(event.pid, id, api.layer as usize, ending);
        if let (Some(ns), Kind::Call) = (event.duration, event.kind) {
            self.calls.took(id, api.layer, ns);
        }
        let is_captured = event.flags & flags::CAPTURED != 0;
        if api.effect == Effect::Launch && ending != Ending::Error {
            if is_captured {
                self.kernels.captured += 1;
            } else {
                self.kernels.launch(event.pid, event.kernel);
            }
        } else if api.effect == Effect::Wait {
            let lane = self.lanes.of(event.pid);
            let waited = event.duration.unwrap_or(0);
            lane.waited_ns = lane.waited_ns.saturating_add(waited);
        } else if api.effect == Effect::Copy && ending == Ending::Success && !is_captured {
            let process = self.memory.process(event.pid);
            self.lanes.of(event.pid).copies.add(event, process);
        } else if api.effect == Effect::GraphLaunch && ending == Ending::Success && !is_captured {
            self.lanes.of(event.pid).graph_launches += 1;
        } else if api.shape == Shape::TorchOutOfMemory {
            self.lanes.of(event.pid).out_of_memory += 1;
        }
    }

    fn fact(&mut self, event: &Event) {
        self.memory.collector.push(event);
        let Some(fact) = event.text.as_deref().and_then(Fact::parse) else {
            return;
        };
        match fact {
            Fact::Process(process) => self.lanes.introduce(&process),
            Fact::Fork { child } => {
                self.kernels.forget(child);
                self.memory.end(child);
                self.lanes.fork(event.pid, child);
            }
            Fact::Exec => {
                self.kernels.forget(event.pid);
                self.memory.end(event.pid);
            }
            Fact::Exit => {
                self.kernels.forget(event.pid);
                self.memory.end(event.pid);
                self.lanes.end(event.pid);
            }
            Fact::Kernel(kernel) => self.kernels.named(event.pid, &kernel),
            Fact::Module(ref module) => {
                self.library(module);
                self.streams.learn(event.pid, fact);
            }
            Fact::Settings(_) => self.streams.learn(event.pid, fact),
            Fact::Device(_)
            | Fact::Caller(_)
            | Fact::Clock(_)
            | Fact::Gap(_)
            | Fact::Hold { .. }
            | Fact::Account(_)
            | Fact::RecursionMisses { .. }
            | Fact::Checkpoint { .. }
            | Fact::Segment(_)
            | Fact::Unwritten(_)
            | Fact::Vanished
            | Fact::End => {}
        }
    }

    fn library(&mut self, module: &fact::Module) {
        let name = module.path.rsplit('/').next().unwrap_or_default();
        let name = super::limits::label(name, super::limits::TITLE);
        let probes = module.probes.len() as u64;
        let known = |libraries: &[(String, u64)], name: &str| {
            libraries.iter().position(|(of, _)| of == name)
        };
        if let Some(index) = known(&self.libraries, &name) {
            self.libraries[index].1 += probes;
        } else if self.libraries.len() < LIBRARIES && name != OTHER {
            self.libraries.push((name, probes));
        } else if let Some(index) = known(&self.libraries, OTHER) {
            self.libraries[index].1 += probes;
        } else {
            self.libraries.push((OTHER.to_owned(), probes));
        }
    }

    /// Comes by a few times a second.
    pub(super) fn tick(&mut self) {
        self.streams.flush();
        if self.ranked.elapsed() >= RANKING {
            self.ranked = Instant::now();
            self.kernels.rank();
        }
    }

    /// A recording of what comes from now on.
    pub(super) fn record(&mut self) -> Opened {
        let names = self.memory.collector.names().chain(self.kernels.facts());
        let names = names.collect();
        let ledger = self.memory.collector.ledger().clone();
        self.streams.open(ledger, names)
    }

    /// The values of all series.
    pub(super) fn collect(&self, samples: &mut Samples) {
        for lane in self.lanes.iter() {
            let process = || Text::from(&lane.label);
            for (id, ending, count) in lane.calls() {
                if let Some(Api { name, layer, .. }) = id.api() {
                    let labels = [(*name).into(), layer.name().into(), ending.name().into()];
                    let labels = std::iter::once(process()).chain(labels).collect();
                    samples.count(Metric::ApiCalls, labels, count);
                }
            }
            for (direction, host, bytes) in lane.copies.iter() {
                let labels = vec![process(), direction.into(), host.into()];
                samples.count(Metric::CopyBytes, labels, bytes);
            }
            let mut some = |metric, count: u64| {
                if count > 0 {
                    samples.count(metric, vec![process()], count);
                }
            };
            some(Metric::GraphLaunches, lane.graph_launches);
            some(Metric::FailedAllocations, lane.failed_allocations);
            some(Metric::RetriedAllocations, lane.retried_allocations);
            some(Metric::TorchOutOfMemory, lane.out_of_memory);
            if lane.waited_ns > 0 {
                let seconds = Duration::from_nanos(lane.waited_ns).as_secs_f64();
                samples.number(Metric::SyncTime, vec![process()], seconds);
            }
        }
        for (layer, calls) in LAYERS.into_iter().zip(self.lanes.elsewhere) {
            for (ending, count) in Ending::ALL.into_iter().zip(calls) {
                if count > 0 {
                    let labels = [OTHER, OTHER, layer.name(), ending.name()];
                    samples.count(Metric::ApiCalls, labels.map(Text::from).to_vec(), count);
                }
            }
        }
        for (api, layer, code, count) in self.calls.errors() {
            let error = code.map_or_else(
                || OTHER.into(),
                |code| {
                    analyzer::cuda_error::name(layer, code)
                        .map_or_else(|| Text::from(code.to_string()), Text::from)
                },
            );
            let labels = vec![api.into(), layer.name().into(), error];
            samples.count(Metric::ApiErrors, labels, count);
        }
        for (api, layer, durations) in self.calls.durations() {
            let labels = vec![api.into(), layer.name().into()];
            samples.distribution(Metric::ApiDuration, labels, durations.distribution(1e9));
        }
        for (kernel, launches) in self.kernels.series() {
            samples.count(Metric::KernelLaunches, vec![Text::from(&kernel)], launches);
        }
        samples.count(Metric::CapturedLaunches, vec![], self.kernels.captured);
        let sizes = self.memory.sizes();
        let sizes = sizes.map(|(kind, sizes)| (Metric::AllocationSize, kind, sizes));
        let lifetimes = self.memory.lifetimes();
        let lifetimes = lifetimes.map(|(kind, lifetimes)| (Metric::Lifetime, kind, lifetimes));
        for (metric, kind, values) in sizes.chain(lifetimes) {
            if values.count > 0 {
                samples.distribution(metric, vec![kind.name().into()], values);
            }
        }
        devices::collect(&self.memory, &self.lanes, samples);
        let families = Family::ALL.map(Family::name).into_iter().chain(["fact"]);
        for (family, count) in families.zip(self.events) {
            samples.count(Metric::Events, vec![family.into()], count);
        }
        for (library, probes) in &self.libraries {
            let labels = vec![library.clone().into()];
            samples.count(Metric::ProbesAttached, labels, *probes);
        }
        samples.count(Metric::Processes, vec![], self.lanes.processes());
        for (label, Home { container, pod_uid }) in self.lanes.homes() {
            let text = |id: &Option<Arc<str>>| id.as_ref().map_or_else(|| "".into(), Text::from);
            let labels = vec![Text::from(label), text(pod_uid), text(container)];
            samples.count(Metric::ProcessHome, labels, 1);
        }
        let limited = [
            ("process", self.lanes.unlabelled),
            ("api", self.lanes.refused() + self.calls.refused()),
            ("kernel", self.kernels.refused),
        ];
        for (label, count) in limited {
            samples.count(Metric::SeriesLimited, vec![label.into()], count);
        }
    }
}
