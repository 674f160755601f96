//! `diff`: what two recordings differ in, and what is only noise.
//!
//! The structs here are the JSON: docs/diff.md describes every key.

mod blocks;
mod collect;
mod memory;
mod processes;
mod significance;
mod slices;
mod text;

use std::collections::BTreeSet;

use agent_common::{Api, ApiId, Effect, ProbeClass};
use serde::Serialize;

use crate::report::{Durations, Sampled};
use significance::{adjust, difference, mean, rank_test};
use slices::Slices;

pub use collect::{COLUMNS, Collected, Collector};
pub use processes::ProcessChange;
pub use text::write as write_text;

/// Name and version of the JSON. The version changes when a key goes or changes its meaning;
/// new keys may come without.
pub const SCHEMA: &str = "cudasnoop.diff/1";

/// A difference is claimed where it would be seen by chance in fewer than one of so many reports.
const ONE_IN: f64 = 100.0;

/// A launch, for what is said of launches.
const LAUNCH: &str = "cudaLaunchKernel";

/// The least that is claimed, as a ratio: smaller differences have causes that nobody looks for.
const LEAST_DURATION: f64 = 1.05;
const LEAST_RATE: f64 = 1.10;

/// What differs.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The first recording.
    pub a: Side,
    /// The second one.
    pub b: Side,
    /// Differences that were tested for significance.
    pub tests: usize,
    /// Memory: totals, then by kind and holder.
    pub memory: Vec<MemoryChange>,
    /// The same of each process, where one of the recordings has several.
    pub processes: Vec<ProcessChange>,
    /// Durations, those that differ most first.
    pub durations: Vec<DurationChange>,
    /// Calls a second, those that differ most first.
    pub rates: Vec<RateChange>,
}

/// One of the two recordings.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Rows of all kinds.
    pub events: u64,
    /// Host that it was made on.
    pub host: Option<String>,
    /// The version of cudasnoop that made it.
    pub version: Option<String>,
    /// Of what was selected: to the last return, where `--to` is not given.
    pub length_ns: u64,
    /// Whether it ended as it should.
    pub complete: bool,
    /// Whether it lost events; `None`: it does not say.
    pub lossy: Option<bool>,
    /// Families that were traced in windows alone; `None`: all was traced all the time.
    pub sampled: Option<Sampled>,
    /// Time in these windows, of what was selected, ns; likewise.
    pub windows_ns: Option<u64>,
    /// Calls of these families that are not in a window that the recording tells of: in no rate.
    pub outside_windows: u64,
}

/// What is said of a difference between A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B has more, or takes longer.
    More,
    /// B has less, or takes less long.
    Less,
    /// No difference that noise would not make, or one too small to matter.
    Same,
    /// Too few values to tell, or sampled in a way that does not compare.
    Unknown,
    /// Only A has it.
    OnlyA,
    /// Only B has it.
    OnlyB,
}

impl Verdict {
    /// Whether a difference is claimed.
    pub const fn is_claim(self) -> bool {
        match self {
            Self::More | Self::Less | Self::OnlyA | Self::OnlyB => true,
            Self::Same | Self::Unknown => false,
        }
    }
}

/// Memory in both.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryChange {
    /// `live` (at the end of each process, or of the recording), `peak`, `torch_allocated`,
    /// `torch_reserved`, `kind`, or `holder`.
    pub what: &'static str,
    /// Of a holder: file of the code that took it; `None`: not known, or no holder.
    pub caller: Option<String>,
    /// Of a kind or a holder: the kind.
    pub kind: Option<&'static str>,
    /// In A.
    pub a_bytes: u64,
    /// In B.
    pub b_bytes: u64,
    /// How much live memory went up and down in the second half of either recording.
    pub spread_bytes: u64,
    /// What is said of it.
    pub verdict: Verdict,
}

/// What took its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Subject {
    /// From a thread's launch to its next.
    LaunchGap,
    /// Calls of a function.
    Call {
        /// The function.
        api: &'static str,
    },
}

/// Durations in both.
#[derive(Clone, Debug, Serialize)]
pub struct DurationChange {
    /// Of what.
    #[serde(flatten)]
    pub subject: Subject,
    /// How many in A.
    pub a_count: u64,
    /// How many in B.
    pub b_count: u64,
    /// In A; `None`: none.
    pub a_ns: Option<Durations>,
    /// In B; `None`: none.
    pub b_ns: Option<Durations>,
    /// How many times as long it takes in B, in the geometric mean; `None`: not in both.
    pub ratio: Option<f64>,
    /// Between which it lies with 99 % confidence; `None`: too few values.
    pub ratio_range: Option<[f64; 2]>,
    /// How probable such a difference is by chance, adjusted for all tests; `None`: too few values.
    pub p_value: Option<f64>,
    /// Whether one of the recordings has those of windows alone.
    pub sampled: bool,
    /// What is said of it.
    pub verdict: Verdict,
}

/// Calls of a function in both.
#[derive(Clone, Debug, Serialize)]
pub struct RateChange {
    /// The function.
    pub api: &'static str,
    /// Calls in A.
    pub a_calls: u64,
    /// Calls in B.
    pub b_calls: u64,
    /// Calls a second in A, of the time in windows where the function is sampled; `None`: there was
    /// no such time, or the windows do not tell.
    pub a_per_second: Option<f64>,
    /// Calls a second in B.
    pub b_per_second: Option<f64>,
    /// How many times as many a second B makes; `None`: not in both.
    pub ratio: Option<f64>,
    /// How probable such a difference is by chance, adjusted for all tests; `None`: too few slices.
    pub p_value: Option<f64>,
    /// Whether one of the recordings has those of windows alone.
    pub sampled: bool,
    /// What is said of it.
    pub verdict: Verdict,
}

impl Side {
    /// Whether calls of this function are those of windows.
    fn samples(&self, api: &Api) -> bool {
        let sampled = self.sampled.as_ref();
        sampled.is_some_and(|sampled| sampled.has(api))
    }

    /// How long calls of this function were seen, ns. PyTorch's reports and memory calls begin to be
    /// sampled in the middle of a recording, which is then for neither time.
    fn length_of(&self, api: &Api) -> Option<u64> {
        match api.class() {
            ProbeClass::Torch | ProbeClass::Memory => {
                (!self.samples(api)).then_some(self.length_ns)
            }
            ProbeClass::Hot if self.samples(api) => self.windows_ns,
            ProbeClass::Hot | ProbeClass::Steady | ProbeClass::Capture => Some(self.length_ns),
        }
    }
}

impl Report {
    /// What `b` differs from `a` in.
    pub fn new(a: Collected, b: Collected) -> Self {
        let mut durations = durations(&a, &b);
        let mut rates = rates(&a, &b);
        let tested = durations.iter().map(|change| change.p_value);
        let mut p_values: Vec<_> = tested
            .chain(rates.iter().map(|change| change.p_value))
            .collect();
        adjust(&mut p_values);
        let tests = p_values.iter().flatten().count();
        for (change, p_value) in durations.iter_mut().zip(&p_values) {
            change.p_value = *p_value;
            change.verdict = verdict(change.ratio, *p_value, LEAST_DURATION);
        }
        for (change, p_value) in rates.iter_mut().zip(&p_values[durations.len()..]) {
            change.p_value = *p_value;
            // What only one has was judged by its number.
            if change.verdict == Verdict::Unknown {
                change.verdict = verdict(change.ratio, *p_value, LEAST_RATE);
            }
        }
        let reports = [&a.memory, &b.memory];
        let has_several = reports.iter().any(|report| report.processes.len() > 1);
        let processes = if has_several {
            processes::changes(reports, [&a.visible, &b.visible])
        } else {
            Vec::new()
        };
        durations.sort_by(|a, b| order(a.verdict, a.ratio).total_cmp(&order(b.verdict, b.ratio)));
        rates.sort_by(|a, b| order(a.verdict, a.ratio).total_cmp(&order(b.verdict, b.ratio)));
        Self {
            schema: SCHEMA,
            tests,
            memory: memory::changes(reports),
            processes,
            durations,
            rates,
            a: a.side,
            b: b.side,
        }
    }
}

/// Claims before all else, the greatest difference first.
fn order(verdict: Verdict, ratio: Option<f64>) -> f64 {
    let size = ratio.map_or(f64::MAX, |ratio| ratio.ln().abs());
    if verdict.is_claim() {
        -1.0 - size
    } else {
        -size / f64::MAX
    }
}

fn verdict(ratio: Option<f64>, p_value: Option<f64>, least: f64) -> Verdict {
    match (ratio, p_value) {
        (Some(ratio), Some(p_value)) if p_value * ONE_IN < 1.0 && ratio >= least => Verdict::More,
        (Some(ratio), Some(p_value)) if p_value * ONE_IN < 1.0 && ratio <= 1.0 / least => {
            Verdict::Less
        }
        (Some(_), Some(_)) => Verdict::Same,
        (_, _) => Verdict::Unknown,
    }
}

fn durations(a: &Collected, b: &Collected) -> Vec<DurationChange> {
    let subjects: BTreeSet<Subject> = a.timed.keys().chain(b.timed.keys()).copied().collect();
    let change = |subject| {
        let (of_a, of_b) = (a.timed.get(&subject), b.timed.get(&subject));
        let api = match subject {
            Subject::LaunchGap => ApiId::by_name(LAUNCH),
            Subject::Call { api } => ApiId::by_name(api),
        };
        let api = api.and_then(ApiId::api);
        let sampled = api.is_some_and(|api| a.side.samples(api) || b.side.samples(api));
        let is_cut = sampled && api.is_some_and(waits);
        let means = |timed: Option<&collect::Timed>| {
            timed.map(|timed| timed.blocks.means()).unwrap_or_default()
        };
        let (means_a, means_b) = (means(of_a), means(of_b));
        let ratio = mean(&means_a)
            .zip(mean(&means_b))
            .map(|(a, b)| (b - a).exp());
        let range = difference(&means_a, &means_b).filter(|_| !is_cut);
        let range = range.map(|range| range.map(f64::exp));
        let count =
            |timed: Option<&collect::Timed>| timed.map_or(0, |timed| timed.histogram.count());
        DurationChange {
            subject,
            a_count: count(of_a),
            b_count: count(of_b),
            a_ns: of_a.and_then(|timed| Durations::of(&timed.histogram)),
            b_ns: of_b.and_then(|timed| Durations::of(&timed.histogram)),
            ratio,
            ratio_range: range,
            p_value: rank_test(&means_a, &means_b).filter(|_| !is_cut),
            sampled,
            verdict: Verdict::Unknown,
        }
    };
    subjects.into_iter().map(change).collect()
}

/// Whether calls of this function wait for the device. What has not returned when a window ends has
/// no duration: of these, the longest.
fn waits(api: &Api) -> bool {
    // Of other copies the host waits for the submission alone.
    api.effect == Effect::Wait || api.effect == Effect::Copy && !api.name.contains("Async")
}

fn rates(a: &Collected, b: &Collected) -> Vec<RateChange> {
    let functions: BTreeSet<ApiId> = a.calls.keys().chain(b.calls.keys()).copied().collect();
    let change = |id: ApiId| {
        let api = id.api()?;
        let lengths = [a.side.length_of(api), b.side.length_of(api)];
        let is_known = lengths.iter().all(Option::is_some);
        let lengths = lengths.map(|length| length.unwrap_or(0));
        let of = |collected: &Collected| {
            let calls = collected.calls.get(&id).cloned();
            calls.unwrap_or_else(Slices::new)
        };
        let both = [of(a), of(b)];
        let calls = [both[0].total(), both[1].total()];
        let [a_rate, b_rate] = [0, 1].map(|place| per_second(calls[place], lengths[place]));
        let verdict = match calls {
            [0, calls] if is_known => only(calls, lengths[1], lengths, Verdict::OnlyB),
            [calls, 0] if is_known => only(calls, lengths[0], lengths, Verdict::OnlyA),
            _ => Verdict::Unknown,
        };
        let is_in_both = is_known && calls.iter().all(|calls| *calls > 0);
        let [slices_a, slices_b] = Slices::align(both, lengths);
        let ratio = a_rate.zip(b_rate).map(|(a, b)| b / a);
        Some(RateChange {
            api: api.name,
            a_calls: calls[0],
            b_calls: calls[1],
            a_per_second: a_rate,
            b_per_second: b_rate,
            ratio: ratio.filter(|_| is_in_both),
            p_value: is_in_both
                .then(|| rank_test(&slices_a, &slices_b))
                .flatten(),
            sampled: a.side.samples(api) || b.side.samples(api),
            verdict,
        })
    };
    functions.into_iter().filter_map(change).collect()
}

/// Only one of the recordings has calls of a function. If both made as many a second, all would
/// be in this one by chance with the probability of its share of the time, to the power of calls.
#[expect(clippy::cast_precision_loss, reason = "a probability needs no 53 bits")]
fn only(calls: u64, length: u64, lengths: [u64; 2], claim: Verdict) -> Verdict {
    let share = length as f64 / (lengths[0] as f64 + lengths[1] as f64).max(1.0);
    let by_chance = share.powf(calls as f64);
    if by_chance * ONE_IN < 0.1 {
        claim
    } else {
        Verdict::Unknown
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate needs no 53 bits")]
fn per_second(calls: u64, length_ns: u64) -> Option<f64> {
    (length_ns > 0).then(|| calls as f64 * 1e9 / length_ns as f64)
}
