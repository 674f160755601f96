//! The account of each segment: what the kernel counted meanwhile, against the rows.
//!
//! While probes are on, a call that was made may have no row yet: it has not returned, or its
//! record is in the ring. How many these are, is what is missing to the kernel's count; they are
//! carried over into the next segment. In the last one, where nothing moves any more, none may be
//! missing: so an error that is made in any segment shows there.

use agent_common::{ApiId, Counters};
use trace::{Event, Fact, Kind, fact};

use crate::sink::Counts;

/// Rows of a function.
#[derive(Clone, Copy, Debug, Default)]
struct Rows {
    calls: u64,
    abandoned: u64,
}

/// How things stood at one moment, by [`ApiId`].
#[derive(Clone, Debug)]
struct Stand {
    counters: Vec<Counters>,
    rows: Vec<Rows>,
    recursion_misses: u64,
}

impl Stand {
    /// Calls that have no row yet.
    fn carried(&self, place: usize) -> u64 {
        let (counters, rows) = (self.counters[place], self.rows[place]);
        let settled = rows.calls + rows.abandoned + counters.lost_ring + counters.lost_pairing;
        counters.made.saturating_sub(settled)
    }
}

/// Counts rows, and makes accounts.
#[derive(Debug)]
pub(super) struct Accounts {
    /// All rows since the session began, those that were not written included.
    rows: Vec<Rows>,
    /// At the beginning of the segment; `None` where the kernel's counters could not be read.
    start: Option<Stand>,
}

impl Accounts {
    pub(super) fn new() -> Self {
        let functions = ApiId::all().count();
        let rows = vec![Rows::default(); functions];
        let start = Stand {
            counters: vec![Counters::default(); functions],
            rows: rows.clone(),
            recursion_misses: 0,
        };
        Self {
            rows,
            start: Some(start),
        }
    }

    /// A row has come.
    pub(super) fn row(&mut self, event: &Event) {
        let place = event.api.map(|api| usize::from(api.0));
        let Some(rows) = place.and_then(|place| self.rows.get_mut(place)) else {
            return;
        };
        match event.kind {
            Kind::Call => rows.calls += 1,
            Kind::Abandoned => rows.abandoned += 1,
            Kind::Begin | Kind::InFlight | Kind::Fact => {}
        }
    }

    /// A segment begins.
    pub(super) fn begin(&mut self, counts: Option<&Counts>) {
        self.start = counts.map(|counts| self.stand(counts));
    }

    /// A segment ends, and another begins.
    pub(super) fn turn(&mut self, counts: Option<&Counts>) -> Vec<Fact> {
        let end = counts.map(|counts| self.stand(counts));
        let facts = match (&self.start, &end) {
            (Some(start), Some(end)) => between(start, end),
            (None, _) | (_, None) => Vec::new(),
        };
        self.start = end;
        facts
    }

    /// The last segment's share of a function's final account; `None` where nothing is to be
    /// said, or the beginning of the segment is not known.
    pub(super) fn last(&self, account: fact::Account) -> Option<fact::Account> {
        let place = usize::from(ApiId::by_name(&account.api)?.0);
        let start = self.start.as_ref()?;
        let (before, rows) = (start.counters.get(place)?, start.rows.get(place)?);
        let fact::Account {
            api,
            made,
            folded,
            reported,
            lost_ring,
            lost_pairing,
            abandoned,
            in_flight,
            lost_extra,
            carried_in: _,
            carried_out: _,
        } = account;
        let account = fact::Account {
            api,
            made: made.saturating_sub(before.made),
            folded: folded.saturating_sub(before.folded),
            reported: reported.saturating_sub(rows.calls),
            lost_ring: lost_ring.saturating_sub(before.lost_ring),
            lost_pairing: lost_pairing.saturating_sub(before.lost_pairing),
            abandoned: abandoned.saturating_sub(rows.abandoned),
            in_flight,
            lost_extra: lost_extra.saturating_sub(before.lost_extra),
            carried_in: start.carried(place),
            carried_out: 0,
        };
        says_something(&account).then_some(account)
    }

    /// The last segment's share of the hits that the kernel ran no program for.
    pub(super) fn last_recursion_misses(&self, count: u64) -> u64 {
        let before = self
            .start
            .as_ref()
            .map_or(0, |start| start.recursion_misses);
        count.saturating_sub(before)
    }

    fn stand(&self, counts: &Counts) -> Stand {
        let mut counters = vec![Counters::default(); self.rows.len()];
        for (api, of_function) in &counts.functions {
            if let Some(place) = counters.get_mut(usize::from(api.0)) {
                *place = *of_function;
            }
        }
        Stand {
            counters,
            rows: self.rows.clone(),
            recursion_misses: counts.recursion_misses,
        }
    }
}

/// The accounts of what lies between two moments.
fn between(start: &Stand, end: &Stand) -> Vec<Fact> {
    let mut facts = Vec::new();
    for (place, api) in ApiId::all().enumerate() {
        let Some(api) = api.api() else { continue };
        let (before, after) = (start.counters[place], end.counters[place]);
        let (rows_before, rows) = (start.rows[place], end.rows[place]);
        let account = fact::Account {
            api: api.name.to_owned(),
            made: after.made.saturating_sub(before.made),
            folded: after.folded.saturating_sub(before.folded),
            reported: rows.calls - rows_before.calls,
            lost_ring: after.lost_ring.saturating_sub(before.lost_ring),
            lost_pairing: after.lost_pairing.saturating_sub(before.lost_pairing),
            abandoned: rows.abandoned - rows_before.abandoned,
            in_flight: 0,
            lost_extra: after.lost_extra.saturating_sub(before.lost_extra),
            carried_in: start.carried(place),
            carried_out: end.carried(place),
        };
        if says_something(&account) {
            facts.push(Fact::Account(account));
        }
    }
    let count = end.recursion_misses.saturating_sub(start.recursion_misses);
    if count > 0 {
        facts.push(Fact::RecursionMisses { count });
    }
    facts
}

fn says_something(account: &fact::Account) -> bool {
    let nothing = fact::Account {
        api: account.api.clone(),
        ..fact::Account::default()
    };
    *account != nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAUNCH: &str = "cudaLaunchKernel";

    fn counts(made: u64, lost_ring: u64) -> Counts {
        let counters = Counters {
            made,
            lost_ring,
            ..Counters::default()
        };
        Counts {
            functions: vec![(ApiId::by_name(LAUNCH).expect("in the table"), counters)],
            recursion_misses: made / 10,
        }
    }

    fn rows(accounts: &mut Accounts, count: usize) {
        let event = Event {
            api: ApiId::by_name(LAUNCH),
            ..Event::default()
        };
        for _ in 0..count {
            accounts.row(&event);
        }
    }

    fn only(facts: Vec<Fact>) -> (fact::Account, u64) {
        let mut account = None;
        let mut misses = 0;
        for fact in facts {
            match fact {
                Fact::Account(told) => account = Some(told),
                Fact::RecursionMisses { count } => misses = count,
                other => panic!("{other:?}"),
            }
        }
        (account.expect("an account"), misses)
    }

    #[test]
    fn what_has_no_row_yet_is_carried_over() {
        let mut accounts = Accounts::new();
        rows(&mut accounts, 90);
        // 100 made, 4 of them lost: 6 are in the ring.
        let (first, misses) = only(accounts.turn(Some(&counts(100, 4))));
        assert_eq!((first.made, first.reported, first.lost_ring), (100, 90, 4));
        assert_eq!((first.carried_in, first.carried_out, misses), (0, 6, 10));
        rows(&mut accounts, 26);
        let (second, misses) = only(accounts.turn(Some(&counts(120, 4))));
        assert_eq!(
            (second.made, second.reported, second.lost_ring),
            (20, 26, 0)
        );
        assert_eq!((second.carried_in, second.carried_out, misses), (6, 0, 2));
        // The end: 130 made in all, as the kernel counts them.
        rows(&mut accounts, 9);
        let last = accounts.last(fact::Account {
            api: LAUNCH.to_owned(),
            made: 130,
            reported: 125,
            lost_ring: 4,
            in_flight: 1,
            ..fact::Account::default()
        });
        let last = last.expect("an account");
        assert_eq!((last.made, last.reported, last.in_flight), (10, 9, 1));
        assert_eq!((last.carried_in, last.lost_ring), (0, 0));
    }

    #[test]
    fn nothing_is_said_where_the_counters_were_not_read() {
        let mut accounts = Accounts::new();
        rows(&mut accounts, 1);
        assert_eq!(accounts.turn(None), []);
        assert_eq!(accounts.turn(Some(&counts(10, 0))), []);
        rows(&mut accounts, 9);
        let (account, _) = only(accounts.turn(Some(&counts(10, 0))));
        assert_eq!((account.made, account.carried_in), (0, 9));
    }

    #[test]
    fn a_function_without_calls_has_no_account() {
        let mut accounts = Accounts::new();
        rows(&mut accounts, 10);
        accounts.turn(Some(&counts(10, 0)));
        assert_eq!(accounts.turn(Some(&counts(10, 0))), []);
    }
}
