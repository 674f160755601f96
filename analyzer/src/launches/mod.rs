//! `launches`: which kernels and graphs a recording launches, from a [`Report`].

mod text;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::findings::{Family, Finding};
use crate::host::{self, LaunchPace, Source, ThreadPace, WaitSum};
use crate::report::{GraphLaunches, Kernel, Launches, Report};

pub use text::write;

/// Version of the JSON (docs/launches.md).
pub const SCHEMA: &str = "cudasnoop.launches/1";

/// Kernels and graphs by launches.
#[derive(Clone, Debug, Serialize)]
pub struct LaunchReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Whether the recording ended as it should.
    pub complete: bool,
    /// Whether the recording lost launches; `None` where it does not say.
    pub lossy: Option<bool>,
    /// Kernel launches with a row.
    pub launches: u64,
    /// Of them, those that went into a graph while a stream was captured: they ran nothing then.
    pub captured: u64,
    /// Of all, those of kernels without a name.
    pub unnamed: u64,
    /// Graph launches with a row.
    pub graph_launches: u64,
    /// Kernel launches inside them: of graphs whose capture was seen.
    pub in_graphs: u64,
    /// By function.
    pub functions: Vec<Launches>,
    /// By kernel, most launches first.
    pub kernels: Vec<KernelShare>,
    /// By graph, most launches first.
    pub graphs: Vec<GraphLaunches>,
    /// By who made the kernels, most launches first.
    pub sources: Vec<SourceShare>,
    /// By thread, the most calls first.
    pub threads: Vec<ThreadLaunches>,
    /// Timestamp of the first row, ns of `CLOCK_MONOTONIC`.
    pub start_ns: Option<u64>,
    /// What it means.
    pub findings: Vec<Finding>,
}

/// Kernels of one source, as far as name and module tell, and their share of all launches.
#[derive(Clone, Debug, Serialize)]
pub struct SourceShare {
    /// Who made them.
    pub source: Source,
    /// Kernel launches.
    pub launches: u64,
    /// Of them, those that went into a graph.
    pub captured: u64,
    /// Of all kernel launches, 0 to 1.
    pub share: f64,
}

/// Launches of one thread.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadLaunches {
    /// Process id; `None`: all threads beyond the first 1,024.
    pub pid: Option<u32>,
    /// Thread id.
    pub tid: Option<u32>,
    /// Its launches.
    #[serde(flatten)]
    pub pace: LaunchPace,
    /// Its waits after launches, into the stream that was waited for.
    pub waits_after_launches: WaitSum,
}

/// A kernel and its share of all launches.
#[derive(Clone, Debug, Serialize)]
pub struct KernelShare {
    /// Of all kernel launches, 0 to 1.
    pub share: f64,
    /// The kernel.
    #[serde(flatten)]
    pub kernel: Kernel,
}

impl LaunchReport {
    /// What a report says of launches.
    pub fn of(report: Report) -> Self {
        let Report {
            recording,
            launches: functions,
            kernels,
            graph_launches: graphs,
            host,
            mut findings,
            ..
        } = report;
        findings.retain(|finding| finding.family == Family::Launch);
        let launches: u64 = functions.iter().map(|function| function.launches).sum();
        let unnamed = kernels.iter().filter(|kernel| kernel.name.is_none());
        Self {
            schema: SCHEMA,
            complete: recording.complete,
            lossy: recording.lost.any(),
            launches,
            captured: functions.iter().map(|function| function.captured).sum(),
            unnamed: unnamed.map(|kernel| kernel.launches).sum(),
            graph_launches: graphs.iter().map(|graph| graph.launches).sum(),
            in_graphs: graphs
                .iter()
                .map(|graph| graph.kernels.unwrap_or(0).saturating_mul(graph.launches))
                .fold(0, u64::saturating_add),
            sources: sources(&kernels, launches),
            threads: threads(host.threads),
            start_ns: recording.start_ns,
            findings,
            kernels: kernels
                .into_iter()
                .map(|kernel| KernelShare {
                    share: share(kernel.launches, launches),
                    kernel,
                })
                .collect(),
            functions,
            graphs,
        }
    }
}

fn sources(kernels: &[Kernel], launches: u64) -> Vec<SourceShare> {
    let mut sums: BTreeMap<Source, (u64, u64)> = BTreeMap::new();
    for kernel in kernels {
        let source = host::source(kernel.name.as_deref(), kernel.module.as_deref());
        let (all, captured) = sums.entry(source).or_default();
        *all += kernel.launches;
        *captured += kernel.captured;
    }
    let mut sources: Vec<SourceShare> = sums
        .into_iter()
        .map(|(source, (all, captured))| SourceShare {
            source,
            launches: all,
            captured,
            share: share(all, launches),
        })
        .collect();
    sources.sort_by_key(|source| Reverse(source.launches));
    sources
}

/// What threads launched, of all threads.
pub(crate) fn threads(threads: Vec<ThreadPace>) -> Vec<ThreadLaunches> {
    let threads = threads.into_iter();
    threads
        .filter(|thread| thread.launches.launches + thread.launches.graph_launches > 0)
        .map(|thread| ThreadLaunches {
            pid: thread.pid,
            tid: thread.tid,
            pace: thread.launches,
            waits_after_launches: thread
                .waits
                .after_few
                .and(thread.waits.after_many)
                .and(thread.waits.after_graph),
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no 53 bits")]
fn share(part: u64, all: u64) -> f64 {
    if all == 0 {
        0.0
    } else {
        part as f64 / all as f64
    }
}
