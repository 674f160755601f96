//! The times that memory ran out, as a recording has them.

use ledger::{Ledger, MemoryReading};
use trace::Event;

use super::amount::Amount;
use super::facts::Facts;

/// One of them.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) pid: u32,
    pub(super) device: i32,
    oom: ledger::OutOfMemory,
}

/// Takes the events of a recording.
#[derive(Debug, Default)]
pub(super) struct Collector {
    ledger: Ledger,
    found: Vec<Recorded>,
}

impl Collector {
    pub(super) fn push(&mut self, event: &Event) {
        if let Some(process) = self.ledger.about_to_end(event) {
            self.found.extend(of_process(process));
        }
        self.ledger.apply(event);
    }

    /// All of them, in order.
    pub(super) fn finish(mut self) -> Vec<Recorded> {
        self.found.extend(self.ledger.live().flat_map(of_process));
        self.found.sort_by_key(|recorded| recorded.oom.at.seq);
        self.found
    }
}

pub(super) fn of_process(process: &ledger::Process) -> Vec<Recorded> {
    let pid = process.key().pid;
    process
        .allocators()
        .iter()
        .flat_map(|(device, allocator)| {
            allocator.out_of_memory().iter().map(move |oom| Recorded {
                pid,
                device: *device,
                oom: oom.clone(),
            })
        })
        .collect()
}

impl Recorded {
    pub(super) fn at_ns(&self) -> u64 {
        self.oom.at.timestamp
    }

    /// Whether a message is about this.
    pub(super) fn is_of(&self, device: Option<u32>, facts: &Facts) -> bool {
        let is_device = device.is_none_or(|device| i64::from(device) == i64::from(self.device));
        let is = |amount: Option<Amount>, bytes| amount.is_none_or(|amount| amount.may_be(bytes));
        let need = ledger::torch::rules::segment_size(self.oom.asked);
        is_device
            && facts.asked.is_some()
            && need.is_none_or(|need| is(facts.asked, need))
            && is(facts.allocated, self.oom.allocated)
            && is(facts.reserved, self.oom.reserved)
    }

    /// Adds what the recording knows.
    pub(super) fn add_to(&self, facts: &mut Facts) {
        let ledger::OutOfMemory {
            at: _,
            tid: _,
            asked,
            allocated,
            reserved,
            free_in_pool,
            largest_free,
            map,
            reading,
            retry,
        } = &self.oom;
        facts.request = Some(*asked);
        facts.asked = ledger::torch::rules::segment_size(*asked)
            .map(Amount::exact)
            .or(facts.asked);
        facts.allocated = Some(Amount::exact(*allocated));
        facts.reserved = Some(Amount::exact(*reserved));
        facts.unallocated = Some(Amount::exact(reserved.saturating_sub(*allocated)));
        if map.is_complete() {
            facts.free_in_pool = Some(*free_in_pool);
            facts.largest_free = Some(*largest_free);
        }
        if let Some(MemoryReading {
            free,
            total,
            at: _,
            tid: _,
            held,
        }) = reading
        {
            let is_of_message = facts.free.is_none_or(|told| told.may_be(*free));
            if is_of_message {
                facts.free = Some(Amount::exact(*free));
                facts.total = Some(Amount::exact(*total));
                if facts.this_process.is_none() && *held >= *reserved {
                    facts.this_process = Some(Amount::exact(*held));
                }
            }
        }
        facts.retry_worked = retry.as_ref().map(ledger::torch::Retry::shows_pending_free);
    }
}
