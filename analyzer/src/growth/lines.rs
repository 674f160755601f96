//! All lines: of each memory, that of all sizes together and those of its size classes.

use std::collections::hash_map::Entry;

use ledger::ProcessKey;
use rustc_hash::FxHashMap;

use super::line::{Key, Line, Whose};
use super::series::Series;

/// Most lines: a recording with a new size class or caller in each row does not take all memory.
pub(super) const LINES: usize = 8192;

/// Lines, found by what they are of.
#[derive(Debug)]
pub(super) struct Lines {
    groups: FxHashMap<Whose, Group>,
    /// How many more there may be.
    room: usize,
    /// Changes of lines beyond that.
    left_out: u64,
}

/// The lines of one memory.
#[derive(Debug, Default)]
struct Group {
    total: Option<Line>,
    classes: FxHashMap<u16, Line>,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            groups: FxHashMap::default(),
            room: LINES,
            left_out: 0,
        }
    }
}

impl Lines {
    /// The line of `key`, which was at `before` if it is new; `None` where there are too many.
    pub(super) fn line(&mut self, key: Key, bin: usize, before: u64) -> Option<&mut Line> {
        let Key { whose, class } = key;
        let Self {
            groups,
            room,
            left_out,
        } = self;
        let group = group(groups, whose, *room);
        let new = || Line::starting(bin, before);
        let line = group.and_then(|group| group.line(class, room, new));
        *left_out += u64::from(line.is_none());
        line
    }

    /// Changes the lines that memory of a size class counts in; new ones were at 0 before.
    #[inline]
    pub(super) fn change(
        &mut self,
        whose: Whose,
        class: u16,
        bin: usize,
        change: impl Fn(&mut Series),
    ) {
        let Self {
            groups,
            room,
            left_out,
        } = self;
        let mut group = group(groups, whose, *room);
        for class in [None, Some(class)] {
            let new = || Line::starting(bin, 0);
            let group = group.as_mut();
            match group.and_then(|group| group.line(class, room, new)) {
                Some(line) => change(&mut line.series),
                None => *left_out += 1,
            }
        }
    }

    /// Changes that found no line, and no room for one.
    pub(super) const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// All, each with what it is of.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut Line)> {
        self.groups
            .iter_mut()
            .flat_map(|(&whose, Group { total, classes })| {
                let total = total.iter_mut().map(|line| (None, line));
                let classes = classes.iter_mut();
                let classes = classes.map(|(&class, line)| (Some(class), line));
                let all = total.chain(classes);
                all.map(move |(class, line)| (Key { whose, class }, line))
            })
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.groups.clear();
        self.room = LINES;
    }

    /// Those of a process, taken out.
    pub(super) fn take(&mut self, process: ProcessKey) -> FxHashMap<Key, Line> {
        let is_of = |whose: &Whose, _: &mut Group| whose.process == process;
        let mut taken = FxHashMap::default();
        for (whose, Group { total, classes }) in self.groups.extract_if(is_of) {
            let classes = classes.into_iter().map(|(class, line)| (Some(class), line));
            let lines = total.map(|line| (None, line)).into_iter().chain(classes);
            taken.extend(lines.map(|(class, line)| (Key { whose, class }, line)));
        }
        self.room += taken.len();
        taken
    }
}

/// A memory's lines. Where there is no room, there is none for memory without lines.
#[inline]
fn group(groups: &mut FxHashMap<Whose, Group>, whose: Whose, room: usize) -> Option<&mut Group> {
    if room == 0 {
        return groups.get_mut(&whose);
    }
    Some(groups.entry(whose).or_default())
}

impl Group {
    #[inline]
    fn line(
        &mut self,
        class: Option<u16>,
        room: &mut usize,
        new: impl FnOnce() -> Line,
    ) -> Option<&mut Line> {
        let Some(class) = class else {
            if self.total.is_none() {
                *room = room.checked_sub(1)?;
                self.total = Some(new());
            }
            return self.total.as_mut();
        };
        match self.classes.entry(class) {
            Entry::Occupied(line) => Some(line.into_mut()),
            Entry::Vacant(place) => {
                *room = room.checked_sub(1)?;
                Some(place.insert(new()))
            }
        }
    }
}
