//! When calls were seen, in a recording that was made with an overhead budget: what is sampled has
//! rows in windows alone, and a fact tells of each window after it.

use trace::fact;

/// Most things that wait to be told of their window: a second of launches, and some more.
const WAITING: usize = 1 << 20;

/// Windows without a break between them.
#[derive(Clone, Copy, Debug)]
struct Run {
    since: u64,
    until: u64,
    /// Time in windows before, ns.
    before: u64,
}

/// Things that took from one moment to another, and count if both are in one window: then all
/// that happened in between was seen, too.
///
/// Where nothing is sampled, all count.
#[derive(Debug)]
pub(crate) struct InWindows<T> {
    is_sampled: bool,
    /// Windows overlap: several recorders tell of theirs, and whose calls one is about is not known.
    /// Nothing counts any more.
    is_mixed: bool,
    run: Option<Run>,
    waiting: Vec<Span<T>>,
    outside: u64,
}

/// Something, from when to when, ns of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<T> {
    pub(crate) what: T,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl<T> Default for InWindows<T> {
    fn default() -> Self {
        Self {
            is_sampled: false,
            is_mixed: false,
            run: None,
            waiting: Vec::new(),
            outside: 0,
        }
    }
}

impl<T> InWindows<T> {
    /// From now on only what is in a window counts.
    pub(crate) const fn sample(&mut self) {
        self.is_sampled = true;
    }

    /// Whether only what is in a window counts.
    pub(crate) const fn is_sampled(&self) -> bool {
        self.is_sampled
    }

    /// Something happened; it comes back if it counts. If not, it may in [`Self::window`].
    #[inline]
    pub(crate) fn add(&mut self, span: Span<T>) -> Option<Span<T>> {
        if !self.is_sampled {
            return Some(span);
        }
        if self.is_mixed {
            self.outside += 1;
            return None;
        }
        match self.run {
            // Rows of a window may come after its fact.
            Some(run) if span.to <= run.until => {
                let is_inside = span.from >= run.since;
                self.outside += u64::from(!is_inside);
                is_inside.then_some(span)
            }
            Some(_) | None if self.waiting.len() < WAITING => {
                self.waiting.push(span);
                None
            }
            Some(_) | None => {
                self.outside += 1;
                None
            }
        }
    }

    /// There was a window, or the next stretch of one that stayed open: what counts for that.
    pub(crate) fn window(&mut self, window: &fact::Window) -> Vec<Span<T>> {
        self.is_sampled = true;
        let (since, until) = (window.since, window.until.max(window.since));
        self.is_mixed |= self.run.is_some_and(|run| since < run.until);
        if self.is_mixed {
            self.outside += std::mem::take(&mut self.waiting).len() as u64;
            return Vec::new();
        }
        let run = match self.run {
            Some(run) if run.until == since => Run { until, ..run },
            last => Run {
                since,
                until,
                before: last.map_or(0, Run::time),
            },
        };
        self.run = Some(run);
        let is_over = |span: &mut Span<T>| span.to <= until;
        let over: Vec<_> = self.waiting.extract_if(.., is_over).collect();
        let all = over.len();
        let inside: Vec<_> = over
            .into_iter()
            .filter(|span| span.from >= run.since)
            .collect();
        self.outside += (all - inside.len()) as u64;
        inside
    }

    /// How long windows had been open up to `moment`, which is in the last one, ns.
    pub(crate) fn time_of(&self, moment: u64) -> u64 {
        self.run.map_or(0, |run| {
            let inside = moment.clamp(run.since, run.until) - run.since;
            run.before.saturating_add(inside)
        })
    }

    /// How long windows were open in all, ns; `None`: nothing is sampled, or windows overlap.
    pub(crate) fn time(&self) -> Option<u64> {
        let time = self.run.map_or(0, Run::time);
        (self.is_sampled && !self.is_mixed).then_some(time)
    }

    /// How many things were not in one window, or not known to be.
    pub(crate) fn outside(&self) -> u64 {
        self.outside.saturating_add(self.waiting.len() as u64)
    }
}

impl Run {
    fn time(self) -> u64 {
        self.before.saturating_add(self.until - self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(since: u64, until: u64) -> fact::Window {
        fact::Window {
            since,
            until,
            families: vec!["launch".to_owned()],
            weight: 1.0,
        }
    }

    fn span(from: u64, to: u64) -> Span<()> {
        Span { what: (), from, to }
    }

    #[test]
    fn only_what_is_in_one_window_counts() {
        let mut all = InWindows::default();
        assert!(all.add(span(1, 5)).is_some());
        all.sample();
        for (from, to) in [(90, 110), (110, 120), (120, 190), (190, 210), (250, 260)] {
            assert!(all.add(span(from, to)).is_none());
        }
        let spans = |found: Vec<Span<()>>| -> Vec<_> {
            found.iter().map(|span| (span.from, span.to)).collect()
        };
        assert_eq!(
            spans(all.window(&window(100, 200))),
            [(110, 120), (120, 190)]
        );
        // A row that comes late.
        assert!(all.add(span(190, 195)).is_some());
        assert!(all.add(span(95, 105)).is_none());
        // A window that stays open has no edge where it is told of.
        assert_eq!(spans(all.window(&window(200, 230))), [(190, 210)]);
        assert!(all.add(span(220, 410)).is_none());
        assert_eq!(spans(all.window(&window(400, 500))), []);
        assert_eq!((all.time(), all.time_of(450)), (Some(230), 180));
        // Before the first window, late, between windows, across an edge.
        assert_eq!(all.outside(), 4);
        assert!(all.add(span(510, 520)).is_none());
        assert_eq!(all.outside(), 5);
    }

    #[test]
    fn nothing_counts_where_windows_of_two_recorders_overlap() {
        let mut all = InWindows::default();
        all.sample();
        assert!(all.add(span(110, 120)).is_none());
        assert_eq!(all.window(&window(100, 200)).len(), 1);
        // One recorder's: between two of its windows nothing was seen.
        assert!(all.add(span(190, 310)).is_none());
        assert!(all.window(&window(150, 350)).is_empty());
        assert!(all.window(&window(300, 400)).is_empty());
        assert!(all.add(span(320, 330)).is_none());
        assert_eq!((all.outside(), all.time()), (2, None));
    }
}
