//! What processes hold on devices.

use analyzer::text::bytes;
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Rect},
    text::Line,
    widgets::{Row, Table, Widget as _},
};

use super::{
    Colours,
    style::Tone,
    text::{UNKNOWN, end_of},
};
use crate::top::{list::ordinal, reading::Device};

/// Titles, and widths; 0 for the rest. The columns before the last one go where room is short.
const COLUMNS: [(&str, u16); 10] = [
    ("PID", 7),
    ("GPU", 3),
    ("LIVE", 8),
    ("HELD", 8),
    ("WASTE", 8),
    ("FREE", 8),
    ("PYTORCH", 8),
    ("RESERVED", 8),
    ("PEAK", 8),
    ("PROCESS", 0),
];
/// Where it stands.
const PEAK: usize = 8;
/// Columns of the screen from which on the peak is shown.
const WIDE: u16 = 100;

pub(super) fn draw(colours: Colours, devices: &[Device], area: Rect, buffer: &mut Buffer) {
    let is_shown = |column: usize| column != PEAK || area.width >= WIDE;
    let columns = || {
        COLUMNS
            .into_iter()
            .enumerate()
            .filter(|(at, _)| is_shown(*at))
    };
    let head: Vec<Line<'_>> = columns()
        .map(|(_, (title, width))| aligned(title.to_owned(), width))
        .collect();
    let widths = columns().map(|(_, (_, width))| match width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(width),
    });
    let mut devices: Vec<&Device> = devices.iter().collect();
    // Those that live, the largest first.
    devices.sort_by_key(|device| (device.has_ended, std::cmp::Reverse(device.held)));
    // What the others and a space after each leave.
    let taken: u16 = columns()
        .filter(|(_, (_, width))| *width > 0)
        .map(|(_, (_, width))| width + 1)
        .sum();
    let room = usize::from(area.width.saturating_sub(taken));
    let rows = devices.into_iter().map(|device| {
        let texts = texts(device, room);
        let cells: Vec<Line<'_>> = columns()
            .zip(
                texts
                    .into_iter()
                    .enumerate()
                    .filter(|(at, _)| is_shown(*at)),
            )
            .map(|((_, (_, width)), (_, text))| aligned(text, width))
            .collect();
        let row = Row::new(cells);
        if device.has_ended {
            row.style(colours.style(Tone::Faint))
        } else {
            row
        }
    });
    let table = Table::new(rows, widths).header(Row::new(head).style(colours.style(Tone::Head)));
    table.render(area, buffer);
}

fn texts(device: &Device, room: usize) -> [String; COLUMNS.len()] {
    let or_unknown = |known: Option<u64>| known.map_or_else(|| UNKNOWN.to_owned(), bytes);
    let ended = if device.has_ended { " (ended)" } else { "" };
    [
        device.pid.to_string(),
        ordinal(device.ordinal),
        or_unknown(device.live),
        or_unknown(device.held),
        or_unknown(device.waste),
        or_unknown(device.free),
        or_unknown(device.torch.map(|torch| torch.allocated)),
        or_unknown(device.torch.map(|torch| torch.reserved)),
        or_unknown(device.peak),
        end_of(&format!("{}{ended}", device.process), room),
    ]
}

fn aligned(text: String, width: u16) -> Line<'static> {
    let line = Line::from(text);
    if width == 0 {
        line.left_aligned()
    } else {
        line.right_aligned()
    }
}
