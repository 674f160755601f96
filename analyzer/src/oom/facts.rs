//! The numbers behind a verdict, from wherever they are known.

use ledger::torch::rules;

use super::amount::Amount;
use super::message::{Message, Wording};

/// What is known of one time that memory ran out. Sizes are bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// What PyTorch asked the device for.
    pub(super) asked: Option<Amount>,
    /// More than any device has.
    pub(super) is_absurd: bool,
    /// What the program asked PyTorch for, rounded.
    pub(super) request: Option<u64>,
    pub(super) total: Option<Amount>,
    pub(super) free: Option<Amount>,
    pub(super) allocated: Option<Amount>,
    pub(super) reserved: Option<Amount>,
    pub(super) unallocated: Option<Amount>,
    pub(super) allowed: Option<Amount>,
    pub(super) private_pools: Option<Amount>,
    pub(super) this_process: Option<Amount>,
    /// Of processes that are listed and are not this one.
    pub(super) others: Vec<(u64, Option<Amount>)>,
    /// Whether all processes on the device are listed with their bytes.
    pub(super) lists_all: bool,
    /// Free inside segments, in the pool that serves the request.
    pub(super) free_in_pool: Option<u64>,
    /// The largest free block there.
    pub(super) largest_free: Option<u64>,
    /// Blocks that wait for a stream: all, and the largest.
    pub(super) pending: Option<(u64, u64)>,
    /// Free inside private pools, where the request has no access.
    pub(super) private_unused: Option<u64>,
    /// Bytes of blocks whose free was completed while the request was failing.
    pub(super) completed: Option<u64>,
    /// Whether the same request worked later with nothing freed in between.
    pub(super) retry_worked: Option<bool>,
    /// Whether segments can grow already.
    pub(super) is_expandable: Option<bool>,
    /// The settings variable that this PyTorch names.
    pub(super) variable: Option<&'static str>,
    pub(super) advises_split_size: bool,
    /// Of the message; `None`: there is none.
    pub(super) wording: Option<Wording>,
}

impl Facts {
    /// What a message says.
    pub(super) fn of_message(message: &Message) -> Self {
        let Message {
            wording,
            device: _,
            asked,
            is_absurd,
            total,
            free,
            allocated,
            reserved,
            unallocated,
            allowed,
            private_pools,
            this_process,
            listed,
            advises_split_size,
            variable,
        } = message;
        let mut facts = Self {
            asked: *asked,
            is_absurd: *is_absurd,
            total: *total,
            free: *free,
            allocated: *allocated,
            reserved: *reserved,
            unallocated: *unallocated,
            allowed: *allowed,
            private_pools: *private_pools,
            this_process: *this_process,
            variable: *variable,
            advises_split_size: *advises_split_size,
            wording: Some(*wording),
            ..Self::default()
        };
        let mut others: Vec<_> = listed
            .iter()
            .map(|process| (process.pid, process.bytes))
            .collect();
        if facts.this_process.is_none()
            && let Some(place) = own_place(&others, *reserved)
        {
            // In a container NVML lists this process under an id that it does not know.
            facts.this_process = others.remove(place).1;
        }
        facts.lists_all =
            facts.this_process.is_some() && others.iter().all(|(_, bytes)| bytes.is_some());
        facts.others = others;
        facts
    }

    /// Written by PyTorch 2.0 or older.
    pub(super) fn is_old(&self) -> bool {
        self.wording == Some(Wording::Old)
    }

    /// Whether a limit would have been told.
    pub(super) fn tells_limit(&self) -> bool {
        self.wording == Some(Wording::New)
    }

    /// The size of the segment that the request needs.
    pub(super) fn need(&self) -> Option<u64> {
        self.request
            .and_then(rules::segment_size)
            .or_else(|| self.asked.map(|asked| asked.bytes))
    }

    /// How far sums of these numbers may be off.
    pub(super) fn rounding(&self) -> u64 {
        [self.asked, self.free, self.unallocated]
            .into_iter()
            .flatten()
            .map(|amount| amount.rounding)
            .sum()
    }
}

/// Which of the listed processes is this one: the smallest that can hold what it reserved.
fn own_place(listed: &[(u64, Option<Amount>)], reserved: Option<Amount>) -> Option<usize> {
    let reserved = reserved?;
    let can_hold = |bytes: Amount| {
        bytes
            .bytes
            .saturating_add(bytes.rounding + reserved.rounding)
            >= reserved.bytes
    };
    listed
        .iter()
        .enumerate()
        .filter_map(|(place, (_, bytes))| Some((place, (*bytes)?)))
        .filter(|(_, bytes)| reserved.bytes > 0 && can_hold(*bytes))
        .min_by_key(|(_, bytes)| bytes.bytes)
        .map(|(place, _)| place)
}
