//! The verdict, by arithmetic.
//!
//! With `need` = what PyTorch asked the device for, `free` = what the device had, `unused` =
//! what PyTorch held and had not handed out. Before it fails PyTorch gives back every wholly
//! free segment, so `unused` is memory that it could not give back.
//!
//! The rules, in order; the first that holds decides:
//!
//! 1. `pending_free`: the same request worked later with nothing freed in between, or a block
//!    that is large enough was waiting for a stream, or came free while the request was failing.
//! 2. `host_spill`: PyTorch reserved more than the device has.
//! 3. A memory fraction (`allowed`) refused, `reserved + need > allowed`, or the device had room
//!    (`free >= need`): `fragmentation` if `unused >= need`, else `limit`.
//! 4. `fragmentation` or `graph_memory`: `unused + free >= need`, unless other processes hold
//!    enough, and more than all of this one; the latter if the unused memory outside of private
//!    pools is not enough.
//! 5. `graph_memory` or `other_process`: without the private pools, or without other
//!    processes, `free` would have been enough; the larger of them.
//! 6. `capacity`.

use ledger::torch::rules;

use super::facts::Facts;
use super::verdict::{Cause, Confidence, Verdict};
use crate::text::bytes as shown;

/// A verdict and its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    pub(super) confidence: Confidence,
    pub(super) because: String,
    pub(super) short_by: Option<u64>,
    pub(super) would_have_fitted: Option<u64>,
    pub(super) causes: Vec<Cause>,
}

const MIB: u64 = 1 << 20;
/// What a context and libraries of one process take at most, as far as is known: what lies
/// beyond it outside of PyTorch belongs to others.
const CONTEXT: u64 = 1 << 30;
/// The same where the process's own share is not known at all: NCCL and cuBLAS come on top.
const CONTEXT_AND_LIBRARIES: u64 = 2 << 30;

/// The largest request that new device memory of `room` bytes serves: up to 1 MiB takes a
/// segment of 2 MiB, up to 10 MiB one of 20 MiB, more one of its own in steps of 2 MiB.
const fn fits_in(room: u64) -> u64 {
    if room >= 10 * MIB {
        room / (2 * MIB) * (2 * MIB)
    } else if room >= 2 * MIB {
        MIB
    } else {
        0
    }
}

/// Judges.
pub(super) fn judge(facts: &Facts) -> Judgement {
    let (Some(need), Some(free)) = (facts.need(), facts.free) else {
        return without_numbers(facts);
    };
    let rounding = facts.rounding();
    let free = free.bytes;
    let reserved = facts.reserved.map(|amount| amount.bytes);
    let unused = facts.unallocated.map_or(0, |amount| amount.bytes);
    let headroom = facts
        .allowed
        .zip(reserved)
        .map(|(allowed, reserved)| allowed.bytes.saturating_sub(reserved));
    let room = headroom.map_or(free, |headroom| headroom.min(free));
    let is_enough = |bytes: u64| bytes.saturating_add(free).saturating_add(rounding) >= need;
    let (others, others_known) = others(facts);
    let private = facts.private_pools.map_or(0, |amount| amount.bytes);
    let mut causes = Vec::new();
    let mut add = |held_by, bytes: u64, sufficient| {
        if bytes > 0 {
            causes.push(Cause {
                held_by,
                bytes,
                sufficient,
            });
        }
    };
    add("unused", unused, is_enough(unused));
    add("private_pools", private, is_enough(private));
    add("other_processes", others, is_enough(others));
    if let Some(headroom) = headroom.filter(|headroom| *headroom < need) {
        add("limit", need - headroom, free >= need);
    }
    let (verdict, confidence, because) =
        decide(facts, need, free, unused, headroom, (others, others_known));
    Judgement {
        verdict,
        confidence,
        because,
        short_by: Some(need.saturating_sub(room)),
        would_have_fitted: Some(fits_in(room).max(facts.largest_free.unwrap_or(0))),
        causes,
    }
}

fn without_numbers(facts: &Facts) -> Judgement {
    let (verdict, confidence, because) = if facts.is_absurd {
        (
            Verdict::Capacity,
            Confidence::Certain,
            "more than 2^60 bytes were asked for: no device has that; the size is probably a \
             mistake in the program"
                .to_owned(),
        )
    } else {
        (
            Verdict::Unknown,
            Confidence::None,
            "the message has no numbers to compare".to_owned(),
        )
    };
    Judgement {
        verdict,
        confidence,
        because,
        short_by: None,
        would_have_fitted: None,
        causes: Vec::new(),
    }
}

/// What other processes hold, and whether the message lists it.
fn others(facts: &Facts) -> (u64, bool) {
    let listed = facts
        .others
        .iter()
        .filter_map(|(_, bytes)| *bytes)
        .fold(0_u64, |sum, bytes| sum.saturating_add(bytes.bytes));
    let (Some(total), Some(free)) = (facts.total, facts.free) else {
        return (listed, true);
    };
    let used = total.bytes.saturating_sub(free.bytes);
    let inferred = match (facts.this_process, facts.reserved) {
        _ if facts.lists_all => 0,
        (Some(own), _) => used.saturating_sub(own.bytes).saturating_sub(CONTEXT),
        (None, Some(reserved)) => used
            .saturating_sub(reserved.bytes)
            .saturating_sub(CONTEXT_AND_LIBRARIES),
        (None, None) => 0,
    };
    if inferred > listed {
        (inferred, false)
    } else {
        (listed, true)
    }
}

fn decide(
    facts: &Facts,
    need: u64,
    free: u64,
    unused: u64,
    headroom: Option<u64>,
    (others, others_known): (u64, bool),
) -> (Verdict, Confidence, String) {
    let rounding = facts.rounding();
    let reserved = facts.reserved.map(|amount| amount.bytes);
    let is_enough = |bytes: u64| bytes.saturating_add(free).saturating_add(rounding) >= need;
    if facts.retry_worked == Some(true) {
        return (
            Verdict::PendingFree,
            Confidence::Likely,
            "the same request worked right after, with nothing freed and nothing taken from the \
             device in between: a block freed before was still waiting for a stream"
                .to_owned(),
        );
    }
    let wanted = facts.request.unwrap_or(need);
    if let Some((pending, largest)) = facts.pending
        && largest >= wanted
    {
        return (
            Verdict::PendingFree,
            Confidence::Likely,
            format!(
                "{} were freed and still waited for a stream, {} of it in one block: enough for \
                 the request",
                shown(pending),
                shown(largest)
            ),
        );
    }
    // PyTorch waits for the streams before it fails, but does not look for a free block again.
    let completed = facts
        .completed
        .filter(|bytes| *bytes > 0)
        .and_then(rules::round_size);
    if let (Some(completed), Some(largest)) = (completed, facts.largest_free)
        && completed.min(largest) >= wanted
    {
        return (
            Verdict::PendingFree,
            Confidence::Likely,
            format!(
                "{} that waited for a stream came free while the request was failing, and a \
                 block of {} was free then: enough for the request",
                shown(completed),
                shown(largest)
            ),
        );
    }
    if let (Some(reserved), Some(total)) = (facts.reserved, facts.total)
        && reserved.bytes
            > total
                .bytes
                .saturating_add(reserved.rounding + total.rounding)
    {
        return (
            Verdict::HostSpill,
            Confidence::Certain,
            format!(
                "PyTorch holds {}, and the device has only {}: the driver had moved the rest to \
                 host memory",
                shown(reserved.bytes),
                shown(total.bytes)
            ),
        );
    }
    let refused = headroom.filter(|headroom| headroom.saturating_add(rounding) < need);
    let has_room = free >= need.saturating_add(rounding);
    if has_room || refused.is_some_and(|_| is_enough(0)) {
        if unused >= need {
            return (
                Verdict::Fragmentation,
                if refused.is_some() {
                    Confidence::Certain
                } else {
                    Confidence::Likely
                },
                format!(
                    "{} were held and not handed out, more than the {} that were missing, but in \
                     no piece that could serve the request; a limit kept PyTorch from taking \
                     more from the device",
                    shown(unused),
                    shown(need)
                ),
            );
        }
        if let (Some(headroom), Some(allowed)) = (refused, facts.allowed) {
            return (
                Verdict::Limit,
                Confidence::Certain,
                format!(
                    "the device had {} free, but the process may hold {} and held {}: {} were \
                     left",
                    shown(free),
                    shown(allowed.bytes),
                    shown(reserved.unwrap_or(0)),
                    shown(headroom)
                ),
            );
        }
        // Equal, as far as the printed numbers tell.
        let is_at_limit =
            headroom.is_some_and(|headroom| headroom <= need.saturating_add(rounding));
        if !facts.tells_limit() || is_at_limit {
            return (
                Verdict::Limit,
                Confidence::Likely,
                format!(
                    "the device had {} free, enough for the {} that were asked of it: a memory \
                     fraction or another limit refused, or others gave memory back right after",
                    shown(free),
                    shown(need)
                ),
            );
        }
        return (
            Verdict::Unknown,
            Confidence::None,
            format!(
                "the device had {} free, enough for the {} that were asked of it, and no limit is \
                 named: a private pool or another allocator refused, or others gave memory back \
                 right after",
                shown(free),
                shown(need)
            ),
        );
    }
    // Where others hold more than all of this process, its own pieces are beside the point.
    let others_would_do = is_enough(others);
    let is_small_share = others_would_do && reserved.is_some_and(|reserved| others > reserved);
    let is_unused_enough =
        unused >= need || (is_enough(unused) && !(others_would_do && others > unused));
    if is_unused_enough && !is_small_share {
        let in_private = facts.private_unused.unwrap_or(0);
        if in_private > 0 && !is_enough(unused.saturating_sub(in_private)) {
            return (
                Verdict::GraphMemory,
                Confidence::Certain,
                format!(
                    "{} of the {} held and not handed out lie in private pools (CUDA graphs), \
                     where the request has no access",
                    shown(in_private),
                    shown(unused)
                ),
            );
        }
        let large_enough = facts.largest_free.is_some_and(|largest| largest >= wanted);
        let pieces = match facts.largest_free {
            Some(largest) if large_enough => format!(
                "a block of {} was large enough, but belongs to another stream or memory pool",
                shown(largest)
            ),
            Some(largest) => format!("the largest free block had {}", shown(largest)),
            None => "no piece of it could serve the request".to_owned(),
        };
        return (
            Verdict::Fragmentation,
            if is_enough(unused.saturating_sub(2 * rounding)) {
                Confidence::Certain
            } else {
                Confidence::Likely
            },
            format!(
                "{} were held and not handed out and {} of the device were free, together enough \
                 for {}; {pieces}",
                shown(unused),
                shown(free),
                shown(need)
            ),
        );
    }
    let private = facts.private_pools.map_or(0, |amount| amount.bytes);
    let is_private = private > 0 && is_enough(private.saturating_add(unused));
    if is_private && !(others_would_do && others > private) {
        return (
            Verdict::GraphMemory,
            Confidence::Certain,
            format!(
                "private pools (CUDA graphs, or a MemPool) hold {}, more than the {} that were \
                 missing",
                shown(private),
                shown(need.saturating_sub(free).saturating_sub(unused))
            ),
        );
    }
    if others_would_do {
        let who = if others_known {
            let mut pids: Vec<String> = facts
                .others
                .iter()
                .map(|(pid, bytes)| match bytes {
                    Some(bytes) => format!("{pid} ({})", shown(bytes.bytes)),
                    None => pid.to_string(),
                })
                .collect();
            pids.truncate(8);
            format!(
                "other processes hold {}: {}",
                shown(others),
                pids.join(", ")
            )
        } else {
            format!(
                "about {} of the device are used by nothing that this process is known to hold: \
                 other processes",
                shown(others)
            )
        };
        return (
            Verdict::OtherProcess,
            if others_known {
                Confidence::Certain
            } else {
                Confidence::Likely
            },
            format!("{who}; {} were missing", shown(need - free.min(need))),
        );
    }
    if facts.total.is_none() || facts.unallocated.is_none() {
        return (
            Verdict::Unknown,
            Confidence::None,
            "what PyTorch held, or the size of the device, is not known: the message may be \
             cut, or its log not be given"
                .to_owned(),
        );
    }
    (
        Verdict::Capacity,
        Confidence::Certain,
        format!(
            "the device has {} and had {} free; with the {} that PyTorch held unused, {} were \
             still missing",
            shown(facts.total.map_or(0, |total| total.bytes)),
            shown(free),
            shown(unused),
            shown(need.saturating_sub(free).saturating_sub(unused))
        ),
    )
}
