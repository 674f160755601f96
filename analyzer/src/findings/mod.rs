//! What a recording means for a person who has to act: [`Finding`]s.
//!
//! Figures first, judgement after: the collectors of [`crate::report`] and its siblings count,
//! and the files here judge what was counted, one family a file, without seeing a row. A
//! finding is claimed only by numbers that it shows, and says what it cannot know.

mod allocator;
mod error;
mod fragmentation;
mod growing;
mod launch;
mod leak;
mod oom;
mod recording;
mod sync;
mod text;
mod transfer;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Number;

use crate::fragmentation::Process;
use crate::report::Report;

pub(crate) use text::section;

/// What was counted, and is judged here.
#[derive(Clone, Copy, Debug)]
pub struct Figures<'a> {
    /// All that the report shows; its own findings are still missing.
    pub report: &'a Report,
}

/// One family's judgement.
type Find = fn(Figures<'_>) -> Vec<Finding>;

/// The families, in the order in which findings of one severity are told.
const FAMILIES: &[Find] = &[
    error::find,
    oom::find,
    leak::find,
    allocator::find,
    fragmentation::find,
    launch::find,
    sync::find,
    transfer::find,
    recording::find,
];

/// What the figures mean, the most urgent first.
pub fn of(figures: Figures<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = FAMILIES.iter().flat_map(|find| find(figures)).collect();
    if figures.report.recording.sampled.is_some() {
        findings.iter_mut().for_each(Finding::doubt_samples);
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// What the memory of these processes means, the most urgent first.
pub(crate) fn of_memory(processes: &[Process], is_lossy: bool) -> Vec<Finding> {
    let mut findings = fragmentation::of_processes(processes, is_lossy);
    findings.sort_by_key(|finding| finding.severity);
    findings
}

/// What a person is told: a claim, what it rests on, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The kind of finding, as docs/findings.md lists it, and whom it is about: `leak.growth:4711:0`.
    /// The same cause in a later recording of the same process has the same id.
    pub id: String,
    /// What it is about.
    pub family: Family,
    /// How urgent it is.
    pub severity: Severity,
    /// One sentence.
    pub claim: String,
    /// The numbers that the claim rests on. A key ends in its unit: `_bytes`, `_ns`, `_ratio`,
    /// `_per_second`; a count has none.
    pub numbers: BTreeMap<&'static str, Number>,
    /// How sure the claim is.
    pub confidence: Confidence,
    /// Where in the recording it is to be seen.
    pub evidence: Vec<Evidence>,
    /// What the recording cannot tell about it, a sentence each.
    pub unknowns: Vec<String>,
    /// What to do, with the setting by name and why it helps.
    pub next_step: String,
}

impl Finding {
    /// What calls it rests on were traced in windows alone, for the sake of an overhead budget.
    fn doubt_samples(&mut self) {
        match self.family {
            Family::Transfer | Family::Sync | Family::Launch => {}
            Family::Leak
            | Family::Fragmentation
            | Family::Oom
            | Family::Allocator
            | Family::Error
            | Family::Recording => return,
        }
        self.confidence = Confidence::Low;
        self.unknowns.push(
            "Launches, copies and waits were traced in windows alone: the numbers are those of the \
             windows, and what is beside them is not known."
                .to_owned(),
        );
    }
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Memory that grows and does not come back.
    Leak,
    /// Memory that is free and cannot be used.
    Fragmentation,
    /// A request that found no memory.
    Oom,
    /// Copies between host and device.
    Transfer,
    /// Waiting for the device.
    Sync,
    /// Kernel launches.
    Launch,
    /// PyTorch's caching allocator.
    Allocator,
    /// A call that failed.
    Error,
    /// The recording itself.
    Recording,
}

/// How urgent a finding is, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The program failed or is about to.
    Critical,
    /// It loses memory or time that a person can get back.
    Warning,
    /// Worth knowing.
    Info,
}

/// How sure a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The recording is whole where it counts, and the numbers leave no other reading.
    High,
    /// The numbers say so; another reading is possible, and named in the unknowns.
    Medium,
    /// A hint: events were lost, or the recording began late.
    Low,
}

impl Confidence {
    /// The name in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// Where in a recording something is to be seen: the rows that have all that is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// What is to be seen there.
    pub what: String,
    /// The process.
    pub pid: Option<u32>,
    /// The device's ordinal in that process.
    pub device: Option<i32>,
    /// The function.
    pub api: Option<String>,
    /// The file that called.
    pub caller: Option<String>,
    /// From this time on, ns of `CLOCK_MONOTONIC`.
    pub from_ns: Option<u64>,
    /// Up to this time.
    pub to_ns: Option<u64>,
}

/// A number that JSON has; `None` for infinities.
pub(crate) fn decimal(value: f64) -> Option<Number> {
    Number::from_f64(value)
}

impl Evidence {
    /// What is to be seen in the recording as a whole, unless fields are added.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            ..Self::default()
        }
    }
}
