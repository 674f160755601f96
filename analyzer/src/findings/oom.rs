//! Requests that found no memory.

use std::collections::BTreeMap;

use super::{Confidence, Evidence, Family, Figures, Finding, Severity};
use crate::failures::Refusals;
use crate::oom::{self, OutOfMemory, Verdict};
use crate::text::{bytes, counted};

/// Most times that are shown: the last ones.
const EVIDENCE: usize = 3;

pub(super) fn find(figures: Figures<'_>) -> Vec<Finding> {
    let report = figures.report;
    let mut by_device: BTreeMap<(Option<u32>, Option<u32>), Vec<&OutOfMemory>> = BTreeMap::new();
    for ran_out in &report.out_of_memory {
        let of = (ran_out.pid, ran_out.device);
        by_device.entry(of).or_default().push(ran_out);
    }
    let mut findings: Vec<Finding> = by_device
        .into_values()
        .filter_map(|ran_out| torch(&ran_out))
        .collect();
    let told: Vec<Option<u32>> = report.out_of_memory.iter().map(|told| told.pid).collect();
    let untold =
        |refusals: &&Refusals| refusals.unanswered > 0 && !told.contains(&Some(refusals.pid));
    findings.extend(report.refusals.iter().filter(untold).map(refused));
    findings
}

/// PyTorch gave up: the times on one device of one process.
fn torch(times: &[&OutOfMemory]) -> Option<Finding> {
    let (first, last) = (times.first()?, times.last()?);
    let is_transient = times
        .iter()
        .all(|time| time.verdict == Verdict::PendingFree);
    let asked = last.asked.or(last.request);
    let mut numbers: BTreeMap<&'static str, serde_json::Number> =
        BTreeMap::from([("times", times.len().into())]);
    let known = [
        ("asked_bytes", asked),
        ("allocated_bytes", last.allocated),
        ("reserved_bytes", last.reserved),
        ("free_bytes", last.free),
        ("total_bytes", last.total),
        ("short_by_bytes", last.short_by),
    ];
    numbers.extend(
        known
            .iter()
            .filter_map(|(key, n)| Some((*key, (*n)?.into()))),
    );
    let (pid, device) = (first.pid?, first.device.unwrap_or(0));
    let latest = &times[times.len().saturating_sub(EVIDENCE)..];
    let evidence = latest.iter().map(|time| Evidence {
        pid: time.pid,
        device: time.device.and_then(|device| i32::try_from(device).ok()),
        from_ns: time.at_ns,
        ..Evidence::new(&time.because)
    });
    let unknown = match last.verdict {
        Verdict::Unknown => "Why: what was free on the device is not in the recording.",
        _ => "What other processes held on the device then.",
    };
    Some(Finding {
        id: format!("oom.torch:{pid}:{device}"),
        family: Family::Oom,
        severity: if is_transient {
            Severity::Warning
        } else {
            Severity::Critical
        },
        claim: format!(
            "PyTorch ran out of memory {}, {} {} ({}).",
            counted(times.len() as u64, "time"),
            if times.len() == 1 {
                "for"
            } else {
                "the last time for"
            },
            asked.map_or_else(|| "an unknown number of bytes".to_owned(), bytes),
            last.verdict.name().replace('_', " "),
        ),
        numbers,
        confidence: match last.confidence {
            oom::Confidence::Certain => Confidence::High,
            oom::Confidence::Likely => Confidence::Medium,
            oom::Confidence::None => Confidence::Low,
        },
        evidence: evidence.collect(),
        unknowns: vec![unknown.to_owned()],
        next_step: match last.next_step.setting {
            None => format!("{}.", last.next_step.text),
            Some(setting) => format!(
                "{} ({}={}).",
                last.next_step.text, setting.variable, setting.value
            ),
        },
    })
}

/// Calls to CUDA that found no memory, and the program got none after that.
fn refused(refusals: &Refusals) -> Finding {
    Finding {
        id: format!("oom.refused:{}", refusals.pid),
        family: Family::Oom,
        severity: Severity::Critical,
        claim: format!(
            "{} found no memory, and the program got none in another way.",
            counted(refusals.unanswered, "allocation")
        ),
        numbers: BTreeMap::from([
            ("refused", refusals.calls.into()),
            ("unanswered", refusals.unanswered.into()),
            ("largest_bytes", refusals.largest_bytes.into()),
        ]),
        confidence: Confidence::Medium,
        evidence: vec![Evidence {
            pid: Some(refusals.pid),
            from_ns: Some(refusals.first_ns),
            to_ns: Some(refusals.last_ns),
            ..Evidence::new(format!(
                "{} returned 2 (out of memory), the largest for {}",
                counted(refusals.calls, "call"),
                bytes(refusals.largest_bytes)
            ))
        }],
        unknowns: vec![
            "What other processes held on the device then, and whether the program can do \
             without."
                .to_owned(),
        ],
        next_step: "Look who holds the memory at that moment: `cudasnoop memory --at TIME`; \
                    `nvidia-smi` on the host for other processes."
            .to_owned(),
    }
}
