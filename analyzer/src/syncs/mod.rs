//! `syncs`: how long the host waits for the device, and who makes it wait.

mod text;

use serde::Serialize;

use crate::findings::{Family, Finding};
use crate::host::{WaitPattern, WaitSum, Waiting};
use crate::report::Report;

pub use text::write;

/// Version of the JSON (docs/syncs.md).
pub const SCHEMA: &str = "cudasnoop.syncs/1";

/// Waits, and what they mean.
#[derive(Clone, Debug, Serialize)]
pub struct SyncReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Whether the recording ended as it should.
    pub complete: bool,
    /// Whether the recording lost events; `None` where it does not say.
    pub lossy: Option<bool>,
    /// Timestamp of the first row, ns of `CLOCK_MONOTONIC`.
    pub start_ns: Option<u64>,
    /// All waits.
    #[serde(flatten)]
    pub all: WaitSum,
    /// By thread, function and caller, the longest time first.
    pub callers: Vec<Waiting>,
    /// By thread: what came before the waits.
    pub threads: Vec<ThreadWaits>,
    /// What it means.
    pub findings: Vec<Finding>,
}

/// Waits of one thread.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadWaits {
    /// Process id; `None`: all threads beyond the first 1,024.
    pub pid: Option<u32>,
    /// Thread id.
    pub tid: Option<u32>,
    /// From its first launch, copy or wait to the end of its last, ns.
    pub span_ns: u64,
    /// Its waits.
    #[serde(flatten)]
    pub waits: WaitPattern,
}

impl SyncReport {
    /// What a report says of waits.
    pub fn of(report: Report) -> Self {
        let Report {
            recording,
            host,
            mut findings,
            ..
        } = report;
        findings.retain(|finding| finding.family == Family::Sync);
        let threads = host.threads.into_iter();
        let mut threads: Vec<ThreadWaits> = threads
            .filter(|thread| thread.waits.all().waits > 0)
            .map(|thread| ThreadWaits {
                pid: thread.pid,
                tid: thread.tid,
                span_ns: thread.span_ns(),
                waits: thread.waits,
            })
            .collect();
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.waits.all().total_ns));
        let waits = threads.iter().map(|thread| thread.waits.all());
        Self {
            schema: SCHEMA,
            complete: recording.complete,
            lossy: recording.lost.any(),
            start_ns: recording.start_ns,
            all: waits.fold(WaitSum::default(), WaitSum::and),
            callers: host.waits,
            threads,
            findings,
        }
    }
}
