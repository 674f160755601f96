//! What the person at the keys wants to see. Keys are those of top and htop, where they have one
//! for it.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::list::{List, Row};

/// Intervals that + and - choose from.
const INTERVALS: [Duration; 9] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_mins(1),
];
/// Most characters of a filter.
const FILTER: usize = 64;
/// Rows that a page up or down moves by.
const PAGE: usize = 10;

/// What is to be seen.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) list: List,
    /// How each list is sorted, as in [`List::ALL`].
    orders: [Order; List::ALL.len()],
    /// Rows without this text are left out.
    pub(super) filter: String,
    /// Whether keys go into the filter.
    pub(super) is_typing: bool,
    /// The first row that is shown.
    pub(super) first: usize,
    pub(super) is_paused: bool,
    pub(super) shows_help: bool,
    pub(super) interval: Duration,
}

/// By which column, and which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) column: usize,
    pub(super) is_reversed: bool,
}

/// What a key asks of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Nothing.
    Nothing,
    /// Another interval.
    Interval,
    /// A new reading, now.
    Reading,
    /// The end.
    End,
}

impl State {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            list: List::Memory,
            orders: List::ALL.map(|list| Order {
                column: list.first_order(),
                is_reversed: false,
            }),
            filter: String::new(),
            is_typing: false,
            first: 0,
            is_paused: false,
            shows_help: false,
            interval,
        }
    }

    /// A list as it is shown at first.
    pub(super) fn showing(list: List) -> Self {
        Self {
            list,
            ..Self::new(Duration::ZERO)
        }
    }

    /// How the list that is shown is sorted.
    pub(super) const fn order(&self) -> Order {
        self.orders[self.list as usize]
    }

    /// What a key does.
    pub(super) fn press(&mut self, key: KeyEvent) -> Asked {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && matches!(key.code, KeyCode::Char('c')) {
            return Asked::End;
        }
        if self.is_typing {
            self.edit(key.code);
            return Asked::Nothing;
        }
        if self.shows_help {
            self.shows_help = false;
            return match key.code {
                KeyCode::F(10) => Asked::End,
                _ => Asked::Nothing,
            };
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::F(10) => return Asked::End,
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.shows_help = true,
            KeyCode::Char(' ') => {
                self.is_paused = !self.is_paused;
                return Asked::Reading;
            }
            KeyCode::Char('+') => return self.change_interval(true),
            KeyCode::Char('-') => return self.change_interval(false),
            KeyCode::Char('/') | KeyCode::F(3 | 4) => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('m') => self.choose(List::Memory),
            KeyCode::Char('k') => self.choose(List::Kernels),
            KeyCode::Char('f') => self.choose(List::Functions),
            KeyCode::Char('p') => self.choose(List::Processes),
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(List::ALL.len() - 1),
            KeyCode::Char('>') | KeyCode::F(6) | KeyCode::Right => self.sort_by_next(1),
            KeyCode::Char('<') | KeyCode::Left => {
                self.sort_by_next(self.list.columns().len() - 1);
            }
            KeyCode::Char('R' | 'I') => {
                let order = &mut self.orders[self.list as usize];
                order.is_reversed = !order.is_reversed;
            }
            KeyCode::Up => self.first = self.first.saturating_sub(1),
            KeyCode::Down => self.first = self.first.saturating_add(1),
            KeyCode::PageUp => self.first = self.first.saturating_sub(PAGE),
            KeyCode::PageDown => self.first = self.first.saturating_add(PAGE),
            KeyCode::Home => self.first = 0,
            KeyCode::End => self.first = usize::MAX,
            _ => {}
        }
        Asked::Nothing
    }

    fn edit(&mut self, key: KeyCode) {
        self.first = 0;
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.chars().count() < FILTER => self.filter.push(c),
            _ => {}
        }
    }

    fn change_interval(&mut self, longer: bool) -> Asked {
        let next = if longer {
            INTERVALS.iter().find(|one| **one > self.interval)
        } else {
            INTERVALS.iter().rfind(|one| **one < self.interval)
        };
        let Some(next) = next else {
            return Asked::Nothing;
        };
        self.interval = *next;
        Asked::Interval
    }

    fn choose(&mut self, list: List) {
        self.list = list;
        self.first = 0;
    }

    fn turn(&mut self, by: usize) {
        self.choose(List::ALL[(self.list as usize + by) % List::ALL.len()]);
    }

    fn sort_by_next(&mut self, by: usize) {
        let columns = self.list.columns().len();
        let order = &mut self.orders[self.list as usize];
        order.column = (order.column + by) % columns;
        order.is_reversed = false;
        self.first = 0;
    }

    /// The rows that are wanted, in the order that is wanted.
    pub(super) fn arrange(&self, mut rows: Vec<Row>) -> Vec<Row> {
        let pattern = self.filter.to_lowercase();
        if !pattern.is_empty() {
            rows.retain(|row| row.iter().any(|cell| cell.has(&pattern)));
        }
        let Order {
            column,
            is_reversed,
        } = self.order();
        // Rows that are equal there are sorted by name, so that they stay where they are.
        rows.sort_by(|one, other| match (one.last(), other.last()) {
            (Some(one), Some(other)) => one.order(other),
            (Some(_) | None, None) | (None, Some(_)) => std::cmp::Ordering::Equal,
        });
        rows.sort_by(|one, other| {
            let (Some(one), Some(other)) = (one.get(column), other.get(column)) else {
                return std::cmp::Ordering::Equal;
            };
            let order = one.order(other);
            if one.falls() == is_reversed {
                order
            } else {
                order.reverse()
            }
        });
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::list::Cell;

    fn state() -> State {
        State::new(Duration::from_secs(1))
    }

    fn press(state: &mut State, keys: &str) -> Vec<Asked> {
        keys.chars()
            .map(|c| match c {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '\x08' => KeyCode::Backspace,
                '\t' => KeyCode::Tab,
                c => KeyCode::Char(c),
            })
            .map(|code| state.press(KeyEvent::new(code, KeyModifiers::NONE)))
            .collect()
    }

    #[test]
    fn keys_end_it() {
        assert_eq!(press(&mut state(), "q"), [Asked::End]);
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state().press(control), Asked::End);
        let f10 = KeyEvent::new(KeyCode::F(10), KeyModifiers::NONE);
        assert_eq!(state().press(f10), Asked::End);
        // A q in a filter is a q.
        let mut typing = state();
        assert_eq!(press(&mut typing, "/q"), [Asked::Nothing; 2]);
        assert_eq!(typing.filter, "q");
        assert_eq!(typing.press(control), Asked::End);
    }

    #[test]
    fn a_filter_is_typed_kept_and_taken_away() {
        let mut state = state();
        press(&mut state, "/torx\x08ch\n");
        assert_eq!((state.filter.as_str(), state.is_typing), ("torch", false));
        press(&mut state, "\x1b");
        assert_eq!(state.filter, "");
        press(&mut state, "/nccl\x1b");
        assert_eq!((state.filter.as_str(), state.is_typing), ("", false));
    }

    #[test]
    fn intervals_have_ends() {
        let mut state = state();
        assert_eq!(press(&mut state, "+"), [Asked::Interval]);
        assert_eq!(state.interval, Duration::from_secs(2));
        press(&mut state, "--------");
        assert_eq!(state.interval, Duration::from_millis(100));
        assert_eq!(press(&mut state, "-"), [Asked::Nothing]);
        press(&mut state, "+++++++++++");
        assert_eq!(state.interval, Duration::from_mins(1));
        // One that was given, and is none of them.
        state.interval = Duration::from_secs(3);
        press(&mut state, "-");
        assert_eq!(state.interval, Duration::from_secs(2));
    }

    #[test]
    fn lists_take_turns_and_keep_their_order() {
        let mut state = state();
        press(&mut state, ">");
        let order = state.order();
        press(&mut state, "\t");
        assert_eq!(state.list, List::Kernels);
        press(&mut state, "\t\t\t");
        assert_eq!((state.list, state.order()), (List::Memory, order));
        press(&mut state, "f");
        assert_eq!(state.list, List::Functions);
    }

    #[test]
    fn most_comes_first_and_names_go_up() {
        let row = |count: u64, name: &str| {
            vec![
                Cell::Rate(None),
                Cell::Count(count),
                Cell::Share(None),
                Cell::Text(name.to_owned()),
            ]
        };
        let rows = vec![row(2, "b"), row(9, "c"), row(2, "a")];
        let names = |state: &State| -> Vec<Cell> {
            let rows = state.arrange(rows.clone()).into_iter();
            rows.filter_map(|mut row| row.pop()).collect()
        };
        let texts = |names: [&str; 3]| names.map(|name| Cell::Text(name.to_owned()));
        let mut state = state();
        press(&mut state, "k");
        assert_eq!(names(&state), texts(["c", "a", "b"]));
        press(&mut state, "R");
        assert_eq!(names(&state), texts(["a", "b", "c"]));
        press(&mut state, ">>");
        assert_eq!(names(&state), texts(["a", "b", "c"]));
        press(&mut state, "/C\n");
        assert_eq!(names(&state), [Cell::Text("c".to_owned())]);
    }
}
