//! Calls that failed: the first of each kind, what came before it, and what came after.
//!
//! CUDA works asynchronously: the call that returns an error is often not the one that made it, so
//! the launches before it are kept, too.

mod collect;
mod refusals;
mod text;

use serde::Serialize;

use crate::findings::{Family, Finding};
use crate::report::{Recording, Report, Window};

pub(crate) use collect::Collector;
pub(crate) use refusals::OUT_OF_MEMORY;
pub use refusals::Refusals;
pub use text::write;

/// Version of the JSON (docs/errors.md).
pub const SCHEMA: &str = "cudasnoop.errors/1";

/// What failed.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The recording as a whole.
    pub recording: Recording,
    /// What part of it all else is about.
    pub window: Window,
    /// What it means, the most urgent first.
    pub findings: Vec<Finding>,
    /// By process and code, in order of the first one.
    pub failures: Vec<Failure>,
    /// Allocations that found no memory, by process.
    pub refusals: Vec<Refusals>,
}

impl ErrorReport {
    /// What a report says of errors.
    pub fn of(report: Report) -> Self {
        let is_about = |finding: &Finding| match finding.family {
            Family::Error | Family::Oom | Family::Allocator | Family::Recording => true,
            Family::Leak
            | Family::Fragmentation
            | Family::Transfer
            | Family::Sync
            | Family::Launch => false,
        };
        Self {
            schema: SCHEMA,
            recording: report.recording,
            window: report.window,
            findings: report.findings.into_iter().filter(is_about).collect(),
            failures: report.failures,
            refusals: report.refusals,
        }
    }
}

/// All calls of a process that failed with one code.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// Process id.
    pub pid: u32,
    /// `cudaError_t` or `CUresult`: they share their numbers.
    pub code: i32,
    /// Its name in the library of the first call; `None` for one that CUDA's headers lack.
    pub name: Option<&'static str>,
    /// The first one; or, where none is known before, the call by which the program asked for the
    /// code's text.
    pub first: Call,
    /// How many; 0 where none is known: launches are probed at entry alone, and other functions that
    /// return such codes not at all.
    pub calls: u64,
    /// By function, the most first.
    pub by_function: Vec<FunctionFailures>,
    /// The last calls of the process before the first one, in order.
    pub before: Vec<Call>,
    /// Its last launches before that, in order.
    pub launches_before: Vec<Call>,
    /// Calls after the first one whose result is known.
    pub calls_after: u64,
    /// Of them, those that failed, with whatever code.
    pub failed_after: u64,
}

impl Failure {
    /// Whether the first sign of it was that the program asked for the code's text.
    pub fn is_told(&self) -> bool {
        self.first.result.is_none()
    }

    /// Whether every later call failed, too; `None` where there was none.
    pub fn is_sticky(&self) -> Option<bool> {
        (self.calls_after > 0).then_some(self.failed_after == self.calls_after)
    }
}

/// How often calls of one function failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionFailures {
    /// The function.
    pub api: &'static str,
    /// How often.
    pub calls: u64,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Call {
    /// The function.
    pub api: &'static str,
    /// Thread id.
    pub tid: u32,
    /// When it was entered, ns of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// What it returned; `None` where that is not known.
    pub result: Option<i32>,
    /// Bytes that it is about.
    pub size_bytes: Option<u64>,
    /// The kernel that it launched, as the compiler named it; `None` where not known.
    pub kernel: Option<String>,
}
