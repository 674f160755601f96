//! A list.

use analyzer::text::{bytes, count};
use ratatui::{
    buffer::Buffer,
    layout::{Alignment, Constraint, Rect},
    text::Line,
    widgets::{Row, Table, Widget as _},
};

use super::{
    Colours,
    style::Tone,
    text::{byte_rate, change, end_of, rate, share, time},
};
use crate::top::{
    list::{Cell, Column, List},
    state::Order,
};

/// Draws as many rows as there is room for. `order` marks the column that they are sorted by.
pub(super) fn draw(
    colours: Colours,
    list: List,
    order: Option<Order>,
    rows: &[Vec<Cell>],
    area: Rect,
    buffer: &mut Buffer,
) {
    let columns = list.columns();
    let head: Vec<Line<'_>> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let line = Line::from(column.title).alignment(alignment(column));
            if order.is_some_and(|order| order.column == at) {
                line.style(colours.style(Tone::Chosen))
            } else {
                line
            }
        })
        .collect();
    let widths = columns.iter().map(|column| match column.width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(width),
    });
    // What the others and a space after each leave.
    let taken: u16 = columns
        .iter()
        .filter(|column| column.width > 0)
        .map(|column| column.width + 1)
        .sum();
    let room = usize::from(area.width.saturating_sub(taken));
    let body = rows.iter().take(usize::from(area.height)).map(|row| {
        let cells = row.iter().zip(columns);
        Row::new(cells.map(|(cell, column)| {
            let text = match list {
                // Of a kernel the beginning tells, of a process the end.
                List::Processes if column.width == 0 => end_of(&text(cell, column), room),
                List::Memory | List::Kernels | List::Functions | List::Processes => {
                    text(cell, column)
                }
            };
            Line::from(text).alignment(alignment(column))
        }))
    });
    let table = Table::new(body, widths).header(Row::new(head).style(colours.style(Tone::Head)));
    table.render(area, buffer);
}

/// Numbers stand below each other.
const fn alignment(column: &Column) -> Alignment {
    if column.width == 0 {
        Alignment::Left
    } else {
        Alignment::Right
    }
}

fn text(cell: &Cell, column: &Column) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(value) => count(*value),
        Cell::Bytes(value) => bytes(*value),
        Cell::Rate(value) => rate(*value),
        Cell::ByteRate(value) if column.title.starts_with("CHANGE") => change(*value),
        Cell::ByteRate(value) => byte_rate(*value),
        Cell::Share(value) => share(*value),
        Cell::Time(value) => time(*value),
    }
}
