//! Calls by function: how many, and how long they took.

use std::cmp::Reverse;
use std::io;

use agent_common::Layer;

use super::page::Page;
use super::style::Tone;
use super::table::{Align, Cell, Table};
use super::units;
use crate::report::{Durations, Report};

pub(super) fn counts(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    page.section("Calls")?;
    if report.calls.is_empty() {
        return page.paragraph("None.", Tone::Plain);
    }
    let mut table = Table::new([
        ("function", Align::Left),
        ("calls", Align::Right),
        ("failed", Align::Right),
        ("bytes", Align::Right),
        ("in both layers", Align::Right),
    ]);
    for calls in &report.calls {
        let failed = match &calls.errors {
            None => Cell::unknown(),
            Some(errors) => match errors.values().sum::<u64>() {
                0 => "0".into(),
                failed => Cell::alarm(units::count(failed)),
            },
        };
        let seen_in_driver = match (calls.seen_in_driver, calls.layer) {
            (Some(seen), _) => units::count(seen).into(),
            (None, Layer::Runtime) => Cell::unknown(),
            (None, Layer::Driver | Layer::Torch) => Cell::from(""),
        };
        table.row([
            calls.api.into(),
            units::count(calls.calls).into(),
            failed,
            calls
                .bytes
                .map_or_else(|| Cell::from(""), |bytes| units::bytes(bytes).into()),
            seen_in_driver,
        ]);
    }
    table.write(page)?;
    page.paragraph(
        "In both layers: runtime calls whose driver call was seen too; each is one call here. \
         Functions that are probed at entry only have a - there, and under failed.",
        Tone::Faint,
    )
}

pub(super) fn durations(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    let mut timed: Vec<(&str, &Durations)> = report
        .calls
        .iter()
        .filter_map(|calls| Some((calls.api, calls.duration_ns.as_ref()?)))
        .collect();
    if timed.is_empty() {
        return Ok(());
    }
    timed.sort_by_key(|(_, durations)| Reverse(durations.total));
    page.section("Time in calls (of the host, probe cost included)")?;
    let mut table = Table::new([
        ("function", Align::Left),
        ("total", Align::Right),
        ("p50", Align::Right),
        ("p90", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
    ]);
    for (api, durations) in timed {
        let [total, p50, p90, p99, max] = cells(Some(durations));
        table.row([api.into(), total, p50, p90, p99, max]);
    }
    table.write(page)
}

/// Total, p50, p90, p99 and maximum.
pub(super) fn cells(durations: Option<&Durations>) -> [Cell; 5] {
    let Some(Durations { percentiles, total }) = durations else {
        return std::array::from_fn(|_| Cell::unknown());
    };
    [
        *total,
        percentiles.p50,
        percentiles.p90,
        percentiles.p99,
        percentiles.max,
    ]
    .map(|ns| units::duration(ns).into())
}
