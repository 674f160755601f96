//! Launches as text.

use std::io::{self, Write};

use super::{KernelShare, LaunchReport};
use crate::findings;
use crate::report::{Distribution, GraphLaunches, Kernel, Percentiles};
use crate::text::{
    Align, Cell, Colour, Page, Table, Tone, count, counted, duration, kernel_name, percent,
};

/// Most kernels and graphs that are listed.
const ROWS: usize = 40;
/// Characters of a kernel's and of a module's name.
const KERNEL: usize = 34;
const MODULE: usize = 16;

/// Writes the launches.
pub fn write(report: &LaunchReport, colour: Colour, output: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(output, colour);
    if !report.findings.is_empty() {
        findings::section(&report.findings, report.start_ns, &mut page)?;
    }
    summary(report, &mut page)?;
    functions(report, &mut page)?;
    sources(report, &mut page)?;
    threads(report, &mut page)?;
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

fn sources(report: &LaunchReport, page: &mut Page<'_>) -> io::Result<()> {
    if report.sources.is_empty() {
        return Ok(());
    }
    page.section("By maker of the kernel, as its name and file tell")?;
    let mut table = Table::new([
        ("maker", Align::Left),
        ("launches", Align::Right),
        ("share", Align::Right),
        ("captured", Align::Right),
    ]);
    for source in &report.sources {
        table.row([
            source.source.name().into(),
            count(source.launches).into(),
            format!("{:.1} %", source.share * 100.0).into(),
            count(source.captured).into(),
        ]);
    }
    table.write(page)
}

fn threads(report: &LaunchReport, page: &mut Page<'_>) -> io::Result<()> {
    if report.threads.is_empty() {
        return Ok(());
    }
    page.section("By thread: launches that follow each other within 1 ms")?;
    let mut table = Table::new([
        ("pid", Align::Right),
        ("thread", Align::Right),
        ("launches", Align::Right),
        ("in a row", Align::Right),
        ("for", Align::Right),
        ("of", Align::Right),
        ("every", Align::Right),
        ("a call", Align::Right),
        ("small", Align::Right),
    ]);
    for thread in report.threads.iter().take(ROWS) {
        let pace = &thread.pace;
        let span = pace.launched_from_ns.zip(pace.launched_to_ns);
        let time = |ns: Option<u64>| ns.map_or_else(Cell::unknown, |ns| duration(ns).into());
        table.row([
            Cell::pid(thread.pid),
            Cell::pid(thread.tid),
            count(pace.launches).into(),
            count(pace.back_to_back.calls).into(),
            duration(pace.back_to_back.total_ns).into(),
            time(span.map(|(from, to)| to.saturating_sub(from))),
            time(pace.interval_ns.map(|interval| interval.p50)),
            time(pace.call_ns.map(|call| call.percentiles.p50)),
            if pace.grids == 0 {
                Cell::unknown()
            } else {
                format!("{} %", percent(pace.small_grids, pace.grids)).into()
            },
        ]);
    }
    table.write(page)?;
    page.more(report.threads.len(), ROWS, "thread")?;
    page.paragraph(
        "Small: grids of fewer than 64 blocks. Captured launches are left out. A launch call's own \
         time is known with --launch-returns.",
        Tone::Faint,
    )
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
