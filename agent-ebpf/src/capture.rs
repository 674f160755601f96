//! Stream capture: which processes have one open, and the calls that matter only then.

use agent_common::{Effect, Pending, ProbeClass, flags};
use aya_ebpf::programs::ProbeContext;

use crate::{
    calls::{self, entry_programs},
    hit::{self, Hit, args},
    maps::OPEN_CAPTURES,
    values,
};

/// An event put into a stream: one of the ways in which a capture spreads to other streams.
#[inline(always)]
fn capture_entry(ctx: &ProbeContext) -> Option<()> {
    let registers = args(ctx);
    let hit = Hit::entry(ctx)?;
    // SAFETY: only presence is asked for.
    unsafe { OPEN_CAPTURES.get(&hit::tgid(hit.pid_tgid)) }?;
    calls::enter(ctx, &hit, |words| {
        values::at_entry(ctx, hit.site, registers, words)
    });
    None
}

/// In a process's value: it was not seen in full how a capture spread.
const LOST: u32 = 1 << 31;
/// Likewise: events that were put into streams went unseen when a capture began.
const BLIND: u32 = 1 << 30;

/// Takes note of a capture that began or ended, and of a stream that may have joined one.
#[inline(always)]
pub(crate) fn returned(hit: &Hit, call: &mut Pending, result: i32) {
    let begins = call.effect == Effect::CaptureBegin as u8;
    let joins = call.effect == Effect::StreamWait as u8;
    if !begins && !joins && call.effect != Effect::CaptureEnd as u8 {
        return;
    }
    if (begins || joins) && result != 0 {
        return;
    }
    let tgid = hit::tgid(hit.pid_tgid);
    // SAFETY: the value is copied at once. Two threads may race here; then a capture too many
    // or too few counts as open, and events too many or too few are seen.
    let open = unsafe { OPEN_CAPTURES.get(&tgid) }.copied().unwrap_or(0);
    if begins {
        let is_blind = hit.passes_over(ProbeClass::Capture);
        let open = open | if is_blind { BLIND } else { 0 };
        let _ = OPEN_CAPTURES.insert(&tgid, &(open + 1), 0);
        return;
    }
    if joins {
        if open & BLIND != 0 {
            let _ = OPEN_CAPTURES.insert(&tgid, &(open | LOST), 0);
        }
        return;
    }
    if open & LOST != 0 {
        call.flags |= flags::CAPTURE_UNCLEAR;
    }
    // An invalidated capture ends, too, with an error.
    if open & !(LOST | BLIND) <= 1 {
        let _ = OPEN_CAPTURES.remove(&tgid);
    } else {
        let _ = OPEN_CAPTURES.insert(&tgid, &(open - 1), 0);
    }
}

/// Takes note that a record found no place in the ring.
#[inline(always)]
pub(crate) fn lost(hit: &Hit) {
    let spreads = hit.site.effect == Effect::EventRecord as u8
        || hit.site.effect == Effect::StreamWait as u8
        || hit.site.effect == Effect::CaptureBegin as u8;
    let tgid = hit::tgid(hit.pid_tgid);
    // SAFETY: the value is copied at once.
    if spreads && let Some(open) = unsafe { OPEN_CAPTURES.get(&tgid) }.copied() {
        let _ = OPEN_CAPTURES.insert(&tgid, &(open | LOST), 0);
    }
}

entry_programs!(capture_entry, capture_entry_multi, capture_entry_single);
