//! Lines of at most 80 characters.

use std::io::{self, Write};

use crate::text::{Colour, WIDTH, pieces, shortened};

/// Where the text goes: lines of at most 80 characters.
pub(super) struct Page<'a> {
    pub(super) output: &'a mut dyn Write,
    pub(super) colour: Colour,
    /// The recording's first moment, ns.
    pub(super) start: u64,
}

#[derive(Clone, Copy)]
pub(super) enum Tone {
    Plain,
    Heading,
    Alarm,
}

impl Page<'_> {
    pub(super) fn blank(&mut self) -> io::Result<()> {
        writeln!(self.output)
    }

    pub(super) fn line(&mut self, indent: usize, text: &str, tone: Tone) -> io::Result<()> {
        let code = match (self.colour, tone) {
            (Colour::Off, _) | (Colour::On, Tone::Plain) => None,
            (Colour::On, Tone::Heading) => Some("1"),
            (Colour::On, Tone::Alarm) => Some("1;31"),
        };
        match code {
            Some(code) => writeln!(self.output, "{:indent$}\x1b[{code}m{text}\x1b[0m", ""),
            None => writeln!(self.output, "{:indent$}{text}", ""),
        }
    }

    pub(super) fn heading(&mut self, text: &str) -> io::Result<()> {
        self.blank()?;
        self.line(0, &shortened(text, WIDTH), Tone::Heading)
    }

    /// `text`, broken between words; lines after the first are indented by two more.
    pub(super) fn paragraph(&mut self, indent: usize, text: &str) -> io::Result<()> {
        self.wrapped(indent, text, Tone::Plain)
    }

    /// The same, as what one must not overlook.
    pub(super) fn alarm(&mut self, indent: usize, text: &str) -> io::Result<()> {
        self.wrapped(indent, text, Tone::Alarm)
    }

    fn wrapped(&mut self, indent: usize, text: &str, tone: Tone) -> io::Result<()> {
        let mut line = String::new();
        let mut indent = indent;
        let deeper = indent + 2;
        let words = text.split(' ');
        for word in words.flat_map(|word| pieces(word, WIDTH.saturating_sub(deeper))) {
            let fits = indent + line.chars().count() + 1 + word.chars().count() <= WIDTH;
            if !line.is_empty() && !fits {
                self.line(indent, &line, tone)?;
                line.clear();
                indent = deeper;
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
        self.line(indent, &line, tone)
    }

    pub(super) fn more(&mut self, all: usize, shown: usize, things: &str) -> io::Result<()> {
        match all.saturating_sub(shown) {
            0 => Ok(()),
            hidden => self.paragraph(
                2,
                &format!("... and {hidden} more {things} (--json has them all)"),
            ),
        }
    }

    /// A moment, as `--at` takes it.
    pub(super) fn moment(&self, ns: u64) -> String {
        let sign = if ns < self.start { "-" } else { "" };
        let distance = ns.abs_diff(self.start);
        format!(
            "{sign}{}.{:06} s",
            distance / 1_000_000_000,
            distance / 1000 % 1_000_000
        )
    }
}

pub(super) fn times(count: u64) -> String {
    if count == 1 {
        "once".to_owned()
    } else {
        format!("{count} times")
    }
}

/// `text` of a traced process, with nothing in it that a terminal would act on.
pub(super) fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// `part` of `whole` in percent, to a tenth, rounded down.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let tenths = u128::from(part) * 1000 / u128::from(whole.max(1));
    format!("{}.{}%", tenths / 10, tenths % 10)
}
