//! What the sections write to: lines of at most [`WIDTH`] characters.

use std::io::{self, Write};

use super::style::{Colour, Painted, Tone};
use super::table::{length, printable};
use super::units;

/// Characters in a line.
pub(crate) const WIDTH: usize = 80;

pub(crate) struct Page<'a> {
    output: &'a mut dyn Write,
    colour: Colour,
    is_begun: bool,
}

impl<'a> Page<'a> {
    pub(crate) fn new(output: &'a mut dyn Write, colour: Colour) -> Self {
        Self {
            output,
            colour,
            is_begun: false,
        }
    }

    /// Begins a section.
    pub(crate) fn section(&mut self, title: &str) -> io::Result<()> {
        if self.is_begun {
            self.end_line()?;
        }
        self.is_begun = true;
        for line in broken(title, WIDTH) {
            self.paint(&line, Tone::Heading)?;
            self.end_line()?;
        }
        Ok(())
    }

    /// A paragraph, broken between words. Control characters are made harmless.
    pub(crate) fn paragraph(&mut self, text: &str, tone: Tone) -> io::Result<()> {
        for line in broken(text, WIDTH - 2) {
            self.line(&line, tone)?;
        }
        Ok(())
    }

    /// A paragraph beside its label, which stands `label.len()` wide before the first line.
    pub(crate) fn labelled(
        &mut self,
        label: (&str, Tone),
        text: &str,
        tone: Tone,
    ) -> io::Result<()> {
        let (label, of_label) = label;
        let margin = 2 + length(label);
        for (number, line) in broken(text, WIDTH.saturating_sub(margin))
            .iter()
            .enumerate()
        {
            if number == 0 {
                self.indent(2)?;
                self.paint(label, of_label)?;
            } else {
                self.indent(margin)?;
            }
            self.paint(line, tone)?;
            self.end_line()?;
        }
        Ok(())
    }

    /// Says that only the first `shown` of `all` things were listed, if so.
    pub(crate) fn more(&mut self, all: usize, shown: usize, thing: &str) -> io::Result<()> {
        let hidden = all.saturating_sub(shown);
        if hidden == 0 {
            return Ok(());
        }
        let hidden = units::counted(hidden as u64, &format!("more {thing}"));
        self.line(
            &format!("... and {hidden} (--json has them all)"),
            Tone::Faint,
        )
    }

    pub(crate) fn paint(&mut self, text: &str, tone: Tone) -> io::Result<()> {
        write!(
            self.output,
            "{}",
            Painted {
                text,
                tone,
                colour: self.colour
            }
        )
    }

    pub(crate) fn indent(&mut self, blanks: usize) -> io::Result<()> {
        write!(self.output, "{:blanks$}", "")
    }

    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        writeln!(self.output)
    }

    fn line(&mut self, text: &str, tone: Tone) -> io::Result<()> {
        self.indent(2)?;
        self.paint(text, tone)?;
        self.end_line()
    }
}

/// The lines of a text that is broken between words into at most `width` characters; a word that
/// is longer, inside of it.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let text = printable(text);
    for word in text.split(' ').flat_map(|word| pieces(word, width)) {
        if !line.is_empty() && length(&line) + 1 + length(&word) > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    lines.push(line);
    lines
}

/// A word, in pieces of at most `width` characters.
pub(crate) fn pieces(word: &str, width: usize) -> Vec<String> {
    let characters: Vec<char> = word.chars().collect();
    if characters.len() <= width {
        return vec![word.to_owned()];
    }
    let pieces = characters.chunks(width.max(1));
    pieces.map(|piece| piece.iter().collect()).collect()
}
