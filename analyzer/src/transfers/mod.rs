//! `transfers`: what is copied between host and device, and what it costs the host.

mod text;

use serde::Serialize;

use crate::findings::{Family, Finding};
use crate::host::{SmallCopies, Transfers};
use crate::report::Report;

pub use text::write;

/// Version of the JSON (docs/transfers.md).
pub const SCHEMA: &str = "cudasnoop.transfers/1";

/// Copies, and what they mean.
#[derive(Clone, Debug, Serialize)]
pub struct TransferReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Whether the recording ended as it should.
    pub complete: bool,
    /// Whether the recording lost events; `None` where it does not say.
    pub lossy: Option<bool>,
    /// Timestamp of the first row, ns of `CLOCK_MONOTONIC`.
    pub start_ns: Option<u64>,
    /// Copies, failed ones left out.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
    /// By process, direction, host memory and timing, the most bytes first.
    pub transfers: Vec<Transfers>,
    /// Small copies by thread, the most first.
    pub threads: Vec<ThreadCopies>,
    /// What it means.
    pub findings: Vec<Finding>,
}

/// Small copies of one thread.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadCopies {
    /// Process id; `None`: all threads beyond the first 1,024.
    pub pid: Option<u32>,
    /// Thread id.
    pub tid: Option<u32>,
    /// Its copies.
    #[serde(flatten)]
    pub small_copies: SmallCopies,
}

impl TransferReport {
    /// What a report says of copies.
    pub fn of(report: Report) -> Self {
        let Report {
            recording,
            host,
            mut findings,
            ..
        } = report;
        findings.retain(|finding| finding.family == Family::Transfer);
        let threads = host.threads.into_iter();
        let mut threads: Vec<ThreadCopies> = threads
            .filter(|thread| thread.small_copies.small_copies > 0)
            .map(|thread| ThreadCopies {
                pid: thread.pid,
                tid: thread.tid,
                small_copies: thread.small_copies,
            })
            .collect();
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.small_copies.small_copies));
        let sum = |of: fn(&Transfers) -> u64| {
            let rows = host.transfers.iter().map(of);
            rows.fold(0, u64::saturating_add)
        };
        Self {
            schema: SCHEMA,
            complete: recording.complete,
            lossy: recording.lost.any(),
            start_ns: recording.start_ns,
            copies: sum(|row| row.copies),
            bytes: sum(|row| row.bytes),
            transfers: host.transfers,
            threads,
            findings,
        }
    }
}
