//! What was read at one moment: of the metrics and the memory report, what is shown.

mod memory;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::serve::{Metric, Page, Reading as Value, Series};

pub(super) use memory::Memory;

/// Name and version of the memory report that is understood.
pub(super) const MEMORY_SCHEMA: &str = analyzer::memory::SCHEMA;

/// The figures of one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    /// The moment, ns of `CLOCK_MONOTONIC`.
    pub(super) at_ns: u64,
    /// Why nothing is traced; `None`: it is.
    pub(super) untraced: Option<String>,
    pub(super) calls: u64,
    pub(super) errors: u64,
    /// Launches that ran; those under capture.
    pub(super) launches: u64,
    pub(super) captured: u64,
    pub(super) graphs: u64,
    pub(super) copied: Copied,
    /// Time that threads waited for devices, s.
    pub(super) waited: f64,
    /// Records that were lost, by cause; those that there were.
    pub(super) lost: BTreeMap<String, u64>,
    /// From 0 to 1.
    pub(super) ring_fill: f64,
    /// Functions with probes, and the library files that they are in.
    pub(super) probes: u64,
    pub(super) libraries: u64,
    pub(super) processes: u64,
    /// Processor time of the agent, s, and its resident memory, bytes.
    pub(super) agent_cpu: f64,
    pub(super) agent_memory: u64,
    /// `None`: probes may cost what they do.
    pub(super) budget: Option<Budget>,
    pub(super) kernels: BTreeMap<String, u64>,
    pub(super) functions: BTreeMap<String, Function>,
    pub(super) by_process: BTreeMap<String, Process>,
    pub(super) devices: Vec<Device>,
    pub(super) holders: Vec<Holder>,
}

/// What probes may cost and do, from 0 to 1 of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Budget {
    pub(super) allowed: f64,
    pub(super) overhead: f64,
    /// The share of time in which launches, copies and waits are traced.
    pub(super) window: f64,
}

/// Bytes that were copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) to_device: u64,
    pub(super) to_host: u64,
    pub(super) on_device: u64,
    /// From host to host, or not known.
    pub(super) other: u64,
}

/// Calls of a function.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Function {
    pub(super) calls: u64,
    pub(super) errors: u64,
    /// Calls whose return was seen, and their time, s.
    pub(super) timed: u64,
    pub(super) seconds: f64,
}

/// Calls of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Process {
    pub(super) calls: u64,
    pub(super) copied: u64,
    /// s.
    pub(super) waited: f64,
}

/// What a process holds on a device; bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    pub(super) pid: u32,
    pub(super) process: String,
    /// Whether the process has ended: this is how it was right before.
    pub(super) has_ended: bool,
    /// As the process counts; `None`: not known which.
    pub(super) ordinal: Option<i32>,
    pub(super) live: Option<u64>,
    pub(super) held: Option<u64>,
    pub(super) waste: Option<u64>,
    pub(super) peak: Option<u64>,
    /// Of the whole device, when the process last asked.
    pub(super) free: Option<u64>,
    /// PyTorch's allocated and reserved.
    pub(super) torch: Option<Torch>,
}

/// Memory of one caller and kind, in a process, on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) key: HolderKey,
    pub(super) count: u64,
    pub(super) bytes: u64,
}

/// Who holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HolderKey {
    pub(super) pid: u32,
    pub(super) device: Option<i32>,
    pub(super) caller: Option<String>,
    pub(super) kind: String,
}

/// PyTorch's totals, bytes.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Torch {
    pub(super) allocated: u64,
    pub(super) reserved: u64,
}

impl Budget {
    fn of(page: &Page) -> Option<Self> {
        let value = |metric| series(page, metric).next().map(number);
        Some(Self {
            allowed: value(Metric::OverheadBudget)?,
            overhead: value(Metric::Overhead)?,
            window: value(Metric::Window)?,
        })
    }
}

impl Reading {
    pub(super) fn new(page: &Page, memory: Memory) -> Self {
        let mut reading = Self {
            at_ns: page.at_ns,
            captured: sum(page, Metric::CapturedLaunches),
            graphs: sum(page, Metric::GraphLaunches),
            ring_fill: series(page, Metric::RingFill).map(number).sum(),
            probes: sum(page, Metric::ProbesAttached),
            libraries: series(page, Metric::ProbesAttached).count() as u64,
            processes: sum(page, Metric::Processes),
            agent_cpu: series(page, Metric::OwnCpu).map(number).sum(),
            agent_memory: sum(page, Metric::OwnMemory),
            budget: Budget::of(page),
            ..Self::default()
        };
        reading.count_calls(page);
        reading.count_copies(page);
        for one in series(page, Metric::SyncTime) {
            let waited = number(one);
            reading.waited += waited;
            reading.process(one).waited += waited;
        }
        for one in series(page, Metric::KernelLaunches) {
            let launches = count(one);
            reading.launches = reading.launches.saturating_add(launches);
            let kernel = label(one, "kernel").to_owned();
            reading.kernels.insert(kernel, launches);
        }
        for one in series(page, Metric::EventsLost) {
            if count(one) > 0 {
                reading
                    .lost
                    .insert(label(one, "cause").to_owned(), count(one));
            }
        }
        let off = series(page, Metric::Tracing).find(|one| count(one) == 0);
        reading.untraced = off.map(|one| label(one, "reason").to_owned());
        for process in memory.processes {
            reading.take_memory(process);
        }
        reading
    }

    /// Whether tracing is yet to begin.
    pub(super) fn is_starting(&self) -> bool {
        self.untraced.as_deref() == Some("starting")
    }

    fn count_calls(&mut self, page: &Page) {
        for one in series(page, Metric::ApiCalls) {
            let calls = count(one);
            let errors = if label(one, "result") == "error" {
                calls
            } else {
                0
            };
            self.calls = self.calls.saturating_add(calls);
            self.errors = self.errors.saturating_add(errors);
            let function = self.function(one);
            function.calls = function.calls.saturating_add(calls);
            function.errors = function.errors.saturating_add(errors);
            let process = self.process(one);
            process.calls = process.calls.saturating_add(calls);
        }
        for one in series(page, Metric::ApiDuration) {
            if let Value::Histogram { sum, count, .. } = one.reading {
                let function = self.function(one);
                function.timed = function.timed.saturating_add(count);
                function.seconds += sum;
            }
        }
    }

    fn count_copies(&mut self, page: &Page) {
        for one in series(page, Metric::CopyBytes) {
            let bytes = count(one);
            let copied = &mut self.copied;
            let direction = match label(one, "direction") {
                "host_to_device" => &mut copied.to_device,
                "device_to_host" => &mut copied.to_host,
                "device_to_device" => &mut copied.on_device,
                _ => &mut copied.other,
            };
            *direction = direction.saturating_add(bytes);
            let process = self.process(one);
            process.copied = process.copied.saturating_add(bytes);
        }
    }

    fn function(&mut self, of: &Series) -> &mut Function {
        self.functions
            .entry(label(of, "api").to_owned())
            .or_default()
    }

    fn process(&mut self, of: &Series) -> &mut Process {
        self.by_process
            .entry(label(of, "process").to_owned())
            .or_default()
    }

    fn take_memory(&mut self, process: memory::Process) {
        let memory::Process {
            pid,
            exe,
            title,
            end,
            devices,
        } = process;
        let process = title.or(exe).unwrap_or_else(|| "?".to_owned());
        let mut holders: BTreeMap<HolderKey, (u64, u64)> = BTreeMap::new();
        for device in devices {
            for holder in device.holders {
                let key = HolderKey {
                    pid,
                    device: device.ordinal,
                    caller: holder.caller,
                    kind: holder.kind,
                };
                let (count, bytes) = holders.entry(key).or_default();
                *count = count.saturating_add(holder.live_count);
                *bytes = bytes.saturating_add(holder.live_bytes);
            }
            self.devices.push(Device {
                pid,
                process: process.clone(),
                has_ended: end.is_some(),
                ordinal: device.ordinal,
                live: device.live_bytes,
                held: device.held_bytes,
                waste: device.waste_bytes,
                peak: device.peak_bytes,
                free: device.free_bytes,
                torch: device.torch,
            });
        }
        if end.is_none() {
            let holders =
                holders
                    .into_iter()
                    .map(|(key, (count, bytes))| Holder { key, count, bytes });
            self.holders.extend(holders);
        }
    }
}

/// Its series; with an overhead budget, the estimates that stand beside it, too.
fn series(page: &Page, metric: Metric) -> impl Iterator<Item = &Series> {
    let families = [Some(metric), metric.estimate()].into_iter().flatten();
    families.flat_map(|metric| {
        let name = metric.full_name();
        let family = page.metrics.iter().find(|family| family.name == name);
        family.into_iter().flat_map(|family| &family.series)
    })
}

fn sum(page: &Page, metric: Metric) -> u64 {
    series(page, metric).map(count).fold(0, u64::saturating_add)
}

fn count(series: &Series) -> u64 {
    match series.reading {
        Value::Count { value } => value,
        // A server that writes 3.0 for 3 says the same.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, which is right for what is no count"
        )]
        Value::Number { value } => value as u64,
        Value::Histogram { count, .. } => count,
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn number(series: &Series) -> f64 {
    match series.reading {
        Value::Count { value } => value as f64,
        Value::Number { value } => value,
        Value::Histogram { sum, .. } => sum,
    }
}

fn label<'a>(series: &'a Series, name: &str) -> &'a str {
    series.labels.get(name).map_or("", String::as_str)
}
