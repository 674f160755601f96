//! The histograms as text.

use std::io::{self, Write};

use super::{Measured, Quantity, Report, Unit};
use crate::histogram::Distribution;
use crate::report::Sampled;
use crate::text::{
    Align, Colour, Page, Table, Tone, bars, bytes, bytes_bound, count, counted, duration,
};

/// Most groups that are listed, and of which bars are drawn.
const ROWS: usize = 20;
const BARS: usize = 3;
/// Characters of a group's name.
const LABEL: usize = 34;

/// Writes the histograms.
pub fn write(report: &Report, colour: Colour, output: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(output, colour);
    if report.recording.is_lossy() == Some(true) {
        page.section("Losses")?;
        page.paragraph(
            "The recording lost events: counts are too low, and lifetimes may be missing.",
            Tone::Alarm,
        )?;
    }
    if let Some(sampled) = &report.recording.sampled {
        windows(sampled, report.recording.launch_gaps_left_out, &mut page)?;
    }
    for left_out in &report.recording.left_out {
        page.section("Left out")?;
        page.paragraph(&left_out.sentence(), Tone::Alarm)?;
    }
    if report.histograms.is_empty() {
        page.section("Histograms")?;
        return page.paragraph("None: nothing of it is in the recording.", Tone::Plain);
    }
    for quantity in Quantity::ALL {
        let of_it = |measured: &&Measured| measured.quantity == quantity;
        let groups: Vec<&Measured> = report.histograms.iter().filter(of_it).collect();
        if !groups.is_empty() {
            section(quantity, &groups, &mut page)?;
        }
    }
    Ok(())
}

/// What was sampled, and what that means.
fn windows(sampled: &Sampled, gaps: u64, page: &mut Page<'_>) -> io::Result<()> {
    page.section("Windows")?;
    page.paragraph(
        &format!(
            "For the sake of an overhead budget {} calls were traced in windows alone: {}, {} in \
             all. What is marked (in windows) is of these: its count is no total.",
            sampled.families.join(", "),
            counted(sampled.windows, "window"),
            duration(sampled.open_ns),
        ),
        Tone::Alarm,
    )?;
    if gaps > 0 {
        let gaps = counted(gaps, "gap");
        page.paragraph(
            &format!("{gaps} between launches that are not of one window: not counted."),
            Tone::Faint,
        )?;
    }
    Ok(())
}

fn section(quantity: Quantity, groups: &[&Measured], page: &mut Page<'_>) -> io::Result<()> {
    let is_sampled = groups.iter().any(|measured| measured.sampled);
    let mark = if is_sampled { " (in windows)" } else { "" };
    page.section(&format!("{}{mark}", quantity.title()))?;
    let value = value(quantity.unit());
    let grouped = groups.iter().any(|measured| measured.group.is_some());
    let mut table = Table::new([
        (if grouped { "of" } else { "" }, Align::Left),
        ("count", Align::Right),
        ("p50", Align::Right),
        ("p90", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
    ]);
    for measured in groups.iter().take(ROWS) {
        let Distribution {
            count: values,
            percentiles,
            ..
        } = &measured.distribution;
        let label = measured.group.as_ref().map(|group| group.label(LABEL));
        table.row([
            label.unwrap_or_else(|| "all".to_owned()).into(),
            count(*values).into(),
            value(percentiles.p50).into(),
            value(percentiles.p90).into(),
            value(percentiles.p99).into(),
            value(percentiles.max).into(),
        ]);
    }
    table.write(page)?;
    page.more(groups.len(), ROWS, "group")?;
    let over: u64 = groups.iter().map(|group| group.distribution.over).sum();
    if over > 0 {
        let values = counted(over, "value");
        page.paragraph(
            &format!("{values} of 2^63 and more: in no bucket, and no real size or time."),
            Tone::Alarm,
        )?;
    }
    for measured in groups.iter().take(BARS) {
        if let Some(group) = &measured.group {
            page.paragraph(&group.label(76), Tone::Faint)?;
        }
        bars([&measured.distribution], bound(quantity.unit()), page)?;
    }
    Ok(())
}

/// How a value is written.
fn value(unit: Unit) -> fn(u64) -> String {
    match unit {
        Unit::Bytes => bytes,
        Unit::Ns => duration,
        Unit::BytesPerSecond => rate,
        Unit::Count => count,
    }
}

/// How a bucket's bound is.
fn bound(unit: Unit) -> fn(u64) -> String {
    match unit {
        Unit::Bytes => bytes_bound,
        Unit::Ns => duration,
        Unit::BytesPerSecond => |bound| bytes_bound(bound) + "/s",
        Unit::Count => count,
    }
}

fn rate(bytes_per_second: u64) -> String {
    bytes(bytes_per_second) + "/s"
}
