//! The books: what the kernel counted, against the rows of the file.

use std::collections::BTreeMap;

use agent_common::ApiId;
use trace::{Kind, fact};

use super::{Account, Lost};

/// Accounts, and rows counted against them.
#[derive(Debug)]
pub(super) struct Books {
    accounts: BTreeMap<String, fact::Account>,
    recursion_misses: u64,
    unwritten: u64,
    /// By [`ApiId`] and [`Kind`].
    rows: Vec<[u64; Kind::ALL.len()]>,
}

impl Books {
    pub(super) fn new() -> Self {
        Self {
            accounts: BTreeMap::new(),
            recursion_misses: 0,
            unwritten: 0,
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

    /// The recorder's final count of one function.
    pub(super) fn account(&mut self, account: fact::Account) {
        self.accounts.insert(account.api.clone(), account);
    }

    /// Probe hits that the kernel did not run a program for.
    pub(super) fn recursion_misses(&mut self, count: u64) {
        self.recursion_misses = self.recursion_misses.saturating_add(count);
    }

    /// Events before this segment that were not written.
    pub(super) fn unwritten(&mut self, unwritten: &fact::Unwritten) {
        self.unwritten = self.unwritten.saturating_add(unwritten.events);
    }

    /// Books that leave out a function know of no call of it; its rows must not pass for that.
    fn open_missing_accounts(&mut self) {
        if self.accounts.is_empty() {
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
        self.open_missing_accounts();
        let Self {
            accounts,
            recursion_misses,
            unwritten,
            rows,
        } = self;
        let has_calls = rows.iter().flatten().any(|rows| *rows > 0);
        let is_known = !accounts.is_empty() || complete && !has_calls;
        let sum = |field: fn(&fact::Account) -> u64| {
            is_known.then(|| accounts.values().map(field).fold(0, u64::saturating_add))
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
            balance(account, rows)
        });
        (lost, accounts.collect())
    }
}

/// `rows` is `None` for a function that this build does not know: its rows cannot be told.
fn balance(account: fact::Account, rows: Option<[u64; Kind::ALL.len()]>) -> Account {
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
        (of(Kind::Call), of(Kind::Abandoned), of(Kind::InFlight))
            == (reported, abandoned, in_flight)
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
