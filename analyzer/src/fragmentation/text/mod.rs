//! The report as text: at most 80 columns, for a person.

mod driver;
mod page;
mod torch;
mod verdicts;

use std::io::{self, Write};

use crate::findings;
use crate::text::Colour;

use super::report::{Device, Process, Report};
use page::{Page, harmless};

/// Rows of a list that are shown; `--json` has all.
const ROWS_SHOWN: usize = 6;

/// Writes `report`.
pub fn write_text(report: &Report, colour: Colour, output: &mut dyn Write) -> io::Result<()> {
    let start = report.recording.start_ns.unwrap_or(0);
    if !report.findings.is_empty() {
        let mut page = crate::text::Page::new(output, colour);
        findings::section(&report.findings, report.recording.start_ns, &mut page)?;
    }
    let mut page = Page {
        output,
        colour,
        start,
    };
    if report.processes.is_empty() {
        return page.paragraph(0, "No process had device memory.");
    }
    for process in &report.processes {
        process_section(process, &mut page)?;
    }
    if report
        .processes
        .iter()
        .flat_map(|process| &process.devices)
        .any(|d| d.torch.is_some())
    {
        page.blank()?;
        page.paragraph(
            0,
            "PyTorch does not report, so nobody knows from outside: sizes before rounding, the \
             stream and memory pool of a block, and whether a freed block still waits for \
             another stream.",
        )?;
    }
    losses(report, &mut page)
}

fn process_section(process: &Process, page: &mut Page) -> io::Result<()> {
    let name = process.title.as_deref().filter(|title| !title.is_empty());
    let name = name
        .or(process.exe.as_deref())
        .map_or_else(String::new, harmless);
    let name: String = name.chars().take(40).collect();
    let moment = page.moment(process.at_ns);
    let when = match process.ended {
        Some("exit") => format!("when it exited, at {moment}"),
        Some("exec") => format!("when it replaced its program, at {moment}"),
        Some(_) | None => format!("at {moment}"),
    };
    page.heading(&format!("Process {} {name}", process.pid))?;
    page.paragraph(2, &format!("What it held {when}"))?;
    if process.memory_sampled {
        let text =
            "Its memory calls came in windows, for the sake of an overhead budget: it is not known";
        page.alarm(2, text)?;
    }
    if let Some(late) = process.late_start {
        page.alarm(
            2,
            &format!(
                "Traced from after its start: blocks from before are not known ({} of them were \
                 freed since)",
                late.unknown_frees
            ),
        )?;
    }
    if process.gaps > 0 {
        page.alarm(
            2,
            &format!("Calls may have been missed in {} stretches", process.gaps),
        )?;
    }
    process
        .devices
        .iter()
        .try_for_each(|device| device_section(device, page))
}

fn device_section(device: &Device, page: &mut Page) -> io::Result<()> {
    let name = device
        .device
        .map_or("a device not known".to_owned(), |n| format!("device {n}"));
    if let Some(torch) = &device.torch {
        page.heading(&format!("PyTorch's caching allocator on {name}"))?;
        torch::totals(torch, page)?;
        if let Some(fit) = &torch.fit {
            verdicts::fit(fit, page)?;
        }
        torch::segments(torch, page)?;
        torch::pinned(torch, page)?;
        torch::free_sizes(&torch.free_sizes, page)?;
        verdicts::out_of_memory(torch, page)?;
    }
    if let Some(driver) = &device.driver {
        page.heading(&format!("Memory from the driver on {name}"))?;
        if device.torch.is_none() {
            page.paragraph(
                2,
                "PyTorch's allocator reported nothing: what is inside these blocks cannot be \
                 seen. A snapshot (torch.cuda.memory._snapshot()) would tell.",
            )?;
        }
        driver::blocks(driver, page)?;
    }
    Ok(())
}

fn losses(report: &Report, page: &mut Page) -> io::Result<()> {
    let recording = &report.recording;
    let lost = [
        (recording.lost_memory_records, "records of memory calls"),
        (recording.lost_torch_reports, "reports of PyTorch"),
        (recording.recursion_misses, "probe hits of all kinds"),
    ];
    for (count, what) in lost {
        if let Some(count @ 1..) = count {
            page.alarm(
                0,
                &format!("The recording lost {count} {what}: figures may be off."),
            )?;
        }
    }
    if !recording.complete && report.at_ns.is_none() {
        page.paragraph(
            0,
            "The recording did not end as it should; its last moment is shown.",
        )?;
    }
    Ok(())
}
