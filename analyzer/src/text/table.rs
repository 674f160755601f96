//! Aligned columns that fit the page.

use super::page::{Page, WIDTH};
use super::style::Tone;

/// Spaces before a row, and between two columns.
const INDENT: usize = 2;
const GAP: usize = 2;

#[derive(Clone, Copy)]
pub(crate) enum Align {
    /// Flush left. The first such column gives way where the page is too narrow.
    Left,
    Right,
}

/// A table. Cells may hold anything: control characters are made harmless.
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
}

pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: printable(text.as_ref()),
            tone: Tone::Plain,
        }
    }
}

impl Cell {
    /// A cell that one must not overlook.
    pub(crate) fn alarm(text: impl AsRef<str>) -> Self {
        Self {
            tone: Tone::Alarm,
            ..Self::from(text)
        }
    }

    /// What is unknown.
    pub(crate) fn unknown() -> Self {
        Self::from("-")
    }

    /// A process id; `None` stands for the many that are not told apart.
    pub(crate) fn pid(pid: Option<u32>) -> Self {
        pid.map_or_else(|| Self::from("others"), |pid| Self::from(pid.to_string()))
    }

    pub(crate) fn bar(text: impl AsRef<str>) -> Self {
        Self {
            tone: Tone::Bar,
            ..Self::from(text)
        }
    }
}

impl Table {
    pub(crate) fn new(columns: impl IntoIterator<Item = (&'static str, Align)>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        debug_assert_eq!(N, self.columns.len());
        self.rows.push(cells.into());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the titles, if there are any, and the rows.
    pub(crate) fn write(mut self, page: &mut Page<'_>) -> std::io::Result<()> {
        let widths = self.widths();
        if self.columns.iter().any(|(title, _)| !title.is_empty()) {
            let titles = self.columns.iter();
            let titles = titles.map(|(title, _)| Cell {
                tone: Tone::Faint,
                ..Cell::from(title)
            });
            self.rows.insert(0, titles.collect());
        }
        for row in &self.rows {
            page.indent(INDENT)?;
            let mut pending = 0; // No blanks at the end of a line.
            for ((cell, width), (_, align)) in row.iter().zip(&widths).zip(&self.columns) {
                let text = cut(&cell.text, *width);
                let blanks = width - length(&text);
                let (before, after) = match align {
                    Align::Left => (0, blanks),
                    Align::Right => (blanks, 0),
                };
                if text.is_empty() {
                    pending += width + GAP;
                    continue;
                }
                page.indent(pending + before)?;
                page.paint(&text, cell.tone)?;
                pending = after + GAP;
            }
            page.end_line()?;
        }
        Ok(())
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(column, (title, _))| {
                let cells = self.rows.iter().map(|row| length(&row[column].text));
                cells.chain([length(title)]).max().unwrap_or(0)
            })
            .collect();
        let total = INDENT + widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        let flexible = self
            .columns
            .iter()
            .position(|(_, align)| matches!(align, Align::Left));
        if let Some(flexible) = flexible {
            let excess = total.saturating_sub(WIDTH);
            widths[flexible] = widths[flexible].saturating_sub(excess).max(8);
        }
        widths
    }
}

/// Number of characters.
pub(crate) fn length(text: &str) -> usize {
    text.chars().count()
}

/// At most `width` characters; a cut is marked.
fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    text.chars()
        .take(width.saturating_sub(1))
        .chain(['…'])
        .collect()
}

/// `text` without what could drive a terminal: names come from the traced processes.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
