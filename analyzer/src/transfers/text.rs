//! Copies as text.

use std::io::{self, Write};

use super::TransferReport;
use crate::findings;
use crate::host::{Bulk, Timing};
use crate::report::Percentiles;
use crate::text::{Align, Cell, Colour, Page, Table, Tone, bytes, count, counted, duration};

/// Most rows of a table.
const ROWS: usize = 30;

/// Writes the copies.
pub fn write(report: &TransferReport, colour: Colour, output: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(output, colour);
    if !report.findings.is_empty() {
        findings::section(&report.findings, report.start_ns, &mut page)?;
    }
    page.section("Copies")?;
    if report.transfers.is_empty() {
        return page.paragraph("No copy was recorded.", Tone::Plain);
    }
    let copies = if report.copies == 1 { "copy" } else { "copies" };
    let text = format!(
        "{} {copies}, {}.",
        count(report.copies),
        bytes(report.bytes)
    );
    page.paragraph(&text, Tone::Plain)?;
    if report.lossy == Some(true) {
        page.paragraph(
            "The recording lost events: counts are too low.",
            Tone::Alarm,
        )?;
    }
    copies_table(report, &mut page)?;
    rates(report, &mut page)?;
    small(report, &mut page)
}

fn copies_table(report: &TransferReport, page: &mut Page<'_>) -> io::Result<()> {
    page.section("By process, direction and host memory")?;
    let mut table = Table::new([
        ("pid", Align::Right),
        ("direction", Align::Left),
        ("host", Align::Left),
        ("copies", Align::Right),
        ("bytes", Align::Right),
        ("p50 size", Align::Right),
        ("time", Align::Right),
        ("call is", Align::Left),
    ]);
    for row in report.transfers.iter().take(ROWS) {
        table.row([
            Cell::pid(row.pid),
            row.direction.words().into(),
            row.host.map_or("-", ledger::HostMemory::name).into(),
            count(row.copies).into(),
            bytes(row.bytes).into(),
            row.sizes
                .map_or_else(Cell::unknown, |sizes| bytes(sizes.p50).into()),
            row.duration_ns
                .map_or_else(Cell::unknown, |ns| duration(ns.total).into()),
            row.timing.words().into(),
        ]);
    }
    table.write(page)?;
    page.more(report.transfers.len(), ROWS, "row")?;
    page.paragraph(
        "The time is that of the call: of the whole copy, until the bytes are in the driver's own \
         buffer (staged), or of the submission of a copy that goes on meanwhile.",
        Tone::Faint,
    )
}

fn rates(report: &TransferReport, page: &mut Page<'_>) -> io::Result<()> {
    let with_bulk = report.transfers.iter().filter(|row| row.bulk.copies > 0);
    let mut table = Table::new([
        ("pid", Align::Right),
        ("direction", Align::Left),
        ("host", Align::Left),
        ("copies", Align::Right),
        ("again", Align::Right),
        ("p50 rate", Align::Right),
        ("max", Align::Right),
        ("rate by", Align::Left),
    ]);
    for row in with_bulk.take(ROWS) {
        let Bulk {
            copies,
            recurring_copies,
            bytes_per_second,
            waited_bytes_per_second,
            ..
        } = row.bulk;
        let rate = bytes_per_second.or(waited_bytes_per_second);
        let of = |value: fn(Percentiles) -> u64| {
            rate.map_or_else(Cell::unknown, |rate| {
                format!("{}/s", bytes(value(rate))).into()
            })
        };
        let by = match (bytes_per_second, waited_bytes_per_second, row.timing) {
            (Some(_), _, _) => "call",
            (None, Some(_), _) => "wait after",
            (None, None, Timing::Submitted) => "hidden",
            (None, None, _) => "-",
        };
        table.row([
            Cell::pid(row.pid),
            row.direction.words().into(),
            row.host.map_or("-", ledger::HostMemory::name).into(),
            count(copies).into(),
            count(recurring_copies).into(),
            of(|rate| rate.p50),
            of(|rate| rate.max),
            by.into(),
        ]);
    }
    if table.is_empty() {
        return Ok(());
    }
    page.section("Rates, of copies of 64 KiB and more")?;
    table.write(page)?;
    page.paragraph(
        "Bytes over host time; a wait for earlier work of the stream is in it, so the copy itself \
         is at least as fast. Hidden: an asynchronous copy that no wait followed. Again: copies \
         of device memory that was copied before.",
        Tone::Faint,
    )
}

fn small(report: &TransferReport, page: &mut Page<'_>) -> io::Result<()> {
    if report.threads.is_empty() {
        return Ok(());
    }
    page.section("Small copies (at most 64 KiB), by thread")?;
    let mut table = Table::new([
        ("pid", Align::Right),
        ("thread", Align::Right),
        ("copies", Align::Right),
        ("bytes", Align::Right),
        ("time", Align::Right),
        ("in a row", Align::Right),
        ("longest", Align::Right),
    ]);
    for thread in report.threads.iter().take(ROWS) {
        let small = thread.small_copies;
        let stretches = small.small_copy_stretches;
        table.row([
            Cell::pid(thread.pid),
            Cell::pid(thread.tid),
            count(small.small_copies).into(),
            bytes(small.small_copy_bytes).into(),
            duration(small.small_copy_ns).into(),
            count(stretches.calls).into(),
            stretches.longest.map_or_else(Cell::unknown, |longest| {
                counted(longest.calls, "call").into()
            }),
        ]);
    }
    table.write(page)?;
    page.more(report.threads.len(), ROWS, "thread")
}
