//! The report as text: 80 columns, for a person who is in a hurry.

use std::io::{self, Write};

use crate::text::{Align, Colour, Page, Table, Tone, bytes, counted};

use super::report::{OutOfMemory, Report};

/// The most messages that are shown; the JSON has all.
const SHOWN: usize = 20;

/// Writes the report.
pub fn write_text(report: &Report, colour: Colour, output: &mut dyn Write) -> io::Result<()> {
    let mut page = Page::new(output, colour);
    if report.messages.is_empty() {
        return page.paragraph(
            "No out-of-memory message of PyTorch was found.",
            Tone::Plain,
        );
    }
    for message in report.messages.iter().take(SHOWN) {
        self::message(message, &mut page)?;
    }
    page.more(report.messages.len(), SHOWN, "message")
}

fn message(message: &OutOfMemory, page: &mut Page<'_>) -> io::Result<()> {
    page.section(&format!("Out of memory: {}", message.verdict.name()))?;
    let mut place = Vec::new();
    if let (Some(input), Some(line)) = (&message.input, message.line) {
        place.push(format!("{input}, line {line}"));
    }
    place.extend(message.writer.clone());
    place.extend(message.pid.map(|pid| format!("process {pid}")));
    place.extend(message.device.map(|device| format!("device {device}")));
    if message.repeats > 1 {
        place.push(counted(message.repeats, "time"));
    }
    place.push(format!("by {}", message.sources.join(", ")));
    page.paragraph(&place.join("; "), Tone::Faint)?;
    page.paragraph(&format!("{}.", message.because), Tone::Plain)?;
    page.paragraph(&format!("Next: {}.", message.next_step.text), Tone::Plain)?;
    if let Some(setting) = message.next_step.setting {
        let before = if setting.named {
            ""
        } else {
            " (PYTORCH_CUDA_ALLOC_CONF before PyTorch 2.10)"
        };
        page.paragraph(
            &format!("{}={}{before}", setting.variable, setting.value),
            Tone::Plain,
        )?;
    }
    let mut table = Table::new([("", Align::Left), ("", Align::Right)]);
    for (name, value) in [
        ("asked of the device", message.asked),
        ("short by", message.short_by),
        ("would have fitted", message.would_have_fitted),
        ("device", message.total),
        ("free", message.free),
        ("allowed", message.allowed),
        ("allocated by PyTorch", message.allocated),
        ("held unused by PyTorch", message.unallocated),
        ("in private pools", message.private_pools),
        ("not PyTorch's, this process", message.non_pytorch),
        ("largest free block", message.largest_free),
        ("waiting for a stream", message.pending_free),
    ] {
        if let Some(value) = value {
            table.row([name.into(), bytes(value).into()]);
        }
    }
    for other in &message.other_processes {
        let size = other.bytes.map_or_else(|| "-".to_owned(), bytes);
        table.row([format!("process {}", other.pid).into(), size.into()]);
    }
    if table.is_empty() {
        return Ok(());
    }
    table.write(page)
}
