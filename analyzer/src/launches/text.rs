//! Launches as text.

use std::io::{self, Write};

use super::{KernelShare, LaunchReport};
use crate::report::{Distribution, GraphLaunches, Kernel, Percentiles};
use crate::text::{Align, Cell, Colour, Page, Table, Tone, count, counted, duration, kernel_name};

/// Most kernels and graphs that are listed.
const ROWS: usize = 40;
/// Characters of a kernel's and of a module's name.
const KERNEL: usize = 34;
const MODULE: usize = 16;

/// Writes the launches.
pub fn write(report: &LaunchReport, colour: Colour, output: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(output, colour);
    summary(report, &mut page)?;
    functions(report, &mut page)?;
    kernels(&report.kernels, &mut page)?;
    graphs(&report.graphs, &mut page)
}

fn summary(report: &LaunchReport, page: &mut Page<'_>) -> io::Result<()> {
    page.section("Launches")?;
    let LaunchReport {
        launches,
        captured,
        unnamed,
        graph_launches,
        in_graphs,
        ..
    } = *report;
    let several =
        |n: u64, what: &str| format!("{} {what}{}", count(n), if n == 1 { "" } else { "es" });
    let mut text = several(launches, "kernel launch");
    if captured > 0 {
        let captured = count(captured);
        text = format!("{text}, {captured} of them captured into graphs and run later");
    }
    if graph_launches > 0 {
        text = format!("{text}. {}", several(graph_launches, "graph launch"));
        if in_graphs > 0 {
            text = format!("{text}, which ran {}", counted(in_graphs, "kernel"));
        }
    }
    page.paragraph(&format!("{text}."), Tone::Plain)?;
    if unnamed > 0 {
        let what = several(unnamed, "launch");
        page.paragraph(
            &format!(
                "{what} without a kernel's name: the code was loaded in a way that tells none, \
                 or before tracing began."
            ),
            Tone::Alarm,
        )?;
    }
    if report.lossy == Some(true) {
        page.paragraph(
            "The recording lost events: counts are too low.",
            Tone::Alarm,
        )?;
    }
    Ok(())
}

fn functions(report: &LaunchReport, page: &mut Page<'_>) -> io::Result<()> {
    if report.functions.is_empty() {
        return Ok(());
    }
    page.section("By function")?;
    let mut table = Table::new([
        ("function", Align::Left),
        ("launches", Align::Right),
        ("captured", Align::Right),
        ("grid p50", Align::Right),
        ("max", Align::Right),
        ("block p50", Align::Right),
        ("max", Align::Right),
    ]);
    for function in &report.functions {
        let shape = &function.shape;
        table.row([
            function.api.into(),
            count(function.launches).into(),
            count(function.captured).into(),
            of(shape.grid_blocks.as_ref(), |grid| grid.p50),
            of(shape.grid_blocks.as_ref(), |grid| grid.max),
            of(shape.block_threads.as_ref(), |block| block.p50),
            of(shape.block_threads.as_ref(), |block| block.max),
        ]);
    }
    table.write(page)
}

fn kernels(kernels: &[KernelShare], page: &mut Page<'_>) -> io::Result<()> {
    if kernels.is_empty() {
        return Ok(());
    }
    page.section("Kernels")?;
    let mut table = Table::new([
        ("launches", Align::Right),
        ("share", Align::Right),
        ("grid", Align::Right),
        ("block", Align::Right),
        ("kernel", Align::Left),
        ("module", Align::Left),
    ]);
    for KernelShare { share, kernel } in kernels.iter().take(ROWS) {
        let Kernel { module, shape, .. } = kernel;
        table.row([
            count(kernel.launches).into(),
            format!("{:.1} %", share * 100.0).into(),
            of(shape.grid_blocks.as_ref(), |grid| grid.p50),
            of(shape.block_threads.as_ref(), |block| block.p50),
            kernel_name(kernel, KERNEL).into(),
            module.as_deref().map_or_else(Cell::unknown, |module| {
                crate::text::file_name(module, MODULE).into()
            }),
        ]);
    }
    table.write(page)?;
    page.more(kernels.len(), ROWS, "kernel")
}

fn graphs(graphs: &[GraphLaunches], page: &mut Page<'_>) -> io::Result<()> {
    if graphs.is_empty() {
        return Ok(());
    }
    page.section("Graphs")?;
    let mut table = Table::new([
        ("pid", Align::Right),
        ("graph", Align::Right),
        ("launches", Align::Right),
        ("nodes", Align::Right),
        ("kernels", Align::Right),
        ("call p50", Align::Right),
        ("max", Align::Right),
    ]);
    for graph in graphs.iter().take(ROWS) {
        let number = |value: Option<u64>| value.map_or_else(Cell::unknown, |n| count(n).into());
        let time = |value: fn(&Percentiles) -> u64| {
            graph
                .duration_ns
                .as_ref()
                .map_or_else(Cell::unknown, |times| {
                    duration(value(&times.percentiles)).into()
                })
        };
        table.row([
            Cell::pid(graph.pid),
            graph
                .exec
                .map_or_else(Cell::unknown, |exec| format!("{exec:#x}").into()),
            count(graph.launches).into(),
            number(graph.nodes),
            number(graph.kernels),
            time(|times| times.p50),
            time(|times| times.max),
        ]);
    }
    table.write(page)?;
    page.more(graphs.len(), ROWS, "graph")
}

fn of(distribution: Option<&Distribution>, value: fn(&Percentiles) -> u64) -> Cell {
    distribution.map_or_else(Cell::unknown, |d| count(value(&d.percentiles)).into())
}
