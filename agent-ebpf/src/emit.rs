//! Into the ring.

use agent_common::{CallRecord, Counters, Header, Pending, RecordKind, ThreadState};
use aya_ebpf::bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP};

use crate::{config, hit::count, maps::RING};

/// Whether a record is the one that its call is counted by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// It is.
    Call,
    /// The thread died in the call: counted apart.
    Abandoned,
    /// It comes beside that one: a free's entry, a kernel's name.
    Extra,
}

/// The header of a record about a call of this thread.
#[inline(always)]
pub(crate) fn header(thread: &ThreadState, kind: RecordKind, call: &Pending) -> Header {
    Header {
        timestamp: call.timestamp,
        pid: thread.pid,
        tid: thread.tid,
        kind: kind as u8,
        reserved: 0,
        api: call.api,
        flags: call.flags | thread.flags,
    }
}

/// Reports a call; counts it as reported or lost. True if the record went out.
#[inline(always)]
pub(crate) fn call(
    thread: &ThreadState,
    kind: RecordKind,
    weight: Weight,
    call: &Pending,
    duration: u64,
    result: i32,
    counters: *mut Counters,
) -> bool {
    if config::count_only() != 0 {
        delivered(weight, counters);
        return true;
    }
    let filled = RING.query(BPF_RB_AVAIL_DATA.into());
    if call.hot != 0 && filled >= config::ring_half() {
        lost(weight, counters);
        return false;
    }
    let Some(mut entry) = RING.reserve::<CallRecord>(0) else {
        lost(weight, counters);
        return false;
    };
    entry.write(CallRecord {
        header: header(thread, kind, call),
        duration,
        caller: call.caller,
        result,
        parent: call.parent,
        reserved: 0,
        args: call.args,
    });
    entry.submit(wake(filled));
    delivered(weight, counters);
    true
}

/// How to submit with this many bytes in the ring: the reader looks by itself many times a
/// second, and is woken only when that might be too late.
#[inline(always)]
pub(crate) fn wake(filled: u64) -> u64 {
    if filled >= config::ring_wake() {
        BPF_RB_FORCE_WAKEUP.into()
    } else {
        BPF_RB_NO_WAKEUP.into()
    }
}

#[inline(always)]
fn delivered(weight: Weight, counters: *mut Counters) {
    match weight {
        Weight::Call => count!(counters, reported, 1),
        Weight::Abandoned => count!(counters, abandoned, 1),
        Weight::Extra => {}
    }
}

#[inline(always)]
fn lost(weight: Weight, counters: *mut Counters) {
    match weight {
        Weight::Call | Weight::Abandoned => count!(counters, lost_ring, 1),
        Weight::Extra => count!(counters, lost_extra, 1),
    }
}
