//! What went wrong in the traced programs: calls that hang, calls that failed.

use std::io;

use super::page::Page;
use super::table::{Align, Cell, Table};
use super::units;
use crate::cuda_error;
use crate::report::{OpenCall, Report};

/// Most rows of open calls: a recording may end in the middle of many.
const ROWS: usize = 20;

pub(super) fn in_flight(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    let title = "In flight: had not returned when the recording ended";
    open_calls(title, &report.in_flight, report, page)
}

pub(super) fn abandoned(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    let title = if report.recording.sampled.is_some() {
        "Abandoned: the thread died or jumped out, or the call's window was over"
    } else {
        "Abandoned: the thread died or jumped out of the call"
    };
    open_calls(title, &report.abandoned, report, page)
}

fn open_calls(
    title: &str,
    calls: &[OpenCall],
    report: &Report,
    page: &mut Page<'_>,
) -> io::Result<()> {
    if calls.is_empty() {
        return Ok(());
    }
    page.section(title)?;
    let mut table = Table::new([
        ("function", Align::Left),
        ("pid", Align::Right),
        ("thread", Align::Right),
        ("entered", Align::Right),
        ("age", Align::Right),
    ]);
    for call in calls.iter().take(ROWS) {
        table.row([
            call.api.unwrap_or("unknown").into(),
            call.pid.to_string().into(),
            call.tid.to_string().into(),
            units::since(call.entered_ns, report.recording.start_ns).into(),
            call.age_ns
                .map_or_else(Cell::unknown, |age| Cell::alarm(units::duration(age))),
        ]);
    }
    table.write(page)?;
    page.more(calls.len(), ROWS, "call")
}

pub(super) fn errors(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    let mut table = Table::new([
        ("function", Align::Left),
        ("failed", Align::Right),
        ("code", Align::Right),
        ("", Align::Left),
    ]);
    for calls in &report.calls {
        for (code, count) in calls.errors.iter().flatten() {
            table.row([
                calls.api.into(),
                Cell::alarm(units::count(*count)),
                code.to_string().into(),
                cuda_error::name(calls.layer, *code)
                    .unwrap_or("unknown")
                    .into(),
            ]);
        }
    }
    if table.is_empty() {
        return Ok(());
    }
    page.section("Errors that calls returned")?;
    table.write(page)
}
