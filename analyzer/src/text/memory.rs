//! Device memory, and the sizes it is allocated in.

use std::io;

use ledger::MemoryKind;

use super::page::Page;
use super::style::Tone;
use super::table::{Align, Cell, Table};
use super::{bars, units};
use crate::report::{Distribution, Process, Report};

pub(super) fn by_device(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    if report.memory.is_empty() && !report.processes.iter().any(has_notes) {
        return Ok(());
    }
    page.section("Device memory that CUDA calls allocated")?;
    let mut table = Table::new([
        ("pid", Align::Right),
        ("device", Align::Right),
        ("live", Align::Right),
        ("held", Align::Right),
        ("peak", Align::Right),
        ("at exit", Align::Right),
        ("PyTorch", Align::Right),
        ("reserved", Align::Right),
    ]);
    for memory in &report.memory {
        let bytes = |value: Option<u64>| {
            value.map_or_else(Cell::unknown, |value| units::bytes(value).into())
        };
        let device = memory.device;
        table.row([
            memory.pid.to_string().into(),
            device.map_or_else(|| Cell::from("unknown"), |device| device.to_string().into()),
            bytes(memory.live_bytes),
            bytes(memory.held_bytes),
            bytes(memory.peak_bytes),
            bytes(memory.ended_bytes),
            bytes(memory.torch.map(|torch| torch.allocated)),
            bytes(memory.torch.map(|torch| torch.reserved)),
        ]);
    }
    table.write(page)?;
    by_kind(report, page)?;
    for process in &report.processes {
        notes(process, page)?;
    }
    Ok(())
}

/// Where there is anything but `cudaMalloc` and its like.
fn by_kind(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    let mut table = Table::new([
        ("pid", Align::Right),
        ("device", Align::Right),
        ("kind", Align::Left),
        ("live", Align::Right),
        ("", Align::Left),
    ]);
    for memory in &report.memory {
        for kind in MemoryKind::ALL {
            let live = memory.by_kind.map_or(0, |kinds| kinds.get(kind));
            if live > 0 && kind != MemoryKind::Device {
                let device = memory.device;
                table.row([
                    memory.pid.to_string().into(),
                    device.map_or_else(Cell::unknown, |device| device.to_string().into()),
                    kind.name().replace('_', " ").into(),
                    units::bytes(live).into(),
                    if kind.is_own_device_memory() {
                        "in live".into()
                    } else {
                        "apart".into()
                    },
                ]);
            }
        }
    }
    if table.is_empty() {
        return Ok(());
    }
    page.section("Of it, and besides: other kinds of memory")?;
    table.write(page)
}

fn has_notes(process: &Process) -> bool {
    process.unknown_frees > 0 || process.lost_frees > 0 || process.unread_allocations > 0
}

/// What makes a process's totals doubtful.
fn notes(process: &Process, page: &mut Page<'_>) -> io::Result<()> {
    let notes = [
        (
            process.unknown_frees,
            "free",
            "of blocks whose allocation is not in the recording",
        ),
        (
            process.lost_frees,
            "block",
            "whose free is not in the recording",
        ),
        (
            process.unread_allocations,
            "allocation",
            "whose address or size could not be read",
        ),
    ];
    for (count, thing, what) in notes {
        if count > 0 {
            let text = format!(
                "pid {}: {} {what}",
                process.pid,
                units::counted(count, thing)
            );
            page.paragraph(&text, Tone::Alarm)?;
        }
    }
    Ok(())
}

pub(super) fn allocations(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    let allocations = &report.allocations;
    let sections = [
        ("Allocation sizes", &allocations.sizes),
        ("Sizes of failed allocations", &allocations.failed_sizes),
    ];
    for (title, sizes) in sections {
        if let Some(sizes) = sizes {
            section(title, sizes, page)?;
        }
    }
    Ok(())
}

fn section(title: &str, sizes: &Distribution, page: &mut Page<'_>) -> io::Result<()> {
    page.section(&format!(
        "{title}: {} in all, p50 {}, largest {}",
        units::bytes(sizes.total),
        units::bytes(sizes.percentiles.p50),
        units::bytes(sizes.percentiles.max),
    ))?;
    bars::write([sizes], units::bytes_bound, page)
}
