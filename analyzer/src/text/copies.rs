//! Copies, and waits of the host for the device.

use std::io;

use super::page::Page;
use super::table::{Align, Cell, Table};
use super::{bars, calls, units};
use crate::report::{Copies, Report};

pub(super) fn copies(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    if report.copies.is_empty() {
        return Ok(());
    }
    page.section("Copies")?;
    let mut table = Table::new([
        ("direction", Align::Left),
        ("copies", Align::Right),
        ("failed", Align::Right),
        ("bytes", Align::Right),
        ("p50 size", Align::Right),
        ("max size", Align::Right),
        ("time", Align::Right),
    ]);
    for copies in &report.copies {
        let size = |of: fn(&crate::report::Percentiles) -> u64| {
            let sizes = copies.sizes.as_ref();
            sizes.map_or_else(Cell::unknown, |sizes| {
                units::bytes(of(&sizes.percentiles)).into()
            })
        };
        let [time, ..] = calls::cells(copies.duration_ns.as_ref());
        table.row([
            direction(copies).into(),
            units::count(copies.copies).into(),
            match copies.failed {
                0 => "0".into(),
                failed => Cell::alarm(units::count(failed)),
            },
            units::bytes(copies.bytes).into(),
            size(|sizes| sizes.p50),
            size(|sizes| sizes.max),
            time,
        ]);
    }
    table.write(page)?;
    page.section("Copy sizes")?;
    bars::write(
        report
            .copies
            .iter()
            .filter_map(|copies| copies.sizes.as_ref()),
        units::bytes_bound,
        page,
    )
}

/// `host to device, pinned`.
fn direction(copies: &Copies) -> String {
    let direction = copies.direction.unwrap_or("unknown").replace('_', " ");
    match copies.host {
        Some("unknown") | None => direction,
        Some(host) => format!("{direction}, {host}"),
    }
}

pub(super) fn waits(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    if report.waits.is_empty() {
        return Ok(());
    }
    page.section("Waits for the device (synchronize calls, all threads of a process)")?;
    let mut table = Table::new([
        ("pid", Align::Right),
        ("waits", Align::Right),
        ("total", Align::Right),
        ("p50", Align::Right),
        ("p90", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
    ]);
    for waits in &report.waits {
        let [total, p50, p90, p99, max] = calls::cells(waits.duration_ns.as_ref());
        table.row([
            Cell::pid(waits.pid),
            units::count(waits.waits).into(),
            total,
            p50,
            p90,
            p99,
            max,
        ]);
    }
    table.write(page)
}
