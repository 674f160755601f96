//! What findings about growing memory have in common: what may be believed of it.

use std::collections::BTreeMap;

use serde_json::Number;

use super::{Confidence, Evidence, decimal};
use crate::growth::{Growth, Rate};
use crate::report::{Process, Report};
use crate::text::{bytes, duration};

/// What makes a growth doubtful.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubts {
    /// Records were lost: a free that is missing looks like memory that stays.
    pub(super) is_lossy: bool,
    /// The process ran before it was traced.
    pub(super) is_late: bool,
}

impl Doubts {
    pub(super) fn about(report: &Report, growth: &Growth) -> Self {
        let is_it = |process: &&Process| {
            process.pid == growth.pid && process.start_time == growth.start_time
        };
        let process = report.processes.iter().find(is_it);
        let gaps = report.gaps.iter().any(|gap| gap.pid == growth.pid);
        let is_late = process.is_none_or(|process| process.from_start != Some(true));
        Self {
            // The gap of a process that ran before lies before.
            is_lossy: report.recording.lost.any() == Some(true) || gaps && !is_late,
            is_late,
        }
    }

    pub(super) const fn confidence(self, steps: u64) -> Confidence {
        match self {
            Self { is_lossy: true, .. } => Confidence::Low,
            Self { is_late: true, .. } => Confidence::Medium,
            // The error of the rate is below a third.
            Self { .. } if steps >= 64 => Confidence::High,
            Self { .. } => Confidence::Medium,
        }
    }

    pub(super) fn unknowns(self) -> Vec<String> {
        let mut unknowns = Vec::new();
        if self.is_lossy {
            unknowns.push(
                "Records were lost: frees that are missing would look like this, too.".to_owned(),
            );
        }
        if self.is_late {
            unknowns.push(
                "What the process held before it was traced, and whether it gives that back in \
                 place of this."
                    .to_owned(),
            );
        }
        unknowns
    }
}

/// Bytes in a minute, for people.
pub(super) fn per_minute(bytes_per_second: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is no less than 0, and one too large becomes the largest"
    )]
    let minute = (bytes_per_second * 60.0) as u64;
    format!("{} a minute", bytes(minute))
}

/// The numbers of a rate.
pub(super) fn numbers(rate: &Rate) -> BTreeMap<&'static str, Number> {
    let Rate {
        bytes_per_second,
        low_bytes_per_second,
        high_bytes_per_second,
        growth_bytes,
        steps,
        from_ns,
        to_ns,
    } = *rate;
    let rates = [
        ("growth_bytes_per_second", bytes_per_second),
        ("growth_low_bytes_per_second", low_bytes_per_second),
        ("growth_high_bytes_per_second", high_bytes_per_second),
    ];
    let rates = rates
        .into_iter()
        .filter_map(|(key, rate)| Some((key, decimal(rate)?)));
    let counts = [
        ("growth_bytes", growth_bytes),
        ("steps", steps),
        ("window_ns", to_ns.saturating_sub(from_ns)),
    ];
    let counts = counts.into_iter().map(|(key, count)| (key, count.into()));
    rates.chain(counts).collect()
}

/// How it grew, as evidence.
pub(super) fn evidence(growth: &Growth, rate: &Rate, whose: &str) -> Evidence {
    Evidence {
        pid: Some(growth.pid),
        device: growth.device,
        caller: growth.caller.clone(),
        from_ns: Some(rate.from_ns),
        to_ns: Some(rate.to_ns),
        ..Evidence::new(format!(
            "{whose}: {} more after {}, as telling as {} equal steps; between {} and {} with 99 % \
             confidence",
            bytes(rate.growth_bytes),
            duration(rate.to_ns.saturating_sub(rate.from_ns)),
            rate.steps,
            per_minute(rate.low_bytes_per_second),
            per_minute(rate.high_bytes_per_second),
        ))
    }
}

/// Whose it is: the end of an id.
pub(super) fn subject(growth: &Growth) -> String {
    let device = growth
        .device
        .map_or_else(|| "unknown".to_owned(), |device| device.to_string());
    format!("{}:{device}", growth.pid)
}
