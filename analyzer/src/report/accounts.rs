//! The books: what the kernel counted, against the rows of the file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use agent_common::ApiId;
use trace::{Kind, fact};

use super::{Account, Lost};

/// Accounts, and rows counted against them.
#[derive(Debug)]
pub(super) struct Books {
    accounts: BTreeMap<String, fact::Account>,
    recursion_misses: u64,
    unwritten: u64,
    /// Recordings, or segments, that began and that ended with their accounts.
    began: u64,
    ended: u64,
    /// By [`ApiId`] and [`Kind`].
    rows: Vec<[u64; Kind::ALL.len()]>,
}

impl Books {
    pub(super) fn new() -> Self {
        Self {
            accounts: BTreeMap::new(),
            recursion_misses: 0,
            unwritten: 0,
            began: 0,
            ended: 0,
            rows: ApiId::all().map(|_| [0; Kind::ALL.len()]).collect(),
        }
    }

    /// A row about a call.
    #[inline]
    pub(super) fn row(&mut self, id: ApiId, kind: Kind) {
        if let Some(rows) = self.rows.get_mut(usize::from(id.0)) {
            rows[kind as usize] += 1;
        }
    }

    /// A recording, or a segment of one, begins: it tells how its recorder was set.
    pub(super) fn part_began(&mut self) {
        self.began += 1;
    }

    /// One has ended as it should.
    pub(super) fn part_ended(&mut self) {
        self.ended += 1;
    }

    /// A recorder's final count of one function, in this recording or segment.
    pub(super) fn account(&mut self, account: fact::Account) {
        match self.accounts.entry(account.api.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(account);
            }
            Entry::Occupied(mut known) => add(known.get_mut(), &account),
        }
    }

    /// Probe hits that the kernel did not run a program for.
    pub(super) fn recursion_misses(&mut self, count: u64) {
        self.recursion_misses = self.recursion_misses.saturating_add(count);
    }

    /// Events before this segment that were not written.
    pub(super) fn unwritten(&mut self, unwritten: &fact::Unwritten) {
        self.unwritten = self.unwritten.saturating_add(unwritten.events);
    }

    /// Of several recordings, or segments, one may have been cut before its accounts.
    fn lacks_some(&self) -> bool {
        self.began > 1 && self.ended < self.began
    }

    /// Books that leave out a function know of no call of it; its rows must not pass for that.
    fn open_missing_accounts(&mut self) {
        if self.accounts.is_empty() || self.lacks_some() {
            return;
        }
        for (id, rows) in ApiId::all().zip(&self.rows) {
            if let Some(api) = id.api().filter(|_| rows.iter().any(|rows| *rows > 0)) {
                let name = api.name.to_owned();
                let account = fact::Account {
                    api: name.clone(),
                    ..fact::Account::default()
                };
                self.accounts.entry(name).or_insert(account);
            }
        }
    }

    /// [`super::Recording::lost`] and [`super::Report::accounts`]. Losses are known where there are
    /// accounts, or a complete recording has nothing to account for.
    pub(super) fn finish(mut self, complete: bool) -> (Lost, Vec<Account>) {
        let lacks_some = self.lacks_some();
        self.open_missing_accounts();
        let Self {
            accounts,
            recursion_misses,
            unwritten,
            began: _,
            ended: _,
            rows,
        } = self;
        let has_calls = rows.iter().flatten().any(|rows| *rows > 0);
        let is_known = !accounts.is_empty() && !lacks_some || complete && !has_calls;
        let sum = |field: fn(&fact::Account) -> u64| {
            let sum = accounts.values().map(field).fold(0, u64::saturating_add);
            (is_known || sum > 0).then_some(sum)
        };
        let lost = Lost {
            ring_full: sum(|account| account.lost_ring),
            ring_full_extra: sum(|account| account.lost_extra),
            pairing_full: sum(|account| account.lost_pairing),
            recursion_miss: (is_known || recursion_misses > 0).then_some(recursion_misses),
            unwritten: (is_known || unwritten > 0).then_some(unwritten),
        };
        let accounts = accounts.into_values().map(|account| {
            let id = ApiId::by_name(&account.api);
            let rows = id.map(|id| rows[usize::from(id.0)]);
            balance(account, rows, lacks_some)
        });
        (lost, accounts.collect())
    }
}

/// Adds the account of a later recording or segment. What one segment leaves for the next one is
/// carried over between the two.
fn add(sum: &mut fact::Account, later: &fact::Account) {
    let fact::Account {
        api: _,
        made,
        folded,
        reported,
        lost_ring,
        lost_pairing,
        abandoned,
        in_flight,
        lost_extra,
        carried_in,
        carried_out,
    } = *later;
    let settled = sum.carried_out.min(carried_in);
    sum.carried_out -= settled;
    for (sum, count) in [
        (&mut sum.made, made),
        (&mut sum.folded, folded),
        (&mut sum.reported, reported),
        (&mut sum.lost_ring, lost_ring),
        (&mut sum.lost_pairing, lost_pairing),
        (&mut sum.abandoned, abandoned),
        (&mut sum.in_flight, in_flight),
        (&mut sum.lost_extra, lost_extra),
        (&mut sum.carried_in, carried_in - settled),
        (&mut sum.carried_out, carried_out),
    ] {
        *sum = sum.saturating_add(count);
    }
}

/// `rows` is `None` for a function that this build does not know: its rows cannot be told. Where
/// accounts are missing, there may be more rows.
fn balance(
    account: fact::Account,
    rows: Option<[u64; Kind::ALL.len()]>,
    lacks_some: bool,
) -> Account {
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
        carried_in,
        carried_out,
    } = account;
    let has_rows = rows.is_none_or(|rows| {
        let of = |kind: Kind| rows[kind as usize];
        let accounted = [
            (Kind::Call, reported),
            (Kind::Abandoned, abandoned),
            (Kind::InFlight, in_flight),
        ];
        accounted
            .into_iter()
            .all(|(kind, count)| of(kind) == count || lacks_some && of(kind) > count)
    });
    let mut account = Account {
        api,
        made,
        folded,
        reported,
        lost_ring,
        lost_pairing,
        abandoned,
        in_flight,
        lost_extra,
        carried_in,
        carried_out,
        rows: rows.map(|rows| rows[Kind::Call as usize]),
        balanced: false,
    };
    account.balanced = account.accounted() == account.to_account_for() && has_rows;
    account
}
