//! PyTorch's caching allocator: it holds more and more, and hands out no more.

use std::collections::BTreeMap;

use super::growing::{Doubts, evidence, numbers, per_minute, subject};
use super::{Confidence, Evidence, Family, Figures, Finding, Severity};
use crate::failures::Refusals;
use crate::growth::{Growth, Shape, Source};
use crate::text::{bytes, counted};

/// Of what the allocator takes, its blocks may account for this part before it is theirs.
const EXPLAINED: u64 = 2;

pub(super) fn find(figures: Figures<'_>) -> Vec<Finding> {
    let lines = &figures.report.growth;
    let reserved = lines
        .iter()
        .filter(|line| line.source == Source::TorchReserved && line.shape == Shape::Growing);
    let growing = reserved.filter_map(|line| growing(figures, line, lines));
    growing
        .chain(figures.report.refusals.iter().filter_map(retries))
        .collect()
}

/// Allocations that worked once memory had been given back: the allocator had to clear its cache.
fn retries(refusals: &Refusals) -> Option<Finding> {
    if refusals.retried_after_frees == 0 {
        return None;
    }
    let times = counted(refusals.retried_after_frees, "time");
    Some(Finding {
        id: format!("allocator.retry:{}", refusals.pid),
        family: Family::Allocator,
        severity: Severity::Warning,
        claim: format!(
            "The device was full {times}: an allocation failed, and worked after others had been \
             given back."
        ),
        numbers: BTreeMap::from([
            ("retries", refusals.retried_after_frees.into()),
            ("refused", refusals.calls.into()),
            ("largest_bytes", refusals.largest_bytes.into()),
        ]),
        confidence: Confidence::High,
        evidence: vec![Evidence {
            pid: Some(refusals.pid),
            from_ns: Some(refusals.first_ns),
            to_ns: Some(refusals.last_ns),
            ..Evidence::new(format!(
                "returned 2 (out of memory), then 0 for the same size on the same thread; the \
                 largest was {}",
                bytes(refusals.largest_bytes)
            ))
        }],
        unknowns: vec!["How much of the device other processes hold.".to_owned()],
        next_step: "An early warning: each retry empties PyTorch's cache and waits for the \
                    device, and the next one may fail. Hold less (batch, sequence length, \
                    gpu_memory_utilization), or let segments grow in place \
                    (PYTORCH_ALLOC_CONF=expandable_segments:True)."
            .to_owned(),
    })
}

fn growing(figures: Figures<'_>, line: &Growth, lines: &[Growth]) -> Option<Finding> {
    let rate = line.rate?;
    let blocks = lines.iter().filter(|other| {
        other.source == Source::Torch
            && (other.pid, other.start_time, other.device)
                == (line.pid, line.start_time, line.device)
    });
    // What the program keeps is its own growth, and told as such; for a higher peak the allocator
    // has to take more.
    let wanted = blocks
        .map(|blocks| {
            let kept = blocks.rate.filter(|_| blocks.shape == Shape::Growing);
            let kept = kept.map_or(0, |rate| rate.growth_bytes);
            kept.max(blocks.peak_growth_bytes)
        })
        .max();
    if wanted.unwrap_or(0) >= rate.growth_bytes / EXPLAINED {
        return None;
    }
    let doubts = Doubts::about(figures.report, line);
    let mut numbers = numbers(&rate);
    numbers.insert("reserved_bytes", line.live_bytes.into());
    Some(Finding {
        id: format!("allocator.reserved_growth:{}", subject(line)),
        family: Family::Allocator,
        severity: Severity::Warning,
        claim: format!(
            "PyTorch's allocator takes {} more from the device, and the program holds no more of \
             it.",
            per_minute(rate.bytes_per_second)
        ),
        numbers,
        // The allocator tells its totals itself: nothing that is lost changes them.
        confidence: doubts.confidence(rate.steps),
        evidence: vec![evidence(line, &rate, "reserved")],
        unknowns: vec![
            "Whether it stops once every size has been seen: a cache that still fills does."
                .to_owned(),
        ],
        next_step: "Look at `cudasnoop fragmentation`: free blocks fit no request. Let segments \
                    grow in place (PYTORCH_ALLOC_CONF=expandable_segments:True, not together \
                    with vLLM's sleep mode), or give memory back early \
                    (garbage_collection_threshold:0.8)."
            .to_owned(),
    })
}
