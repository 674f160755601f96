//! The report as text: 80 columns, for a person who is in a hurry.

use std::io::{self, Write};

use crate::text::{Align, Cell, Colour, Page, Table, Tone, bytes, count, counted};

use super::join::{Join, JoinedDevice};
use super::report::{
    Device, Fit, HistoryReport, Holder, OutOfMemory, Report, SegmentReport, Totals,
};

const ROWS: usize = 10;
const CURVE_WIDTH: usize = 64;

/// Writes the report.
pub fn write_text(report: &Report, colour: Colour, output: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(output, colour);
    page.section("Snapshot")?;
    let mut line = format!(
        "{} in a pickle of protocol {}",
        bytes(report.file.bytes),
        report.file.protocol
    );
    if let Some(settings) = &report.settings
        && let (Some(variable), Some(text)) = (settings.variable, &settings.configuration)
        && !text.is_empty()
    {
        line = format!("{line}; {variable}={text}");
    }
    page.paragraph(&line, Tone::Plain)?;
    if report.devices.is_empty() {
        page.paragraph(
            "It has no segments: no device memory was in use.",
            Tone::Plain,
        )?;
    }
    for one in &report.devices {
        device(one, &mut page)?;
    }
    if let Some(host) = &report.host {
        device(host, &mut page)?;
    }
    match &report.recording {
        Some(join) => self::join(join, &mut page),
        None => Ok(()),
    }
}

fn device(device: &Device, page: &mut Page<'_>) -> io::Result<()> {
    let name = device.device.map_or_else(
        || "Pinned host memory".to_owned(),
        |ordinal| format!("Device {ordinal}"),
    );
    page.section(&name)?;
    totals(&device.totals, page)?;
    if device.inconsistent_segments > 0 {
        let segments = counted(device.inconsistent_segments, "segment");
        page.paragraph(
            &format!("The blocks of {segments} do not add up to the segment: the file is damaged"),
            Tone::Alarm,
        )?;
    }
    pools(device, page)?;
    pinned(device, page)?;
    if device.holders.iter().any(|holder| holder.at.is_some()) {
        page.section(&format!("{name}: who holds it"))?;
        holders(&device.holders, page)?;
    }
    if let Some(fit) = &device.fit {
        page.section(&format!("{name}: would {} fit?", bytes(fit.requested)))?;
        self::fit(fit, page)?;
    }
    if let Some(history) = &device.history {
        page.section(&format!("{name}: history"))?;
        self::history(history, page)?;
    }
    Ok(())
}

fn totals(totals: &Totals, page: &mut Page<'_>) -> io::Result<()> {
    let Totals {
        segments,
        reserved,
        allocated_blocks,
        allocated,
        requested: _,
        pending_free,
        free_external,
        free_internal,
        largest_free,
        releasable,
    } = *totals;
    let mut table = Table::new([("", Align::Left), ("", Align::Right), ("", Align::Left)]);
    table.row([
        "reserved".into(),
        bytes(reserved).into(),
        counted(segments, "segment").into(),
    ]);
    table.row([
        "allocated".into(),
        bytes(allocated).into(),
        counted(allocated_blocks, "block").into(),
    ]);
    table.row([
        "free, external".into(),
        bytes(free_external).into(),
        "outside of these blocks".into(),
    ]);
    table.row([
        "free, internal".into(),
        bytes(free_internal).into(),
        "inside of them, lost to rounding".into(),
    ]);
    table.row([
        "largest free".into(),
        bytes(largest_free).into(),
        "free block".into(),
    ]);
    if pending_free > 0 {
        table.row([
            "pending".into(),
            Cell::alarm(bytes(pending_free)),
            "freed, still waiting for another stream".into(),
        ]);
    }
    table.row([
        "releasable".into(),
        bytes(releasable).into(),
        "in wholly free segments".into(),
    ]);
    table.write(page)
}

fn pools(device: &Device, page: &mut Page<'_>) -> io::Result<()> {
    page.end_line()?;
    let mut table = Table::new([
        ("pool", Align::Left),
        ("kind", Align::Left),
        ("stream", Align::Right),
        ("reserved", Align::Right),
        ("allocated", Align::Right),
        ("free", Align::Right),
        ("largest", Align::Right),
    ]);
    for pool in &device.pools {
        let name = match pool.pool_id {
            Some((0, 0)) => "default".to_owned(),
            Some((first, second)) => format!("({first}, {second})"),
            None => "-".to_owned(),
        };
        table.row([
            name.into(),
            pool.kind.unwrap_or("-").into(),
            pool.stream.to_string().into(),
            bytes(pool.totals.reserved).into(),
            bytes(pool.totals.allocated).into(),
            bytes(pool.totals.free_external).into(),
            bytes(pool.totals.largest_free).into(),
        ]);
    }
    table.write(page)
}

fn pinned(device: &Device, page: &mut Page<'_>) -> io::Result<()> {
    if device.pinned.segments == 0 {
        return Ok(());
    }
    page.section("Segments that few live bytes pin")?;
    page.paragraph(
        &format!(
            "{} of {} cannot be given back because of {} of live blocks (less than 5% of each):",
            counted(device.pinned.segments, "segment"),
            bytes(device.pinned.reserved),
            bytes(device.pinned.allocated)
        ),
        Tone::Plain,
    )?;
    let mut segments: Vec<&SegmentReport> = device
        .segments_by_address
        .iter()
        .filter(|segment| segment.pinned)
        .collect();
    segments.sort_by_key(|segment| std::cmp::Reverse(segment.free_external));
    for segment in segments.iter().take(ROWS) {
        let by: Vec<String> = segment
            .pinned_by
            .iter()
            .map(|holder| {
                let at = holder.at.as_deref().unwrap_or("no stack recorded");
                format!("{} ({at})", bytes(holder.bytes))
            })
            .collect();
        let line = format!(
            "{} at {:#x}: {}",
            bytes(segment.size),
            segment.address,
            by.join(", ")
        );
        page.paragraph(&line, Tone::Plain)?;
    }
    page.more(segments.len(), ROWS, "pinned segment")
}

fn holders(holders: &[Holder], page: &mut Page<'_>) -> io::Result<()> {
    let mut table = Table::new([
        ("bytes", Align::Right),
        ("blocks", Align::Right),
        ("allocated at", Align::Left),
    ]);
    for holder in holders.iter().take(ROWS) {
        table.row([
            bytes(holder.bytes).into(),
            count(holder.blocks).into(),
            holder.at.as_deref().unwrap_or("(no stack recorded)").into(),
        ]);
    }
    table.write(page)?;
    page.more(holders.len(), ROWS, "stack")
}

fn fit(fit: &Fit, page: &mut Page<'_>) -> io::Result<()> {
    for pool in &fit.pools {
        let place = match pool.pool_id {
            Some((0, 0)) | None => format!("stream {}", pool.stream),
            Some((first, second)) => {
                format!("stream {}, private pool ({first}, {second})", pool.stream)
            }
        };
        let answer = match pool.size {
            Some(size) => format!("yes, in a free block of {}", bytes(size)),
            None => format!(
                "no, the largest free block has {}",
                bytes(pool.largest_free)
            ),
        };
        page.paragraph(&format!("{place}: {answer}"), Tone::Plain)?;
    }
    let else_ = match fit.new_segment {
        Some(segment) => format!("Otherwise PyTorch asks the device for {}.", bytes(segment)),
        None => "It exceeds the address space.".to_owned(),
    };
    page.paragraph(&else_, Tone::Plain)
}

fn history(history: &HistoryReport, page: &mut Page<'_>) -> io::Result<()> {
    if !history.complete {
        page.paragraph(
            &format!(
                "history incomplete: {}",
                history.incomplete_because.join("; ")
            ),
            Tone::Alarm,
        )?;
    }
    let span = history
        .first_us
        .zip(history.last_us)
        .and_then(|(first, last)| u64::try_from(last.checked_sub(first)?).ok())
        .map_or_else(String::new, |us| {
            format!(" in {}", crate::text::duration(us.saturating_mul(1000)))
        });
    page.paragraph(
        &format!(
            "{} entries{span}: {}, {}",
            count(history.entries),
            counted(history.allocations, "allocation"),
            counted(history.frees, "free")
        ),
        Tone::Plain,
    )?;
    if let (Some(requested), Some(reserved)) = (history.peak_requested, history.peak_reserved) {
        page.paragraph(
            &format!(
                "at most {} handed out (as asked for), {} reserved",
                bytes(requested.bytes),
                bytes(reserved.bytes)
            ),
            Tone::Plain,
        )?;
    }
    curve(history, page)?;
    for oom in history.out_of_memory.iter().take(ROWS) {
        out_of_memory(oom, page)?;
    }
    page.more(history.out_of_memory.len(), ROWS, "time out of memory")
}

/// The bytes handed out, over the entries.
fn curve(history: &HistoryReport, page: &mut Page<'_>) -> io::Result<()> {
    const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = history.curve.iter().map(|point| point.requested).max();
    let Some(most @ 1..) = most else {
        return Ok(());
    };
    let step = history.curve.len().div_ceil(CURVE_WIDTH).max(1);
    let line: String = history
        .curve
        .chunks(step)
        .map(|points| {
            let value = points
                .iter()
                .map(|point| point.requested)
                .max()
                .unwrap_or(0);
            let level = (u128::from(value) * 8).div_ceil(u128::from(most));
            LEVELS[usize::try_from(level).unwrap_or(8).min(8)]
        })
        .collect();
    page.indent(2)?;
    page.paint(&line, Tone::Bar)?;
    page.end_line()
}

fn out_of_memory(oom: &OutOfMemory, page: &mut Page<'_>) -> io::Result<()> {
    let free = oom.device_free.map_or_else(String::new, |free| {
        format!(", {} of the device free", bytes(free))
    });
    let at = oom
        .at
        .as_ref()
        .map_or_else(String::new, |at| format!(" at {at}"));
    page.paragraph(
        &format!("out of memory{at}: {} asked for{free}", bytes(oom.asked)),
        Tone::Alarm,
    )?;
    if oom.retry_worked == Some(true) {
        page.paragraph(
            "The same size was handed out later with nothing freed in between: a freed block had \
             still been waiting for a stream.",
            Tone::Plain,
        )?;
    }
    Ok(())
}

fn join(join: &Join, page: &mut Page<'_>) -> io::Result<()> {
    page.section("Beside the recording")?;
    for device in &join.devices {
        joined(device, page)?;
    }
    Ok(())
}

fn joined(device: &JoinedDevice, page: &mut Page<'_>) -> io::Result<()> {
    let Some(pid) = device.pid else {
        return page.paragraph(
            &format!(
                "device {}: no process of the recording has these blocks",
                device.device
            ),
            Tone::Alarm,
        );
    };
    let verdict = if device.equal { "equal" } else { "not equal" };
    page.paragraph(
        &format!(
            "device {}, process {pid}: {verdict}; {} and {} are the same",
            device.device,
            counted(device.blocks_equal, "block"),
            counted(device.segments_equal, "segment")
        ),
        if device.equal {
            Tone::Plain
        } else {
            Tone::Alarm
        },
    )?;
    for (number, what) in [
        (device.blocks_only_in_snapshot, "block only in the snapshot"),
        (
            device.blocks_only_in_recording,
            "block only in the recording",
        ),
        (
            device.segments_only_in_snapshot,
            "segment only in the snapshot",
        ),
        (
            device.segments_only_in_recording,
            "segment only in the recording",
        ),
    ] {
        if number > 0 {
            page.paragraph(&format!("{} {what}", count(number)), Tone::Plain)?;
        }
    }
    Ok(())
}
