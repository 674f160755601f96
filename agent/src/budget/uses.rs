//! Which functions a window looks at.

use std::collections::HashSet;

use agent_common::ApiId;

/// After one that looked at all functions and found none that is new, so many windows look at those
/// alone that are known.
const NARROW: u32 = 9;

/// Functions that windows have seen called. The program pays for each probe that comes and goes, called
/// or not: its memory is written to, and its processors are interrupted for that. Of the hundreds of
/// functions that windows are for, an engine calls ten.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    called: HashSet<ApiId>,
    /// Windows until the next that looks at all; 0: it is that one's turn.
    narrow: u32,
}

impl Uses {
    /// Whether the window that is open, or comes next, looks at all functions.
    pub const fn is_wide(&self) -> bool {
        self.narrow == 0
    }

    /// Whether it looks at this one.
    pub fn looks_at(&self, api: ApiId) -> bool {
        self.is_wide() || self.called.contains(&api)
    }

    /// The open window looks at all from now on: it stays open.
    pub const fn widen(&mut self) {
        self.narrow = 0;
    }

    /// The next window looks at all: there are functions that no window knew of. One that is open goes on
    /// as it is.
    pub fn widen_next(&mut self, is_open: bool) {
        self.narrow = self.narrow.min(u32::from(is_open));
    }

    /// A window is over. Where it looked at all, it is asked for those that have been `called`.
    pub fn closed(&mut self, called: impl Iterator<Item = ApiId>) {
        if !self.is_wide() {
            self.narrow -= 1;
            return;
        }
        let known = self.called.len();
        self.called.extend(called);
        if self.called.len() == known {
            self.narrow = NARROW;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_called_is_looked_at_and_from_time_to_time_all() {
        let mut uses = Uses::default();
        let [often, later, never] = [ApiId(1), ApiId(2), ApiId(3)];
        uses.closed([often].into_iter());
        assert!(uses.is_wide(), "there may be more");
        uses.closed([often].into_iter());
        for _ in 0..NARROW {
            assert!(uses.looks_at(often) && !uses.looks_at(later));
            uses.closed([later].into_iter());
        }
        assert!(uses.is_wide() && uses.looks_at(later));
        uses.closed([later].into_iter());
        assert!(uses.looks_at(never), "it found a new one");
        uses.closed([often, later].into_iter());
        assert!(uses.looks_at(often) && uses.looks_at(later) && !uses.looks_at(never));
        uses.widen();
        assert!(uses.looks_at(never));
        // What is new in an open window is looked at in the next.
        uses.closed([often, later].into_iter());
        uses.widen_next(true);
        assert!(
            !uses.looks_at(never),
            "what is attached does not change by itself"
        );
        uses.closed([].into_iter());
        assert!(uses.looks_at(never));
        uses.closed([often, later].into_iter());
        uses.widen_next(false);
        assert!(uses.looks_at(never));
    }
}
