//! The line of keys, and the page that explains them.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::Widget as _,
};

use super::{Colours, style::Tone};
use crate::top::state::State;

/// Keys of the last line.
const KEYS: [(&str, &str); 7] = [
    ("F1", "Help"),
    ("Tab", "List"),
    ("/", "Filter"),
    ("< >", "Sort"),
    ("Space", "Pause"),
    ("+ -", "Interval"),
    ("q", "Quit"),
];
/// The same while a filter is typed.
const TYPING: [(&str, &str); 2] = [("Enter", "Keep"), ("Esc", "Clear")];

/// What keys do, and what figures mean: docs/top.md has more.
const PAGE: [&str; 21] = [
    "q F10 Ctrl-C   quit; a command is asked to end   h ? F1  this page",
    "Tab Shift-Tab  the next list, the one before     m k f p one by its letter",
    "< > F6 ← →     sort by another column            R I     the other way round",
    "/ F3 F4        only rows with a text; Esc clears ↑ ↓ PgUp PgDn Home End",
    "Space          pause; tracing goes on            + -     another interval",
    "",
    "First comes the rate of the last interval, then all since cudasnoop started.",
    "",
    "Waiting   time in synchronizing calls; 100 % is one thread doing nothing else",
    "captured  launches into a graph under capture: they ran nothing",
    "lost      records that no figure has, by cause (docs/metrics.md)",
    "",
    "LIVE      memory that was allocated and not freed",
    "HELD      device pages that it touches; WASTE: of them, what nothing live uses",
    "FREE      of the whole device, when the process last asked",
    "PYTORCH   allocated by tensors; RESERVED: held by PyTorch's allocator",
    "CALLER    the library that took the memory",
    "",
    "What is not known reads -.",
    "",
    "Any key goes back.",
];

/// The last line.
pub(super) fn keys(colours: Colours, state: &State, area: Rect, buffer: &mut Buffer) {
    let keys: &[(&str, &str)] = if state.is_typing { &TYPING } else { &KEYS };
    let mut spans = Vec::new();
    for (key, meaning) in keys {
        spans.push(Span::styled(*key, colours.style(Tone::Strong)));
        spans.push(Span::raw(" "));
        spans.push(Span::styled(*meaning, colours.style(Tone::Chosen)));
        spans.push(Span::raw("  "));
    }
    Line::from(spans).render(area, buffer);
}

/// The page.
pub(super) fn page(area: Rect, buffer: &mut Buffer) {
    for (text, row) in PAGE.into_iter().zip(area.rows()) {
        Line::from(text).render(row, buffer);
    }
}
