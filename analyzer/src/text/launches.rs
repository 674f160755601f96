//! Launches by function, kernels and graphs.

use std::io;

use super::page::Page;
use super::table::{Align, Cell, Table, shortened};
use super::{bars, calls, units};
use crate::demangle;
use crate::report::{Distribution, Kernel, LaunchShape, Percentiles, Report};

/// Most kernels and graphs that are listed.
const ROWS: usize = 20;

/// Characters of a kernel's and of a module's name.
const KERNEL: usize = 42;
const MODULE: usize = 17;

pub(super) fn by_function(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    if report.launches.is_empty() {
        return Ok(());
    }
    page.section("Kernel launches")?;
    let mut table = Table::new([
        ("function", Align::Left),
        ("launches", Align::Right),
        ("grid p50", Align::Right),
        ("max", Align::Right),
        ("block p50", Align::Right),
        ("max", Align::Right),
    ]);
    for launches in &report.launches {
        let LaunchShape {
            grid_blocks,
            block_threads,
            launch_threads: _,
        } = &launches.shape;
        table.row([
            launches.api.into(),
            units::count(launches.launches).into(),
            of(grid_blocks.as_ref(), |grid| grid.p50),
            of(grid_blocks.as_ref(), |grid| grid.max),
            of(block_threads.as_ref(), |block| block.p50),
            of(block_threads.as_ref(), |block| block.max),
        ]);
    }
    table.write(page)?;
    page.section("Threads per launch")?;
    bars::write(
        report
            .launches
            .iter()
            .filter_map(|launches| launches.shape.launch_threads.as_ref()),
        units::count,
        page,
    )
}

fn of(distribution: Option<&Distribution>, value: fn(&Percentiles) -> u64) -> Cell {
    distribution.map_or_else(Cell::unknown, |d| {
        units::count(value(&d.percentiles)).into()
    })
}

pub(super) fn kernels(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    if report.kernels.is_empty() {
        return Ok(());
    }
    page.section("Kernels")?;
    let mut table = Table::new([
        ("launches", Align::Right),
        ("block", Align::Right),
        ("kernel", Align::Left),
        ("module", Align::Left),
    ]);
    for kernel in report.kernels.iter().take(ROWS) {
        table.row([
            units::count(kernel.launches).into(),
            of(kernel.shape.block_threads.as_ref(), |block| block.p50),
            kernel_name(kernel, KERNEL).into(),
            kernel
                .module
                .as_deref()
                .map_or_else(Cell::unknown, |module| file_name(module, MODULE).into()),
        ]);
    }
    table.write(page)?;
    page.more(report.kernels.len(), ROWS, "kernel")
}

/// A kernel's name, with template arguments left out until it has so many characters, if that is
/// enough; else a table shortens it.
pub(crate) fn kernel_name(kernel: &Kernel, width: usize) -> String {
    match (&kernel.name, kernel.handle) {
        (Some(name), _) => demangle::folded(name, width),
        (None, Some(handle)) => format!("unknown ({handle:#x})"),
        (None, None) => "unknown".to_owned(),
    }
}

/// The last part of a path, at most so many characters of it.
pub(crate) fn file_name(path: &str, width: usize) -> String {
    shortened(path.rsplit('/').next().unwrap_or(path), width)
}

pub(super) fn graphs(report: &Report, page: &mut Page<'_>) -> io::Result<()> {
    if report.graph_launches.is_empty() {
        return Ok(());
    }
    page.section("Graph launches (the kernels inside make no calls of their own)")?;
    let mut table = Table::new([
        ("pid", Align::Right),
        ("graph", Align::Right),
        ("launches", Align::Right),
        ("total", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
    ]);
    for graph in report.graph_launches.iter().take(ROWS) {
        let [total, p50, _, p99, max] = calls::cells(graph.duration_ns.as_ref());
        table.row([
            Cell::pid(graph.pid),
            graph
                .exec
                .map_or_else(Cell::unknown, |exec| format!("{exec:#x}").into()),
            units::count(graph.launches).into(),
            total,
            p50,
            p99,
            max,
        ]);
    }
    table.write(page)?;
    page.more(report.graph_launches.len(), ROWS, "graph")
}
