//! The differences as text: claims first, and what was looked at without a claim in a line.

use std::io::{self, Write};

use super::memory::label;
use super::{
    DurationChange, MemoryChange, ProcessChange, RateChange, Report, Side, Subject, Verdict,
};
use crate::text::{
    Align, Cell, Colour, Page, Table, Tone, bytes, count, counted, duration, file_name,
};

/// Most rows of a table.
const ROWS: usize = 20;
/// Characters of a holder's name.
const CALLER: usize = 28;

/// Writes the differences.
pub fn write(report: &Report, colour: Colour, output: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(output, colour);
    sides(report, &mut page)?;
    memory(&report.memory, &mut page)?;
    processes(&report.processes, &mut page)?;
    durations(&report.durations, &mut page)?;
    rates(&report.rates, &mut page)?;
    page.section("How it was judged")?;
    page.paragraph(
        &format!(
            "{} by rank, on means of blocks (durations) and on counts in slices of time (calls); \
             claimed is what chance makes in fewer than 1 of 100 reports, and is at least 5 % \
             (durations) or 10 % (calls). Memory is claimed where it differs by more than it went \
             up and down in either, by 2 MiB and 1 %. Durations are host time, probe cost \
             included.",
            counted(report.tests as u64, "test")
        ),
        Tone::Faint,
    )
}

fn sides(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    page.section("Recordings")?;
    let mut table = Table::new([
        ("", Align::Left),
        ("length", Align::Right),
        ("events", Align::Right),
        ("complete", Align::Left),
        ("lost", Align::Left),
        ("host", Align::Left),
    ]);
    for (name, side) in [("A", &report.a), ("B", &report.b)] {
        let Side {
            events,
            host,
            version: _,
            length_ns,
            complete,
            lossy,
            sampled: _,
            windows_ns: _,
            outside_windows: _,
        } = side;
        table.row([
            name.into(),
            duration(*length_ns).into(),
            count(*events).into(),
            if *complete {
                "yes".into()
            } else {
                Cell::alarm("NO")
            },
            match lossy {
                Some(false) => "nothing".into(),
                Some(true) => Cell::alarm("events"),
                None => Cell::alarm("unknown"),
            },
            host.as_deref().unwrap_or("unknown").into(),
        ]);
    }
    table.write(page)?;
    for (name, side) in [("A", &report.a), ("B", &report.b)] {
        windows(name, side, page)?;
    }
    Ok(())
}

/// What was sampled, and what that means.
fn windows(name: &str, side: &Side, page: &mut Page<'_>) -> io::Result<()> {
    let Some(sampled) = &side.sampled else {
        return Ok(());
    };
    let open = side
        .windows_ns
        .map_or_else(|| "no time".to_owned(), duration);
    page.paragraph(
        &format!(
            "{name} has {} calls of windows alone ({open} of {}): their rates are those of that \
             time. How long waits and synchronous copies take, and PyTorch's reports where they \
             are sampled, do not compare.",
            sampled.families.join(", "),
            duration(side.length_ns),
        ),
        Tone::Alarm,
    )?;
    if side.outside_windows > 0 {
        let calls = counted(side.outside_windows, "call");
        page.paragraph(
            &format!("{calls} of {name} in no window that the recording tells of: in no rate."),
            Tone::Faint,
        )?;
    }
    Ok(())
}

/// Of each process, what is claimed; or what it held, if nothing is.
fn processes(changes: &[ProcessChange], page: &mut Page<'_>) -> io::Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    page.section("Memory by process")?;
    let mut table = Table::new([
        ("process", Align::Left),
        ("A pid", Align::Right),
        ("B pid", Align::Right),
        ("what", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("", Align::Left),
    ]);
    for process in changes.iter().take(ROWS) {
        let pid = |pid: Option<u32>| pid.map_or_else(Cell::unknown, |pid| pid.to_string().into());
        let is_shown = |change: &&MemoryChange| {
            change.verdict.is_claim() && change.a_bytes.max(change.b_bytes) > 0
        };
        let claims = process.memory.iter().filter(is_shown);
        let live = process.memory.iter().filter(|change| change.what == "live");
        let mut shown: Vec<&MemoryChange> = claims.collect();
        if shown.is_empty() {
            shown.extend(live);
        }
        for (place, change) in shown.into_iter().enumerate() {
            let (name, a_pid, b_pid) = match place {
                0 => (
                    process_name(process).into(),
                    pid(process.a_pid),
                    pid(process.b_pid),
                ),
                _ => ("".into(), "".into(), "".into()),
            };
            table.row([
                name,
                a_pid,
                b_pid,
                match change.what {
                    "live" => "live".into(),
                    _ => label(change, CALLER).into(),
                },
                bytes(change.a_bytes).into(),
                bytes(change.b_bytes).into(),
                said(change.verdict),
            ]);
        }
    }
    table.write(page)?;
    page.more(changes.len(), ROWS, "process")
}

fn process_name(process: &ProcessChange) -> String {
    let title = process.title.as_deref().filter(|title| !title.is_empty());
    let exe = process.exe.as_deref().map(|path| file_name(path, CALLER));
    let name = title.map(str::to_owned).or(exe);
    let name = name.unwrap_or_else(|| "unknown".to_owned());
    match process.rank {
        0 => name,
        rank => format!("{name} ({})", rank + 1),
    }
}

fn memory(changes: &[MemoryChange], page: &mut Page<'_>) -> io::Result<()> {
    page.section("Memory")?;
    let mut table = Table::new([
        ("what", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("change", Align::Right),
        ("", Align::Left),
    ]);
    let is_shown = |change: &&MemoryChange| {
        change.verdict.is_claim() || matches!(change.what, "live" | "peak")
    };
    let shown: Vec<_> = changes.iter().filter(is_shown).collect();
    for change in shown.iter().take(ROWS) {
        let (a, b) = (change.a_bytes, change.b_bytes);
        let sign = if b < a { "-" } else { "+" };
        table.row([
            label(change, CALLER).into(),
            bytes(a).into(),
            bytes(b).into(),
            format!("{sign}{}", bytes(a.abs_diff(b))).into(),
            said(change.verdict),
        ]);
    }
    table.write(page)?;
    page.more(shown.len(), ROWS, "difference")
}

fn durations(changes: &[DurationChange], page: &mut Page<'_>) -> io::Result<()> {
    page.section("Durations")?;
    let mut table = Table::new([
        ("of", Align::Left),
        ("A p50", Align::Right),
        ("B p50", Align::Right),
        ("A p99", Align::Right),
        ("B p99", Align::Right),
        ("times", Align::Right),
        ("", Align::Left),
    ]);
    let claims: Vec<_> = changes
        .iter()
        .filter(|change| change.verdict.is_claim())
        .collect();
    for change in claims.iter().take(ROWS) {
        let of = |durations: Option<&crate::report::Durations>, percent: u8| {
            durations.map_or_else(Cell::unknown, |durations| {
                let percentiles = durations.percentiles;
                duration(if percent == 50 {
                    percentiles.p50
                } else {
                    percentiles.p99
                })
                .into()
            })
        };
        let (a, b) = (change.a_ns.as_ref(), change.b_ns.as_ref());
        table.row([
            match change.subject {
                Subject::LaunchGap => "launch to launch".into(),
                Subject::Call { api } => api.into(),
            },
            of(a, 50),
            of(b, 50),
            of(a, 99),
            of(b, 99),
            ratio(change.ratio),
            match change.verdict {
                Verdict::More => Cell::alarm("slower"),
                Verdict::Less => "faster".into(),
                other @ (Verdict::Same | Verdict::Unknown | Verdict::OnlyA | Verdict::OnlyB) => {
                    said(other)
                }
            },
        ]);
    }
    table_or_nothing(table, claims.len(), page)?;
    let verdicts: Vec<_> = changes.iter().map(|change| change.verdict).collect();
    rest(&verdicts, page)
}

fn rates(changes: &[RateChange], page: &mut Page<'_>) -> io::Result<()> {
    page.section("Calls")?;
    let mut table = Table::new([
        ("function", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("A /s", Align::Right),
        ("B /s", Align::Right),
        ("times", Align::Right),
        ("", Align::Left),
    ]);
    let claims: Vec<_> = changes
        .iter()
        .filter(|change| change.verdict.is_claim())
        .collect();
    for change in claims.iter().take(ROWS) {
        let rate =
            |rate: Option<f64>| rate.map_or_else(Cell::unknown, |rate| format!("{rate:.1}").into());
        table.row([
            change.api.into(),
            count(change.a_calls).into(),
            count(change.b_calls).into(),
            rate(change.a_per_second),
            rate(change.b_per_second),
            ratio(change.ratio),
            said(change.verdict),
        ]);
    }
    table_or_nothing(table, claims.len(), page)?;
    let verdicts: Vec<_> = changes.iter().map(|change| change.verdict).collect();
    rest(&verdicts, page)
}

fn table_or_nothing(table: Table, claims: usize, page: &mut Page<'_>) -> io::Result<()> {
    if claims == 0 {
        return page.paragraph("No difference that chance would not make.", Tone::Plain);
    }
    table.write(page)?;
    page.more(claims, ROWS, "difference")
}

/// How many are the same, and of how many nothing can be said.
fn rest(verdicts: &[Verdict], page: &mut Page<'_>) -> io::Result<()> {
    let number = |verdict| verdicts.iter().filter(|found| **found == verdict).count();
    let (same, unknown) = (number(Verdict::Same), number(Verdict::Unknown));
    if same + unknown == 0 {
        return Ok(());
    }
    page.paragraph(
        &format!("{same} without a difference, {unknown} with too few calls to tell."),
        Tone::Faint,
    )
}

fn ratio(ratio: Option<f64>) -> Cell {
    ratio.map_or_else(Cell::unknown, |ratio| format!("{ratio:.2}").into())
}

fn said(verdict: Verdict) -> Cell {
    match verdict {
        Verdict::More => Cell::alarm("more"),
        Verdict::Less => "less".into(),
        Verdict::Same => "no claim".into(),
        Verdict::Unknown => "too few to tell".into(),
        Verdict::OnlyA => "only in A".into(),
        Verdict::OnlyB => "only in B".into(),
    }
}
