//! Failures as text.

use std::io::{self, Write};

use super::{Call, ErrorReport, Failure, FunctionFailures, Refusals};
use crate::demangle;
use crate::findings;
use crate::text::{Align, Cell, Colour, Page, Table, Tone, bytes, count, since};

/// Most calls before a failure that are shown.
const BEFORE: usize = 6;

/// Most characters of a kernel's name.
const KERNEL: usize = 30;

/// Most failures that are shown.
const FAILURES: usize = 20;

/// Writes the report.
pub fn write(report: &ErrorReport, colour: Colour, output: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(output, colour);
    let start = report.recording.start_ns;
    findings::section(&report.findings, start, &mut page)?;
    for failure in report.failures.iter().take(FAILURES) {
        write_failure(failure, start, &mut page)?;
    }
    page.more(report.failures.len(), FAILURES, "failure")?;
    refusals(&report.refusals, start, &mut page)
}

fn write_failure(failure: &Failure, start: Option<u64>, page: &mut Page<'_>) -> io::Result<()> {
    let Failure {
        pid,
        code,
        name,
        first: _,
        calls,
        by_function,
        before,
        launches_before,
        calls_after,
        failed_after,
    } = failure;
    let what = match calls {
        0 => "asked about, and returned by no traced call".to_owned(),
        calls => format!("{} failed", count(*calls)),
    };
    page.section(&format!(
        "{code} {} in process {pid}: {what}",
        name.unwrap_or("(unknown code)"),
    ))?;
    let functions: Vec<String> = by_function
        .iter()
        .map(|FunctionFailures { api, calls }| format!("{api} {}", count(*calls)))
        .collect();
    if !functions.is_empty() {
        page.paragraph(&functions.join(", "), Tone::Plain)?;
    }
    let mut table = Table::new([
        ("", Align::Right),
        ("at", Align::Right),
        ("thread", Align::Right),
        ("size", Align::Right),
        ("result", Align::Right),
        ("call", Align::Left),
    ]);
    for launch in launches_before.iter().rev().take(BEFORE).rev() {
        table.row(row("launch", launch, start));
    }
    for call in before.iter().rev().take(BEFORE).rev() {
        table.row(row("before", call, start));
    }
    table.row(row("FIRST", &failure.first, start));
    table.write(page)?;
    let after = match failure.is_sticky() {
        None => "No later call of the process tells its result.".to_owned(),
        Some(true) => format!(
            "All {} later calls failed, too: the context is lost.",
            count(*calls_after)
        ),
        Some(false) => format!(
            "Of {} later calls {} failed.",
            count(*calls_after),
            count(*failed_after)
        ),
    };
    page.paragraph(&after, Tone::Plain)
}

fn row(what: &str, call: &Call, start: Option<u64>) -> [Cell; 6] {
    let Call {
        api,
        tid,
        at_ns,
        result,
        size_bytes,
        kernel,
    } = call;
    let name = match kernel {
        Some(kernel) => format!("{api} {}", demangle::folded(kernel, KERNEL)),
        None => (*api).to_owned(),
    };
    let result = match result {
        None => Cell::unknown(),
        Some(0) => Cell::from("ok"),
        Some(code) => Cell::alarm(code.to_string()),
    };
    [
        what.into(),
        since(*at_ns, start).into(),
        tid.to_string().into(),
        size_bytes.map_or_else(|| Cell::from(""), |size| bytes(size).into()),
        result,
        name.into(),
    ]
}

fn refusals(all: &[Refusals], start: Option<u64>, page: &mut Page<'_>) -> io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    page.section("Allocations that found no memory")?;
    let mut table = Table::new([
        ("pid", Align::Right),
        ("refused", Align::Right),
        ("freed", Align::Right),
        ("other", Align::Right),
        ("never", Align::Right),
        ("largest", Align::Right),
        ("first", Align::Right),
        ("last", Align::Right),
    ]);
    for refusals in all {
        let Refusals {
            pid,
            calls,
            retried_after_frees,
            answered,
            unanswered,
            largest_bytes,
            first_ns,
            last_ns,
        } = refusals;
        table.row([
            pid.to_string().into(),
            count(*calls).into(),
            count(*retried_after_frees).into(),
            count(*answered).into(),
            if *unanswered > 0 {
                Cell::alarm(count(*unanswered))
            } else {
                "0".into()
            },
            bytes(*largest_bytes).into(),
            since(*first_ns, start).into(),
            since(*last_ns, start).into(),
        ]);
    }
    table.write(page)?;
    page.paragraph(
        "Freed, other, never: whether the thread got the memory when it asked again \
         once memory had been given back, in another way, or not.",
        Tone::Faint,
    )
}
