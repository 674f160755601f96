//! Every metric there is. docs/metrics.md lists the same; a test compares them.

/// What a metric's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Type {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Numbers of values up to bounds.
    Histogram,
    /// Always 1: the labels tell.
    Info,
}

impl Type {
    /// As Prometheus calls it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// What a metric's values are measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Unit {
    /// Things.
    None,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// From 0 to 1.
    Ratio,
}

impl Unit {
    /// The end of the name.
    pub(super) const fn name(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Bytes => Some("bytes"),
            Self::Seconds => Some("seconds"),
            Self::Ratio => Some("ratio"),
        }
    }
}

macro_rules! metrics {
    ($($(#[doc = $help:literal])+ $metric:ident: $kind:ident $name:literal $unit:ident [$($label:literal),*];)*) => {
        /// A metric.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Metric {
            $($(#[doc = $help])+ $metric,)*
        }

        impl Metric {
            /// All, in the order in which they are shown.
            pub(in crate::serve) const ALL: &[Self] = &[$(Self::$metric),*];

            /// The name, without unit and what its type adds.
            pub(in crate::serve) const fn name(self) -> &'static str {
                match self {
                    $(Self::$metric => concat!("cudasnoop_", $name),)*
                }
            }

            /// What its values are.
            pub(in crate::serve) const fn kind(self) -> Type {
                match self {
                    $(Self::$metric => Type::$kind,)*
                }
            }

            /// What they are measured in.
            pub(in crate::serve) const fn unit(self) -> Unit {
                match self {
                    $(Self::$metric => Unit::$unit,)*
                }
            }

            /// The names of its labels.
            pub(in crate::serve) const fn labels(self) -> &'static [&'static str] {
                match self {
                    $(Self::$metric => &[$($label),*],)*
                }
            }

            /// What it tells.
            pub(in crate::serve) const fn help(self) -> &'static str {
                match self {
                    $(Self::$metric => concat!($($help),+),)*
                }
            }
        }
    };
}

metrics! {
    /// CUDA calls that were reported. What was lost is in `cudasnoop_events_lost_total`
    ApiCalls: Counter "api_calls" None ["process", "api", "library", "result"];
    /// The same with an overhead budget, for launches, copies, waits and PyTorch's reports: estimates
    ApiCallsEstimated: Counter "api_calls_estimated" None ["process", "api", "library", "result"];
    /// Calls that failed, by error
    ApiErrors: Counter "api_errors" None ["api", "library", "error"];
    /// The same with an overhead budget, for launches, copies and waits: estimates
    ApiErrorsEstimated: Counter "api_errors_estimated" None ["api", "library", "error"];
    /// Time of calls on the host, from entry to return, the cost of the probes included
    ApiDuration: Histogram "api_duration" Seconds ["api", "library"];
    /// The same with an overhead budget, for copies and waits: estimates
    ApiDurationEstimated: Histogram "api_duration_estimated" Seconds ["api", "library"];
    /// Kernels that were launched, by kernel
    KernelLaunches: Counter "kernel_launches" None ["kernel"];
    /// The same with an overhead budget: estimates
    KernelLaunchesEstimated: Counter "kernel_launches_estimated" None ["kernel"];
    /// Launches that went into a graph under capture, and ran nothing
    CapturedLaunches: Counter "captured_launches" None [];
    /// The same with an overhead budget: an estimate
    CapturedLaunchesEstimated: Counter "captured_launches_estimated" None [];
    /// Graphs that were launched
    GraphLaunches: Counter "graph_launches" None ["process"];
    /// Bytes of copies, by what the host memory at one end is
    CopyBytes: Counter "memcpy" Bytes ["process", "direction", "host_memory"];
    /// The same with an overhead budget: estimates
    CopyBytesEstimated: Counter "memcpy_estimated" Bytes ["process", "direction", "host_memory"];
    /// Time that the host waited for the device
    SyncTime: Counter "sync" Seconds ["process"];
    /// The same with an overhead budget: an estimate
    SyncTimeEstimated: Counter "sync_estimated" Seconds ["process"];
    /// Sizes of allocations that succeeded
    AllocationSize: Histogram "memory_allocation_size" Bytes ["kind"];
    /// Time from the allocation of a block to its free
    Lifetime: Histogram "memory_lifetime" Seconds ["kind"];
    /// Allocations that failed
    FailedAllocations: Counter "memory_failed_allocations" None ["process"];
    /// Allocations that succeeded right after one of the same size had failed on the same thread
    RetriedAllocations: Counter "memory_allocation_retries" None ["process"];
    /// Memory that is allocated, by kind
    MemoryLive: Gauge "memory_live" Bytes ["process", "kind", "gpu", "UUID"];
    /// Device pages that device, pool and vmm memory touches
    MemoryHeld: Gauge "memory_held" Bytes ["process", "gpu", "UUID"];
    /// Held memory that nothing live uses
    MemoryWaste: Gauge "memory_waste" Bytes ["process", "gpu", "UUID"];
    /// The most device, pool and vmm memory that was live at a time
    MemoryPeak: Gauge "memory_peak" Bytes ["process", "gpu", "UUID"];
    /// Memory of the device in use when the process last asked, that no allocation of it explains
    MemoryUnattributed: Gauge "memory_unattributed" Bytes ["process", "gpu", "UUID"];
    /// PyTorch: `memory_allocated()`
    TorchAllocated: Gauge "torch_allocated" Bytes ["process", "gpu", "UUID"];
    /// PyTorch: `memory_reserved()`
    TorchReserved: Gauge "torch_reserved" Bytes ["process", "gpu", "UUID"];
    /// PyTorch: the largest free block in its segments
    TorchLargestFree: Gauge "torch_largest_free" Bytes ["process", "gpu", "UUID"];
    /// PyTorch ran out of memory
    TorchOutOfMemory: Counter "torch_out_of_memory" None ["process"];
    /// Events that were received, by family of calls; `fact` for all that are no calls
    Events: Counter "events" None ["family"];
    /// Records that were lost, by cause
    EventsLost: Counter "events_lost" None ["cause"];
    /// How full the ring buffer between kernel and cudasnoop is
    RingFill: Gauge "ring_fill" Ratio [];
    /// Functions with probes, by library file
    ProbesAttached: Gauge "probes_attached" None ["library"];
    /// The share of a thread's time that probes may take (`--max-overhead`)
    OverheadBudget: Gauge "overhead_budget" Ratio [];
    /// The share that they took of the busiest thread's in the last minute: an estimate
    Overhead: Gauge "overhead" Ratio [];
    /// The share of the last minute in which launches, copies and waits were traced
    Window: Gauge "window" Ratio [];
    /// Whether calls of a family come in windows; for `memory`, what is held is not known then
    Sampled: Gauge "sampled" None ["family"];
    /// What one probe costs a call, measured at the start
    ProbeCost: Gauge "probe_cost" Seconds ["probe"];
    /// Processes that are traced
    Processes: Gauge "processes" None [];
    /// Those of them that have not begun to use CUDA, and go without probes until they do
    IdleProcesses: Gauge "idle_processes" None [];
    /// Which pod and container a process is of; absent outside of containers
    ProcessHome: Info "process" None ["process", "pod_uid", "container_id"];
    /// Things that found no series of their own and count as `other`
    SeriesLimited: Counter "series_limited" None ["label"];
    /// Whether the rolling recording is being written
    RecordingWriting: Gauge "recording_writing" None [];
    /// Bytes of the rolling recording on the disk
    RecordingBytes: Gauge "recording" Bytes [];
    /// The most bytes that the rolling recording may have on the disk
    RecordingBudget: Gauge "recording_budget" Bytes [];
    /// Events that are in no segment of the rolling recording
    RecordingUnwritten: Counter "recording_unwritten_events" None ["cause"];
    /// Pushes to an OpenTelemetry collector
    OtlpPushes: Counter "otlp_pushes" None ["result"];
    /// Whether calls are traced; if not, why
    Tracing: Gauge "tracing" None ["reason"];
    /// Processor time of cudasnoop itself
    OwnCpu: Counter "agent_cpu" Seconds [];
    /// Resident memory of cudasnoop itself
    OwnMemory: Gauge "agent_resident_memory" Bytes [];
    /// When cudasnoop started, seconds since 1970
    OwnStart: Gauge "agent_start_time" Seconds [];
    /// Version of cudasnoop
    Build: Info "build" None ["version"];
}

impl Metric {
    /// The metric that tells the same by estimates, where there is an overhead budget.
    #[cfg(feature = "tui")]
    pub(crate) fn estimate(self) -> Option<Self> {
        let is_estimate =
            |metric: &&Self| metric.name().strip_suffix("_estimated") == Some(self.name());
        Self::ALL.iter().find(is_estimate).copied()
    }

    /// The name of its series, as queries have it; a histogram's end in `_bucket`, `_sum`, `_count`.
    pub(crate) fn full_name(self) -> String {
        let unit = self.unit().name().map(|unit| format!("_{unit}"));
        let ending = match self.kind() {
            Type::Counter => "_total",
            Type::Info => "_info",
            Type::Gauge | Type::Histogram => "",
        };
        format!("{}{}{ending}", self.name(), unit.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// The table that docs/metrics.md must have.
    fn table() -> String {
        let mut table =
            String::from("| name | type | unit | labels | meaning |\n|---|---|---|---|---|\n");
        for metric in Metric::ALL {
            let kind = metric.kind().name();
            let labels: Vec<String> = metric
                .labels()
                .iter()
                .map(|label| format!("`{label}`"))
                .collect();
            writeln!(
                table,
                "| `{}` | {kind} | {} | {} | {} |",
                metric.full_name(),
                metric.unit().name().unwrap_or_default(),
                labels.join(", "),
                metric.help().trim()
            )
            .expect("a String takes all");
        }
        table
    }

    #[test]
    fn the_documentation_lists_every_metric() {
        let page = include_str!("../../../../docs/metrics.md");
        let table = table();
        assert!(
            page.contains(&table),
            "docs/metrics.md must have this table:\n{table}"
        );
    }

    #[cfg(feature = "tui")]
    #[test]
    fn each_estimate_is_of_a_metric_with_its_labels() {
        let estimates = |metric: &&Metric| metric.name().ends_with("_estimated");
        let all: Vec<Metric> = Metric::ALL.iter().filter(estimates).copied().collect();
        let of: Vec<(Metric, Metric)> = Metric::ALL
            .iter()
            .filter_map(|metric| Some((*metric, metric.estimate()?)))
            .collect();
        assert_eq!(of.len(), all.len());
        for (metric, estimate) in of {
            assert!(all.contains(&estimate), "{estimate:?}");
            assert_eq!(metric.labels(), estimate.labels());
            assert_eq!(metric.unit(), estimate.unit());
            assert_eq!(metric.kind(), estimate.kind());
        }
    }

    #[test]
    fn names_are_unique_and_do_not_say_their_type_twice() {
        let mut names: Vec<String> = Metric::ALL
            .iter()
            .map(|metric| metric.full_name())
            .collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        for metric in Metric::ALL {
            assert!(!metric.name().ends_with("_total") && !metric.name().ends_with("_info"));
        }
    }
}
