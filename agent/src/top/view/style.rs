//! How text looks, with colours and without.

use std::env;

use ratatui::style::{Color, Modifier, Style};

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// A word that names a figure.
    Label,
    /// Something that stands out.
    Strong,
    /// Something that does not matter now.
    Faint,
    /// The head of a table.
    Head,
    /// What was chosen among others.
    Chosen,
    /// Something that is wrong.
    Bad,
}

/// Whether there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) enum Colours {
    /// The terminal's sixteen.
    Some,
    /// Bold, dim and reversed text alone.
    None,
}

impl Colours {
    /// None where the user wants none (`NO_COLOR`).
    pub(in crate::top) fn of_terminal() -> Self {
        if env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            Self::None
        } else {
            Self::Some
        }
    }

    pub(super) fn style(self, tone: Tone) -> Style {
        let plain = Style::new();
        match (tone, self) {
            (Tone::Label, Self::Some) => plain.fg(Color::Cyan),
            (Tone::Label, Self::None) => plain,
            (Tone::Strong, _) => plain.add_modifier(Modifier::BOLD),
            (Tone::Faint, _) => plain.add_modifier(Modifier::DIM),
            (Tone::Head, Self::Some) => plain.fg(Color::Black).bg(Color::Green),
            (Tone::Chosen, Self::Some) => plain.fg(Color::Black).bg(Color::Cyan),
            (Tone::Head | Tone::Chosen, Self::None) => plain.add_modifier(Modifier::REVERSED),
            (Tone::Bad, Self::Some) => plain.fg(Color::Red).add_modifier(Modifier::BOLD),
            (Tone::Bad, Self::None) => plain.add_modifier(Modifier::BOLD | Modifier::REVERSED),
        }
    }
}
