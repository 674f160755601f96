//! What the memory of two recordings differs in.

use std::collections::BTreeMap;

use ledger::MemoryKind;

use super::{MemoryChange, Verdict};
use crate::memory::{Curve, Device, Process, Report};
use crate::text;

/// A difference of less is none: a page of the device, and 1 % of what there is.
const LEAST: u64 = 2 << 20;
const SHARE: u64 = 100;

/// What is compared, and its bytes in both.
type Amounts = BTreeMap<(&'static str, Option<String>, Option<&'static str>), [u64; 2]>;

/// All that differs or not, totals first, the greatest change of each sort first.
pub(super) fn changes(reports: [&Report; 2]) -> Vec<MemoryChange> {
    let processes = reports.map(|report| report.processes.iter().collect::<Vec<_>>());
    let spread = reports.map(|report| spread(report, |_| true));
    compared(&processes, spread)
}

/// Totals of a process, as it is in each; `None` where it is not.
pub(super) fn of_process(
    reports: [&Report; 2],
    processes: [Option<&Process>; 2],
) -> Vec<MemoryChange> {
    let spread = [0, 1].map(|side| {
        processes[side].map_or(0, |process| {
            let whose = (process.pid, process.incarnation);
            spread(reports[side], |curve| {
                (curve.pid, curve.incarnation) == whose
            })
        })
    });
    let both = processes.map(|process| process.into_iter().collect::<Vec<_>>());
    let mut changes = compared(&both, spread);
    changes.retain(|change| !matches!(change.what, "kind" | "holder"));
    for change in &mut changes {
        match processes {
            [Some(_), None] => change.verdict = Verdict::OnlyA,
            [None, Some(_)] => change.verdict = Verdict::OnlyB,
            [Some(_), Some(_)] | [None, None] => {}
        }
    }
    changes
}

fn compared(processes: &[Vec<&Process>; 2], spread: [u64; 2]) -> Vec<MemoryChange> {
    let mut amounts = Amounts::new();
    for (place, processes) in processes.iter().enumerate() {
        let mut add = |what, caller: Option<&str>, kind, bytes: u64| {
            let key = (what, caller.map(str::to_owned), kind);
            let amount = &mut amounts.entry(key).or_default()[place];
            *amount = amount.saturating_add(bytes);
        };
        // Always there, though it be 0.
        add("live", None, None, 0);
        add("peak", None, None, 0);
        for device in processes.iter().flat_map(|process| &process.devices) {
            count(device, &mut add);
        }
    }
    let mut changes: Vec<MemoryChange> = amounts
        .into_iter()
        .map(|((what, caller, kind), bytes)| MemoryChange {
            what,
            caller,
            kind,
            a_bytes: bytes[0],
            b_bytes: bytes[1],
            spread_bytes: spread[0].max(spread[1]),
            verdict: verdict(bytes, spread),
        })
        .collect();
    changes.sort_by_key(|change| {
        let distance = change.a_bytes.abs_diff(change.b_bytes);
        let order = [
            "live",
            "peak",
            "torch_allocated",
            "torch_reserved",
            "kind",
            "holder",
        ];
        let order = order.iter().position(|what| *what == change.what);
        (order, std::cmp::Reverse(distance))
    });
    changes
}

fn count<'a>(
    device: &'a Device,
    add: &mut impl FnMut(&'static str, Option<&'a str>, Option<&'static str>, u64),
) {
    // Of a process whose returns were not probed, neither is known.
    for (what, bytes) in [("live", device.live_bytes), ("peak", device.peak_bytes)] {
        if let Some(bytes) = bytes {
            add(what, None, None, bytes);
        }
    }
    if let Some(torch) = device.torch {
        add("torch_allocated", None, None, torch.allocated);
        add("torch_reserved", None, None, torch.reserved);
    }
    for kind in MemoryKind::ALL {
        let bytes = device.by_kind.map_or(0, |kinds| kinds.get(kind));
        if bytes > 0 {
            add("kind", None, Some(kind.name()), bytes);
        }
    }
    for holder in &device.holders {
        add(
            "holder",
            holder.caller.as_deref(),
            Some(holder.kind),
            holder.live_bytes,
        );
    }
}

/// How much what is live went up and down in the second half of each curve, together: what a
/// moment's value says nothing about.
fn spread(report: &Report, is_about: impl Fn(&Curve) -> bool) -> u64 {
    let curves = report.timeline.iter().flatten();
    curves
        .filter(|curve| is_about(curve))
        .map(|curve| spread_of(curve, &report.processes))
        .fold(0, u64::saturating_add)
}

fn spread_of(curve: &Curve, processes: &[Process]) -> u64 {
    let is_its =
        |process: &&Process| (process.pid, process.incarnation) == (curve.pid, curve.incarnation);
    let process = processes.iter().find(is_its);
    let ended_at = process.and_then(|process| process.end.map(|_| process.at_ns));
    // The last point of a process that ended is 0.
    let points = curve.points.iter();
    let points: Vec<_> = points
        .filter(|point| ended_at.is_none_or(|end| point.at_ns < end || point.live_bytes > 0))
        .collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return 0;
    };
    let middle = first.at_ns + (last.at_ns - first.at_ns) / 2;
    let second_half = points.iter().filter(|point| point.at_ns >= middle);
    let (mut least, mut most) = (u64::MAX, 0);
    for point in second_half {
        least = least.min(point.live_bytes);
        most = most.max(point.most_live_bytes);
    }
    most.saturating_sub(least)
}

fn verdict([a, b]: [u64; 2], spread: [u64; 2]) -> Verdict {
    let noise = LEAST.max(a.max(b) / SHARE).max(spread[0]).max(spread[1]);
    if a.abs_diff(b) <= noise {
        Verdict::Same
    } else if b > a {
        Verdict::More
    } else {
        Verdict::Less
    }
}

/// What a person calls it.
pub(super) fn label(change: &MemoryChange, width: usize) -> String {
    let caller = || {
        change
            .caller
            .as_deref()
            .map_or_else(|| "unknown".to_owned(), |path| text::file_name(path, width))
    };
    match (change.what, change.kind) {
        ("live", _) => "live at the end".to_owned(),
        ("peak", _) => "peak".to_owned(),
        ("torch_allocated", _) => "PyTorch allocated".to_owned(),
        ("torch_reserved", _) => "PyTorch reserved".to_owned(),
        ("holder", Some(kind)) => format!("{kind} of {}", caller()),
        (_, kind) => format!("{} in all", kind.unwrap_or(change.what)),
    }
}
