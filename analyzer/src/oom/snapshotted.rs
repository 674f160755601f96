//! What a snapshot adds.

use ledger::{Pool, torch::rules};

use super::amount::Amount;
use super::facts::Facts;
use crate::snapshot::{RanOut, Snapshot, State};

/// The sums of a device that tell whether a snapshot shows the moment of a message.
#[derive(Default)]
struct Sums {
    allocated: u64,
    reserved: u64,
    pending: u64,
    largest_pending: u64,
    private_allocated: u64,
    private_unused: u64,
    free_in_pool: u64,
    largest_free: u64,
}

fn sums(snapshot: &Snapshot, device: i64, pool: Pool) -> Sums {
    let mut sums = Sums::default();
    let segments = snapshot.segments.iter();
    for segment in segments.filter(|segment| segment.device == device) {
        sums.reserved = sums.reserved.saturating_add(segment.size);
        let is_private = segment.pool.is_some_and(|pool| pool != (0, 0));
        let serves = segment
            .is_small
            .is_none_or(|is_small| is_small == (pool == Pool::Small));
        for block in snapshot.blocks_of(segment) {
            let sum = match block.state {
                State::Allocated if is_private => {
                    sums.allocated = sums.allocated.saturating_add(block.size);
                    &mut sums.private_allocated
                }
                State::Allocated => &mut sums.allocated,
                State::PendingFree => {
                    sums.largest_pending = sums.largest_pending.max(block.size);
                    &mut sums.pending
                }
                State::Inactive if is_private => &mut sums.private_unused,
                State::Inactive if serves => {
                    sums.largest_free = sums.largest_free.max(block.size);
                    &mut sums.free_in_pool
                }
                State::Inactive => continue,
            };
            *sum = sum.saturating_add(block.size);
        }
    }
    sums
}

/// The entry of a device's history that a message is about.
fn entry<'a>(snapshot: &'a Snapshot, device: u32, facts: &Facts) -> Option<&'a RanOut> {
    let history = snapshot.histories.get(device as usize)?;
    let (ran_out, _) = history.ran_out();
    ran_out.iter().find(|ran_out| {
        let need = rules::segment_size(ran_out.asked);
        let is_size = match facts.request {
            Some(request) => request == ran_out.asked,
            None => need
                .zip(facts.asked)
                .is_some_and(|(need, asked)| asked.may_be(need)),
        };
        let is_free = ran_out
            .device_free
            .zip(facts.free)
            .is_none_or(|(free, told)| told.may_be(free));
        is_size && is_free
    })
}

/// Adds what the snapshot knows of the message's moment; `false` if it shows another.
pub(super) fn add(snapshot: &Snapshot, device: Option<u32>, facts: &mut Facts) -> bool {
    let Some(device) = device else { return false };
    let mut used = false;
    if let Some(entry) = entry(snapshot, device, facts) {
        used = true;
        facts.request = Some(entry.asked);
        facts.asked = rules::segment_size(entry.asked)
            .map(Amount::exact)
            .or(facts.asked);
        if let Some(free) = entry.device_free {
            facts.free = Some(Amount::exact(free));
        }
        facts.completed = Some(entry.completed_just_before);
        // A later success tells only if a free was completed while the request failed.
        if entry.completed_just_before > 0 && entry.retry_worked == Some(true) {
            facts.retry_worked = Some(true);
        }
    }
    let Some(request) = facts.request.or_else(|| facts.need()) else {
        return used;
    };
    let sums = sums(snapshot, i64::from(device), Pool::of_size(request));
    let is = |amount: Option<Amount>, bytes| amount.is_some_and(|amount| amount.may_be(bytes));
    if is(facts.reserved, sums.reserved) && is(facts.allocated, sums.allocated) {
        used = true;
        facts.allocated = Some(Amount::exact(sums.allocated));
        facts.reserved = Some(Amount::exact(sums.reserved));
        facts.unallocated = Some(Amount::exact(sums.reserved.saturating_sub(sums.allocated)));
        facts.pending = Some((sums.pending, sums.largest_pending));
        facts.private_pools = Some(Amount::exact(sums.private_allocated));
        facts.private_unused = Some(sums.private_unused);
        facts.free_in_pool = Some(sums.free_in_pool);
        facts.largest_free = Some(sums.largest_free);
    }
    if used && let Some(settings) = &snapshot.settings {
        facts.is_expandable = settings.expandable_segments;
        facts.variable = facts.variable.or(settings.variable);
    }
    used
}

/// The times that memory ran out by the snapshot's own history, with their devices.
pub(super) fn alone(snapshot: &Snapshot) -> Vec<(u32, Facts)> {
    let mut found = Vec::new();
    for (device, history) in snapshot.histories.iter().enumerate() {
        let Ok(device) = u32::try_from(device) else {
            continue;
        };
        for ran_out in history.ran_out().0 {
            found.push((
                device,
                Facts {
                    asked: rules::segment_size(ran_out.asked).map(Amount::exact),
                    request: Some(ran_out.asked),
                    free: ran_out.device_free.map(Amount::exact),
                    ..Facts::default()
                },
            ));
        }
    }
    found
}
