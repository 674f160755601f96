//! What a recording says it lost.

use agent_common::{ApiId, Family};
use serde::{Deserialize, Serialize};
use trace::fact::Account;

/// Records that never reached the recording, as far as they concern memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Of allocations, frees and other calls of the memory family.
    pub memory: u64,
    /// Of PyTorch's reports.
    pub torch: u64,
    /// Probe hits of any function that the kernel did not run a program for.
    pub recursion_misses: u64,
    /// Stretches of any process in which calls may have been missed.
    pub gaps: u64,
}

impl Losses {
    /// Whether nothing was lost.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn merge(&mut self, other: Self) {
        let Self {
            memory,
            torch,
            recursion_misses,
            gaps,
        } = other;
        self.memory = self.memory.saturating_add(memory);
        self.torch = self.torch.saturating_add(torch);
        self.recursion_misses = self.recursion_misses.saturating_add(recursion_misses);
        self.gaps = self.gaps.saturating_add(gaps);
    }

    pub(crate) fn account(&mut self, account: &Account) {
        let lost = account
            .lost_ring
            .saturating_add(account.lost_pairing)
            .saturating_add(account.lost_extra);
        let Some(api) = ApiId::by_name(&account.api).and_then(ApiId::api) else {
            return;
        };
        let total = match api.family {
            Family::Memory => &mut self.memory,
            Family::Torch => &mut self.torch,
            Family::Launch
            | Family::Graph
            | Family::Copy
            | Family::Sync
            | Family::Module
            | Family::Device => return,
        };
        *total = total.saturating_add(lost);
    }
}
