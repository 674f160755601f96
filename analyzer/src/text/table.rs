//! Aligned columns that fit the page.

use super::page::{Page, WIDTH};
use super::style::Tone;

/// Spaces before a row, and between two columns.
const INDENT: usize = 2;
const GAP: usize = 2;

/// Characters that a column which gives way keeps.
const NARROWEST: usize = 8;

#[derive(Clone, Copy)]
pub(crate) enum Align {
    /// Flush left. Such columns give way where the page is too narrow, the first one first.
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
                let text = shortened(&cell.text, *width);
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
        let mut excess = total.saturating_sub(WIDTH);
        for (width, (_, align)) in widths.iter_mut().zip(&self.columns) {
            if let Align::Left = align {
                let given = excess.min(width.saturating_sub(NARROWEST));
                *width -= given;
                excess -= given;
            }
        }
        widths
    }
}

/// Number of characters.
pub(crate) fn length(text: &str) -> usize {
    text.chars().count()
}

/// At most `width` characters. What is left out is in the middle, and marked: the ends of names
/// tell them apart, the last more often than the first.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    let all = length(text);
    if all <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head = kept / 3;
    let tail = text.chars().skip(all - (kept - head));
    text.chars().take(head).chain(['…']).chain(tail).collect()
}

/// `text` without what could drive a terminal: names come from the traced processes.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened_in_the_middle() {
        let name = "libtorch_python.so";
        assert_eq!(shortened(name, 18), name);
        assert_eq!(shortened(name, 16), "libto…_python.so");
        assert_eq!(shortened(name, 1), "…");
        assert_eq!(shortened("ääääää", 4), "ä…ää");
    }
}
