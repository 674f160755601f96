//! What grows, as text.

use std::io::{self, Write};

use super::{Growth, LeakReport, Shape, Sleep};
use crate::findings;
use crate::text::{Align, Cell, Colour, Page, Table, Tone, bytes, file_name, since};

/// Most lines that are shown.
const LINES: usize = 24;

/// A line below this is shown only if it grows, bytes.
const SMALL: u64 = 1 << 20;

/// Writes the report.
pub fn write(report: &LeakReport, colour: Colour, output: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(output, colour);
    findings::section(&report.findings, report.recording.start_ns, &mut page)?;
    lines(&report.growth, &mut page)?;
    sleeps(&report.sleeps, report.recording.start_ns, &mut page)
}

fn lines(growth: &[Growth], page: &mut Page<'_>) -> io::Result<()> {
    let is_shown = |line: &&Growth| {
        line.shape == Shape::Growing || line.is_total() && line.live_bytes >= SMALL
    };
    let shown: Vec<&Growth> = growth.iter().filter(is_shown).collect();
    page.section("Memory over time")?;
    if shown.is_empty() {
        return page.paragraph("No memory was held.", Tone::Faint);
    }
    let mut table = Table::new([
        ("pid", Align::Right),
        ("device", Align::Right),
        ("memory", Align::Left),
        ("sizes up to", Align::Right),
        ("at the end", Align::Right),
        ("shape", Align::Left),
        ("a minute", Align::Right),
    ]);
    for line in shown.iter().take(LINES) {
        let sizes = line.sizes_to.map_or_else(|| "all".to_owned(), bytes);
        let rate = line.rate.map_or_else(
            || Cell::from(""),
            |rate| bytes(per_minute(rate.bytes_per_second)).into(),
        );
        let shape = line.shape.name().replace('_', " ");
        let source = line.source.name().replace('_', " ");
        let memory = match line.caller.as_deref() {
            Some(caller) => format!("{source} by {}", file_name(caller, usize::MAX)),
            None => source,
        };
        table.row([
            line.pid.to_string().into(),
            line.device
                .map_or_else(Cell::unknown, |device| device.to_string().into()),
            memory.into(),
            sizes.into(),
            bytes(line.live_bytes).into(),
            if line.shape == Shape::Growing {
                Cell::alarm(shape)
            } else {
                shape.into()
            },
            rate,
        ]);
    }
    table.write(page)?;
    page.more(shown.len(), LINES, "line")?;
    page.paragraph(
        "Judged by what is never given back up to the end. At the end: of the process or of the \
         recording; what a process holds when it ends is no leak.",
        Tone::Faint,
    )
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is no less than 0, and one too large becomes the largest"
)]
fn per_minute(bytes_per_second: f64) -> u64 {
    (bytes_per_second * 60.0) as u64
}

fn sleeps(sleeps: &[Sleep], start: Option<u64>, page: &mut Page<'_>) -> io::Result<()> {
    if sleeps.is_empty() {
        return Ok(());
    }
    page.section("Sleeps: physical memory given back, its addresses kept")?;
    let mut table = Table::new([
        ("pid", Align::Right),
        ("at", Align::Right),
        ("unmapped", Align::Right),
        ("freed", Align::Right),
        ("kept", Align::Right),
    ]);
    for sleep in sleeps.iter().take(LINES) {
        let Sleep {
            pid,
            from_ns,
            to_ns: _,
            unmapped_bytes,
            freed_bytes,
            kept_bytes,
        } = *sleep;
        table.row([
            pid.to_string().into(),
            since(from_ns, start).into(),
            bytes(unmapped_bytes).into(),
            bytes(freed_bytes).into(),
            bytes(kept_bytes).into(),
        ]);
    }
    table.write(page)?;
    page.more(sleeps.len(), LINES, "sleep")
}
