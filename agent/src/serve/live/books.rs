//! All that is counted, and the ledger: one event after the other.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agent_common::{Api, ApiId, Effect, Family, Shape, flags};
use ledger::concerns_memory;
use trace::{Event, Fact, Kind};

use super::{
    calls::{CallBooks, LAYERS},
    devices,
    kernels::Kernels,
    lanes::{Ending, Home, Lanes},
    limits::OTHER,
    memory::MemoryBooks,
    sampled::{Estimates, Sampled, Tally, Weighted, scaled},
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
    /// With an overhead budget.
    sampled: Option<Sampled>,
    /// By family; the last for facts.
    events: [u64; Family::ALL.len() + 1],
    ranked: Instant,
}

impl Books {
    /// `samples`: there is an overhead budget.
    pub(super) fn new(samples: bool) -> Self {
        let estimates = if samples {
            Estimates::Budget
        } else {
            Estimates::None
        };
        Self {
            lanes: Lanes::new(estimates),
            memory: MemoryBooks::new(),
            streams: Streams::default(),
            calls: CallBooks::new(estimates),
            kernels: Kernels::default(),
            events: [0; Family::ALL.len() + 1],
            sampled: samples.then(Sampled::default),
            ranked: Instant::now(),
        }
    }

    /// Another session begins: what was counted stays, what was known of processes goes.
    pub(super) fn begin(&mut self) {
        if let Some(tallies) = self.sampled.as_mut().map(Sampled::begin) {
            self.book_all(tallies);
        }
        self.lanes.end_all();
        self.kernels.forget_all();
        self.memory.begin();
        self.streams.begin();
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
            Some(_) => Ending::Error,
            None => Ending::Unknown,
        };
        if let Some(sampled) = &mut self.sampled
            && sampled.has(api)
        {
            let memory = self.memory.process(event.pid);
            return sampled.add(id, api, event, ending, memory);
        }
        if let Some(code) = result.filter(|code| *code != 0) {
            self.calls.failed(id, api, code, 1);
        }
        self.lanes.call(event.pid, id, api, ending, 1);
        if let (Some(ns), Kind::Call) = (event.duration, event.kind) {
            self.calls.took(id, api, ns);
        }
        let is_captured = event.flags & flags::CAPTURED != 0;
        if api.effect == Effect::Launch && ending != Ending::Error {
            if is_captured {
                self.kernels.captured += 1;
            } else {
                self.kernels.launch(event.pid, event.kernel, 1);
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

    /// Books the calls of windows for what they stand for.
    fn book_all(&mut self, tallies: impl IntoIterator<Item = Weighted>) {
        for (tally, weight) in tallies {
            self.book(tally, weight);
        }
    }

    fn book(&mut self, tally: Tally, weight: f64) {
        let Tally {
            calls,
            errors,
            durations,
            launches,
            captured,
            copies,
            waited,
        } = tally;
        let api = |id: u16| Some((ApiId(id), ApiId(id).api()?));
        for ((pid, id, ending), count) in calls {
            if let Some((id, api)) = api(id) {
                self.lanes.call(pid, id, api, ending, scaled(count, weight));
            }
        }
        for ((id, code), count) in errors {
            if let Some((id, api)) = api(id) {
                self.calls.failed(id, api, code, scaled(count, weight));
            }
        }
        for (id, durations) in durations {
            if let Some((id, api)) = api(id) {
                self.calls.took_all(id, api, &durations, weight);
            }
        }
        for ((pid, kernel), count) in launches {
            self.kernels.launch(pid, kernel, scaled(count, weight));
        }
        self.kernels.captured += scaled(captured, weight);
        for (pid, copies) in copies {
            self.lanes.of(pid).copies.merge(&copies, weight);
        }
        for (pid, ns) in waited {
            let lane = self.lanes.of(pid);
            lane.waited_ns = lane.waited_ns.saturating_add(scaled(ns, weight));
        }
    }

    /// What is estimated from now on.
    const fn estimate(&mut self, estimates: Estimates) {
        self.lanes.estimates = estimates;
        self.calls.estimates = estimates;
    }

    /// A process goes, and with it what its calls belong to.
    fn before_end(&mut self) {
        if let Some(tallies) = self.sampled.as_mut().map(Sampled::all) {
            self.book_all(tallies);
        }
    }

    fn fact(&mut self, event: &Event) {
        self.memory.collector.push(event);
        let Some(fact) = event.text.as_deref().and_then(Fact::parse) else {
            return;
        };
        if matches!(fact, Fact::Fork { .. } | Fact::Exec | Fact::Exit) {
            self.before_end();
        }
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
            Fact::Window(window) => {
                if let Some(tallies) = self.sampled.as_mut().map(|all| all.window(&window)) {
                    self.book_all(tallies);
                }
            }
            Fact::TorchSampled => {
                if let Some(sampled) = &mut self.sampled {
                    sampled.sample_torch();
                }
            }
            Fact::MemorySampled => {
                if let Some(sampled) = &mut self.sampled {
                    sampled.sample_memory();
                    self.memory.sample();
                    self.estimate(Estimates::Memory);
                }
            }
            Fact::Module(_) | Fact::Settings(_) => self.streams.learn(event.pid, fact),
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

    /// Comes by a few times a second.
    pub(super) fn tick(&mut self) {
        self.streams.flush();
        if let Some(late) = self.sampled.as_mut().map(Sampled::late) {
            self.book_all([late]);
        }
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
        let estimates = self.lanes.estimates;
        // Figures of windows never mix with exact ones.
        let of = |is_estimated: bool, exact: Metric, estimated: Metric| {
            if is_estimated { estimated } else { exact }
        };
        let calls_of = |is_estimated| of(is_estimated, Metric::ApiCalls, Metric::ApiCallsEstimated);
        let are_some = estimates.are_some();
        let knows_memory = estimates != Estimates::Memory;
        for lane in self.lanes.iter() {
            let process = || Text::from(&lane.label);
            for (id, ending, count) in lane.calls() {
                if let Some(api) = id.api() {
                    let labels = [api.name, api.layer.name(), ending.name()].map(Text::from);
                    let labels = std::iter::once(process()).chain(labels).collect();
                    samples.count(calls_of(estimates.has(api)), labels, count);
                }
            }
            for (direction, host, bytes) in lane.copies.iter() {
                let labels = vec![process(), direction.into(), host.into()];
                let metric = of(are_some, Metric::CopyBytes, Metric::CopyBytesEstimated);
                samples.count(metric, labels, bytes);
            }
            let mut some = |metric, count: u64| {
                if count > 0 {
                    samples.count(metric, vec![process()], count);
                }
            };
            some(Metric::GraphLaunches, lane.graph_launches);
            if knows_memory {
                some(Metric::FailedAllocations, lane.failed_allocations);
                some(Metric::RetriedAllocations, lane.retried_allocations);
            }
            some(Metric::TorchOutOfMemory, lane.out_of_memory);
            if lane.waited_ns > 0 {
                let seconds = Duration::from_nanos(lane.waited_ns).as_secs_f64();
                let metric = of(are_some, Metric::SyncTime, Metric::SyncTimeEstimated);
                samples.number(metric, vec![process()], seconds);
            }
        }
        self.collect_elsewhere(samples, calls_of);
        for (api, layer, sampled, code, count) in self.calls.errors() {
            let error = code.map_or_else(
                || OTHER.into(),
                |code| {
                    analyzer::cuda_error::name(layer, code)
                        .map_or_else(|| Text::from(code.to_string()), Text::from)
                },
            );
            let labels = vec![api.into(), layer.name().into(), error];
            let metric = of(sampled, Metric::ApiErrors, Metric::ApiErrorsEstimated);
            samples.count(metric, labels, count);
        }
        for (api, layer, sampled, durations) in self.calls.durations() {
            let labels = vec![api.into(), layer.name().into()];
            let metric = of(sampled, Metric::ApiDuration, Metric::ApiDurationEstimated);
            samples.distribution(metric, labels, durations.distribution(1e9));
        }
        for (kernel, launches) in self.kernels.series() {
            let metric = of(
                are_some,
                Metric::KernelLaunches,
                Metric::KernelLaunchesEstimated,
            );
            samples.count(metric, vec![Text::from(&kernel)], launches);
        }
        let captured = of(
            are_some,
            Metric::CapturedLaunches,
            Metric::CapturedLaunchesEstimated,
        );
        samples.count(captured, vec![], self.kernels.captured);
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
        for family in [
            Family::Memory,
            Family::Launch,
            Family::Copy,
            Family::Sync,
            Family::Torch,
        ] {
            let is_sampled = self
                .sampled
                .as_ref()
                .is_some_and(|sampled| sampled.has_family(family));
            samples.count(
                Metric::Sampled,
                vec![family.name().into()],
                is_sampled.into(),
            );
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

    /// Calls without a series of their own.
    fn collect_elsewhere(&self, samples: &mut Samples, metric: impl Fn(bool) -> Metric) {
        for (is_estimated, layers) in [false, true].into_iter().zip(self.lanes.elsewhere) {
            for (layer, calls) in LAYERS.into_iter().zip(layers) {
                for (ending, calls) in Ending::ALL.into_iter().zip(calls) {
                    let labels = [OTHER, OTHER, layer.name(), ending.name()];
                    if calls > 0 {
                        let labels = labels.map(Text::from).to_vec();
                        samples.count(metric(is_estimated), labels, calls);
                    }
                }
            }
        }
    }
}
