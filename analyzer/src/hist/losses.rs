//! Whether a recording lost anything.

use trace::fact::Account;

/// What the accounts of one recording, or several, add up to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    lost: u64,
    accounts: u64,
    began: u64,
    ended: u64,
}

impl Losses {
    /// The recorder's final count of one function.
    pub(crate) fn account(&mut self, account: &Account) {
        self.accounts += 1;
        for lost in [account.lost_ring, account.lost_pairing, account.lost_extra] {
            self.missed(lost);
        }
    }

    /// So many are missing for another cause.
    pub(crate) fn missed(&mut self, count: u64) {
        self.lost = self.lost.saturating_add(count);
    }

    /// A recording, or segment, begins.
    pub(crate) fn began(&mut self) {
        self.began += 1;
    }

    /// One has ended as it should, with its accounts.
    pub(crate) fn ended(&mut self) {
        self.ended += 1;
    }

    /// Whether anything was lost; `None` where one of the recordings does not say.
    pub(crate) fn any(self) -> Option<bool> {
        if self.lost > 0 {
            return Some(true);
        }
        let all_ended = self.ended >= self.began.max(1);
        (self.accounts > 0 && all_ended).then_some(false)
    }
}
