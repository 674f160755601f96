//! The frame: what is drawn, from two readings and what the person wants to see. The same code
//! draws the screen and prints text.

mod devices;
mod help;
mod rows;
mod style;
mod summary;
#[cfg(test)]
mod tests;
mod text;

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    text::{Line, Span},
    widgets::Widget as _,
};

use super::{
    list::{List, Since},
    reading::Reading,
    state::State,
};
pub(super) use style::Colours;
use style::Tone;

/// Rows of the devices' table on a screen, at most.
const DEVICES: usize = 6;
/// Rows of each list, and columns, where there is no screen.
const TEXT_ROWS: usize = 20;
const TEXT_WIDTH: u16 = 120;

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    /// What is looked at.
    pub(super) title: &'a str,
    /// The last reading; `None`: there is none yet.
    pub(super) now: Option<&'a Reading>,
    /// The one before it.
    pub(super) before: Option<&'a Reading>,
    /// Something to be said.
    pub(super) note: Option<&'a str>,
    pub(super) colours: Colours,
}

impl View<'_> {
    /// Draws on a screen. Rows that are out of reach pull the state back.
    pub(super) fn draw(&self, state: &mut State, area: Rect, buffer: &mut Buffer) {
        let [title, body, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(area);
        summary::title(self, state, title, buffer);
        help::keys(self.colours, state, keys, buffer);
        if state.shows_help {
            return help::page(body, buffer);
        }
        let Some(now) = self.now else {
            Line::from("waiting for the first figures").render(body, buffer);
            return;
        };
        let devices = u16::try_from(now.devices.len().min(DEVICES)).unwrap_or(0);
        let [summary, note, devices, tabs, list] = Layout::vertical([
            Constraint::Length(summary::HEIGHT),
            Constraint::Length(1),
            Constraint::Length(devices + 1),
            Constraint::Length(1),
            Constraint::Min(0),
        ])
        .areas(body);
        let since = Since::new(now, self.before);
        summary::figures(self.colours, now, &since, summary, buffer);
        summary::note(self, note, buffer);
        devices::draw(self.colours, &now.devices, devices, buffer);
        self.tabs(state, tabs, buffer);
        let rows = state.arrange(state.list.rows(now, self.before));
        let room = usize::from(list.height.saturating_sub(1));
        state.first = state.first.min(rows.len().saturating_sub(room));
        let order = state.order();
        let shown = &rows[state.first..];
        rows::draw(self.colours, state.list, Some(order), shown, list, buffer);
    }

    /// Names the lists, and shows which one is below.
    fn tabs(&self, state: &State, area: Rect, buffer: &mut Buffer) {
        let mut spans = Vec::new();
        for list in List::ALL {
            let tone = if list == state.list {
                Tone::Chosen
            } else {
                Tone::Faint
            };
            spans.push(Span::styled(
                format!(" {} ", list.title()),
                self.colours.style(tone),
            ));
            spans.push(Span::raw(" "));
        }
        if state.is_typing || !state.filter.is_empty() {
            let cursor = if state.is_typing { "_" } else { "" };
            let text = format!(" with \"{}{cursor}\"", state.filter);
            spans.push(Span::styled(text, self.colours.style(Tone::Strong)));
        }
        Line::from(spans).render(area, buffer);
    }

    /// All lists as text, one below the other.
    pub(super) fn lines(&self, state: &State) -> Vec<String> {
        let Some(now) = self.now else {
            return Vec::new();
        };
        let since = Since::new(now, self.before);
        let mut lines = text::lines(1, TEXT_WIDTH, |area, buffer| {
            summary::title(self, state, area, buffer);
        });
        lines.extend(text::lines(summary::HEIGHT, TEXT_WIDTH, |area, buffer| {
            summary::figures(self.colours, now, &since, area, buffer);
        }));
        lines.push(String::new());
        let height = u16::try_from(now.devices.len()).unwrap_or(u16::MAX - 1) + 1;
        lines.extend(text::lines(height, TEXT_WIDTH, |area, buffer| {
            devices::draw(self.colours, &now.devices, area, buffer);
        }));
        for list in List::ALL {
            let mut rows = State::showing(list).arrange(list.rows(now, self.before));
            rows.truncate(TEXT_ROWS);
            if rows.is_empty() {
                continue;
            }
            lines.push(String::new());
            let height = u16::try_from(rows.len()).unwrap_or(0) + 1;
            lines.extend(text::lines(height, TEXT_WIDTH, |area, buffer| {
                rows::draw(self.colours, list, None, &rows, area, buffer);
            }));
        }
        lines
    }
}
