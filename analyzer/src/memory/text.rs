//! The report as text: 80 columns, for a person at three in the morning.

use std::io::{self, Write};

use ledger::MemoryKind;

use super::report::{Curve, Device, Holder, Kinds, Process, Report};
use crate::text::{
    Align, Cell, Colour, Page, Table, Tone, bytes, count, counted, file_name, since,
};

/// Most holders that are listed of a device.
const HOLDERS: usize = 10;

/// Characters of a caller's file name.
const CALLER: usize = 30;

/// Most points of a curve that are listed.
const POINTS: usize = 24;

/// Characters of the longest bar of a curve.
const BAR: u64 = 24;

/// Writes the report.
pub fn write_text(report: &Report, colour: Colour, output: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(output, colour);
    let start = report.recording.start_ns;
    if report.processes.is_empty() {
        page.section("Memory")?;
        page.paragraph("No process had to do with memory.", Tone::Plain)?;
    }
    for process in &report.processes {
        process_section(process, report, &mut page)?;
    }
    for curve in report.timeline.iter().flatten() {
        curve_section(curve, start, &mut page)?;
    }
    Ok(())
}

fn process_section(process: &Process, report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    let name = match process.title.as_deref().filter(|title| !title.is_empty()) {
        Some(title) => title,
        None => process.exe.as_deref().unwrap_or("unknown"),
    };
    let start = report.recording.start_ns;
    let when = match (report.at_ns, process.end) {
        (Some(at), _) => format!("at {}", since(at, start)),
        (None, Some("exit")) => format!("right before its exit at {}", since(process.at_ns, start)),
        (None, Some("exec")) => {
            format!("right before its exec at {}", since(process.at_ns, start))
        }
        (None, Some(_)) => format!(
            "before another took its id at {}",
            since(process.at_ns, start)
        ),
        (None, None) => "at the end of the recording".to_owned(),
    };
    page.section(&format!("Process {} ({name}), {when}", process.pid))?;
    devices(process, start, page)?;
    kinds(process, page)?;
    holders(process, page)?;
    pools(process, page)?;
    notes(process, page)
}

fn ordinal(device: &Device) -> Cell {
    device.device.map_or_else(
        || Cell::from("none known"),
        |device| device.to_string().into(),
    )
}

fn devices(process: &Process, start: Option<u64>, page: &mut Page<'_>) -> io::Result<()> {
    let mut table = Table::new([
        ("device", Align::Right),
        ("live", Align::Right),
        ("held", Align::Right),
        ("peak", Align::Right),
        ("peak at", Align::Right),
        ("PyTorch", Align::Right),
        ("reserved", Align::Right),
    ]);
    let known = |value: Option<u64>| value.map_or_else(Cell::unknown, |value| bytes(value).into());
    for device in &process.devices {
        let torch = |of: fn(&super::Torch) -> u64| {
            let torch = device.torch.as_ref();
            torch.map_or_else(Cell::unknown, |torch| bytes(of(torch)).into())
        };
        table.row([
            ordinal(device),
            known(device.live_bytes),
            known(device.held_bytes),
            known(device.peak_bytes),
            device
                .peak_ns
                .map_or_else(Cell::unknown, |at| since(at, start).into()),
            torch(|torch| torch.allocated),
            torch(|torch| torch.reserved),
        ]);
    }
    table.write(page)?;
    for device in &process.devices {
        let name = device.device.map(|device| format!("device {device}"));
        let name = name.as_deref().unwrap_or("a device that is not known");
        if let Some(unattributed) = device.unattributed_bytes {
            let text = format!(
                "{name}: {} more were in use when the program asked: contexts, modules, graphs, \
                 what pools keep, managed memory, other processes",
                bytes(unattributed)
            );
            page.paragraph(&text, Tone::Plain)?;
        } else if device.unattributed_at_ns.is_some() {
            let text = format!(
                "{name}: less was in use when the program asked than is known here: frees are \
                 missing"
            );
            page.paragraph(&text, Tone::Alarm)?;
        }
    }
    Ok(())
}

fn kinds(process: &Process, page: &mut Page<'_>) -> io::Result<()> {
    let mut table = Table::new([
        ("device", Align::Right),
        ("kind", Align::Left),
        ("now", Align::Right),
        ("at the peak", Align::Right),
        ("", Align::Left),
    ]);
    for device in &process.devices {
        for kind in MemoryKind::ALL {
            let of = |kinds: Option<Kinds>| kinds.map_or(0, |kinds| kinds.get(kind));
            let (now, then) = (of(device.by_kind), of(device.peak_by_kind));
            if now > 0 || then > 0 {
                let apart = if kind.is_own_device_memory() {
                    ""
                } else {
                    "not in live"
                };
                table.row([
                    ordinal(device),
                    kind.name().replace('_', " ").into(),
                    bytes(now).into(),
                    bytes(then).into(),
                    apart.into(),
                ]);
            }
        }
    }
    if table.is_empty() {
        return Ok(());
    }
    page.section("  By kind")?;
    table.write(page)
}

fn holders(process: &Process, page: &mut Page<'_>) -> io::Result<()> {
    for device in process
        .devices
        .iter()
        .filter(|device| !device.holders.is_empty())
    {
        let of = device
            .device
            .map_or_else(String::new, |device| format!(" of device {device}"));
        page.section(&format!("  Who holds the memory{of}"))?;
        let mut table = Table::new([
            ("caller", Align::Left),
            ("kind", Align::Left),
            ("sizes up to", Align::Right),
            ("count", Align::Right),
            ("live", Align::Right),
        ]);
        for holder in device.holders.iter().take(HOLDERS) {
            table.row([
                caller(holder).into(),
                holder.kind.replace('_', " ").into(),
                bytes(holder.size_class_bytes).into(),
                count(holder.live_count).into(),
                bytes(holder.live_bytes).into(),
            ]);
        }
        table.write(page)?;
        page.more(device.holders.len(), HOLDERS, "holder")?;
    }
    Ok(())
}

fn caller(holder: &Holder) -> String {
    let caller = holder.caller.as_deref();
    caller.map_or_else(|| "unknown".to_owned(), |path| file_name(path, CALLER))
}

fn pools(process: &Process, page: &mut Page<'_>) -> io::Result<()> {
    if process.pools.is_empty() {
        return Ok(());
    }
    page.section("  Memory pools (what they keep unused is not told)")?;
    let mut table = Table::new([
        ("pool", Align::Left),
        ("device", Align::Right),
        ("live", Align::Right),
        ("may keep", Align::Right),
        ("trims", Align::Right),
    ]);
    for pool in process.pools.iter().take(HOLDERS) {
        let device = pool.device;
        let threshold = pool.release_threshold_bytes;
        table.row([
            format!("{:#x}", pool.handle).into(),
            device.map_or_else(Cell::unknown, |device| device.to_string().into()),
            bytes(pool.live_bytes).into(),
            threshold.map_or_else(Cell::unknown, |bytes_kept| bytes(bytes_kept).into()),
            count(pool.trims).into(),
        ]);
    }
    table.write(page)?;
    page.more(process.pools.len(), HOLDERS, "pool")
}

/// What makes totals doubtful, and how memory ended.
fn notes(process: &Process, page: &mut Page<'_>) -> io::Result<()> {
    let ended = &process.ended;
    let ends = [
        (ended.freed, "freed", Tone::Plain),
        (
            ended.implicit,
            "gone with the process or a context",
            Tone::Plain,
        ),
        (
            ended.lost_free,
            "freed unseen: their addresses were handed out again",
            Tone::Alarm,
        ),
        (
            ended.unknown,
            "of which it is not known whether they were freed",
            Tone::Alarm,
        ),
    ];
    for (held, how, tone) in ends {
        if held.count > 0 {
            let text = format!(
                "{} of {} {how}",
                counted(held.count, "block"),
                bytes(held.bytes)
            );
            page.paragraph(&text, tone)?;
        }
    }
    if !process.from_start {
        let text = "It ran before it was traced: what it held then is in no total";
        page.paragraph(text, Tone::Alarm)?;
    }
    if process.memory_sampled {
        let text = "Its memory calls come in windows, for the sake of an overhead budget: what it holds is not known";
        page.paragraph(text, Tone::Alarm)?;
    }
    let counts = [
        (
            process.unknown_frees,
            "free",
            "of what was not seen allocated",
        ),
        (
            process.failed_allocations.count,
            "allocation",
            "that failed",
        ),
        (process.failed_frees, "free", "that failed"),
        (
            process.unread_allocations.count,
            "allocation",
            "whose address or size could not be read: in no total",
        ),
        (
            process.unsized_allocations,
            "allocation",
            "of a size that is not known: 0 in all totals",
        ),
        (
            process.unknown_mappings,
            "mapping",
            "of memory that was not seen created: in no total",
        ),
        (
            process.untracked.count,
            "allocation",
            "that found no place in the ledger: in no total",
        ),
        (
            process.gaps,
            "stretch",
            "in which calls may have been missed",
        ),
    ];
    for (number, thing, what) in counts {
        if number > 0 {
            page.paragraph(&format!("{} {what}", counted(number, thing)), Tone::Alarm)?;
        }
    }
    Ok(())
}

fn curve_section(curve: &Curve, start: Option<u64>, page: &mut Page<'_>) -> io::Result<()> {
    let device = curve
        .device
        .map_or_else(|| "not known".to_owned(), |device| device.to_string());
    page.section(&format!(
        "Live memory of process {} on device {device}",
        curve.pid
    ))?;
    let most = curve.points.iter().map(|point| point.most_live_bytes).max();
    let mut table = Table::new([
        ("until", Align::Right),
        ("live", Align::Right),
        ("most", Align::Right),
        ("reserved", Align::Right),
        ("", Align::Left),
    ]);
    for points in curve
        .points
        .chunks(curve.points.len().div_ceil(POINTS).max(1))
    {
        let Some(last) = points.last() else { continue };
        let highest = points.iter().map(|point| point.most_live_bytes).max();
        let highest = highest.unwrap_or(0);
        let length = u128::from(highest) * u128::from(BAR) / u128::from(most.unwrap_or(0).max(1));
        table.row([
            since(last.at_ns, start).into(),
            bytes(last.live_bytes).into(),
            bytes(highest).into(),
            last.torch
                .map_or_else(Cell::unknown, |torch| bytes(torch.reserved).into()),
            Cell::bar("█".repeat(usize::try_from(length).unwrap_or(0))),
        ]);
    }
    table.write(page)
}
