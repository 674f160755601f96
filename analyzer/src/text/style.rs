//! Colour, where the reader is a person who wants it.

use std::fmt;
use std::io::{self, IsTerminal};

/// Whether to write ANSI colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// With colours.
    On,
    /// Without.
    Off,
}

impl Colour {
    /// Colour if standard output is a terminal that has it and `NO_COLOR` is unset or empty
    /// (<https://no-color.org>).
    pub fn of_stdout() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        if io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb {
            Self::On
        } else {
            Self::Off
        }
    }
}

/// What a piece of text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Heading,
    /// Column titles, and what is said beside the point.
    Faint,
    /// What one must not overlook.
    Alarm,
    /// What is worth a look.
    Warning,
    Bar,
}

/// `text` in the colour of its tone.
pub(crate) struct Painted<'a> {
    pub(crate) text: &'a str,
    pub(crate) tone: Tone,
    pub(crate) colour: Colour,
}

impl fmt::Display for Painted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, tone, colour } = *self;
        let code = match tone {
            Tone::Plain => "",
            Tone::Heading => "1",
            Tone::Faint => "2",
            Tone::Alarm => "1;31",
            Tone::Warning => "1;33",
            Tone::Bar => "36",
        };
        if colour == Colour::Off || code.is_empty() {
            return formatter.write_str(text);
        }
        write!(formatter, "\x1b[{code}m{text}\x1b[0m")
    }
}
