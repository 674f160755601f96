//! The report. The structs here are the JSON: docs/oom.md describes every key.

use serde::Serialize;

use super::advice::NextStep;
use super::verdict::{Cause, Confidence, Verdict};

/// Name and version of the JSON. The version changes when a key goes or changes its meaning;
/// new keys may come without.
pub const SCHEMA: &str = "cudasnoop.oom/1";

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Every time that memory ran out.
    pub messages: Vec<OutOfMemory>,
}

/// One time that memory ran out. Sizes are bytes; what is not known is null.
#[derive(Clone, Debug, Serialize)]
pub struct OutOfMemory {
    /// Why.
    pub verdict: Verdict,
    /// How sure that is.
    pub confidence: Confidence,
    /// The arithmetic, as a sentence.
    pub because: String,
    /// What to do.
    pub next_step: NextStep,
    /// Where the numbers come from: `message`, `recording`, `snapshot`.
    pub sources: Vec<&'static str>,
    /// The log.
    pub input: Option<String>,
    /// The line of it that the message begins on, from 1.
    pub line: Option<u64>,
    /// The writer of the line, as its prefix names it: `[rank0]`.
    pub writer: Option<String>,
    /// How often the log has this message.
    pub repeats: u64,
    /// Process id, where a recording tells it.
    pub pid: Option<u32>,
    /// When, ns of `CLOCK_MONOTONIC`, where a recording tells it.
    pub at_ns: Option<u64>,
    /// Device ordinal as the process counts.
    pub device: Option<u32>,
    /// What PyTorch asked the device for.
    pub asked: Option<u64>,
    /// What the program asked PyTorch for, rounded as PyTorch rounds.
    pub request: Option<u64>,
    /// By how much the device, or the limit, fell short.
    pub short_by: Option<u64>,
    /// The largest request that would have worked.
    pub would_have_fitted: Option<u64>,
    /// How far off these numbers may be: messages round to two digits.
    pub rounding: u64,
    /// The device's memory.
    pub total: Option<u64>,
    /// Free of it.
    pub free: Option<u64>,
    /// Handed out by PyTorch.
    pub allocated: Option<u64>,
    /// Held by PyTorch.
    pub reserved: Option<u64>,
    /// `reserved - allocated`.
    pub unallocated: Option<u64>,
    /// What the process may hold.
    pub allowed: Option<u64>,
    /// Handed out from private pools: CUDA graphs, or a `MemPool`.
    pub private_pools: Option<u64>,
    /// All that this process holds, PyTorch or not.
    pub this_process: Option<u64>,
    /// Of it not PyTorch's: context, NCCL, libraries.
    pub non_pytorch: Option<u64>,
    /// Other processes on the device.
    pub other_processes: Vec<OtherProcess>,
    /// Free in the pool that serves the request.
    pub free_in_pool: Option<u64>,
    /// The largest free block there.
    pub largest_free: Option<u64>,
    /// Freed, and still waiting for a stream.
    pub pending_free: Option<u64>,
    /// Free inside private pools.
    pub private_unused: Option<u64>,
    /// Whether the same request worked later with nothing freed in between.
    pub retry_worked: Option<bool>,
    /// What held memory that would have made a difference.
    pub causes: Vec<Cause>,
}

/// Another process on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OtherProcess {
    /// Its process id, as NVML counts.
    pub pid: u64,
    /// Its bytes; null: NVML did not tell.
    pub bytes: Option<u64>,
}
