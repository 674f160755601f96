//! Waits as text.

use std::io::{self, Write};

use super::SyncReport;
use crate::findings;
use crate::host::WaitSum;
use crate::text::{
    Align, Cell, Colour, Page, Table, Tone, count, counted, duration, file_name, percent,
};

/// Most rows of a table.
const ROWS: usize = 30;
/// Characters of a caller's name.
const CALLER: usize = 18;

/// Writes the waits.
pub fn write(report: &SyncReport, colour: Colour, output: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(output, colour);
    if !report.findings.is_empty() {
        findings::section(&report.findings, report.start_ns, &mut page)?;
    }
    page.section("Waits for the device")?;
    let all = report.all;
    if all.waits == 0 {
        return page.paragraph(
            "No call that waits for the device was recorded.",
            Tone::Plain,
        );
    }
    let text = format!(
        "{}, {} in all. {} returned at once (within 50 µs): what they waited for was done, the \
         queue drained. {} blocked: the device was busy with it.",
        counted(all.waits, "wait"),
        duration(all.total_ns),
        count(all.at_once),
        count(all.waits.saturating_sub(all.at_once))
    );
    page.paragraph(&text, Tone::Plain)?;
    if report.lossy == Some(true) {
        page.paragraph(
            "The recording lost events: counts are too low.",
            Tone::Alarm,
        )?;
    }
    callers(report, &mut page)?;
    threads(report, &mut page)
}

fn callers(report: &SyncReport, page: &mut Page<'_>) -> io::Result<()> {
    page.section("By thread and caller")?;
    let mut table = Table::new([
        ("thread", Align::Right),
        ("function", Align::Left),
        ("waits", Align::Right),
        ("at once", Align::Right),
        ("time", Align::Right),
        ("caller", Align::Left),
    ]);
    for row in report.callers.iter().take(ROWS) {
        table.row([
            Cell::pid(row.tid),
            row.api.unwrap_or("-").into(),
            count(row.waits).into(),
            count(row.at_once).into(),
            row.duration_ns
                .map_or_else(Cell::unknown, |ns| duration(ns.total).into()),
            row.caller
                .as_deref()
                .map_or_else(Cell::unknown, |caller| file_name(caller, CALLER).into()),
        ]);
    }
    table.write(page)?;
    page.more(report.callers.len(), ROWS, "row")
}

fn threads(report: &SyncReport, page: &mut Page<'_>) -> io::Result<()> {
    page.section("By thread: what came before the waits")?;
    let mut table = Table::new([
        ("pid", Align::Right),
        ("thread", Align::Right),
        ("before", Align::Left),
        ("waits", Align::Right),
        ("at once", Align::Right),
        ("time", Align::Right),
        ("of its time", Align::Right),
    ]);
    for thread in report.threads.iter().take(ROWS) {
        let waits = thread.waits;
        let rows = [
            ("1 or 2 launches", waits.after_few),
            ("more launches", waits.after_many),
            ("a graph launch", waits.after_graph),
            ("a copy of a number", waits.after_scalar),
            ("something else", waits.other),
        ];
        for (before, sum) in rows {
            let WaitSum {
                waits,
                at_once,
                total_ns,
            } = sum;
            if waits > 0 {
                table.row([
                    Cell::pid(thread.pid),
                    Cell::pid(thread.tid),
                    before.into(),
                    count(waits).into(),
                    count(at_once).into(),
                    duration(total_ns).into(),
                    format!("{} %", percent(total_ns, thread.span_ns)).into(),
                ]);
            }
        }
    }
    table.write(page)?;
    page.more(report.threads.len(), ROWS, "thread")
}
