//! Into the ring.

use agent_common::{
    CallRecord, Counters, Header, LongCallRecord, Pending, RecordKind, SHORT_VALUES, ThreadState,
};
use aya_ebpf::bindings::{
    BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP, BPF_RINGBUF_HDR_SZ,
};

use crate::{
    config,
    hit::{Hit, count},
    maps::RING,
};

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

/// Reports a pending call; counts it as reported or lost. True if the record went out.
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
    let [a, b, c, d, e, f, more @ ..] = call.args;
    let record = CallRecord {
        header: Header {
            timestamp: call.timestamp,
            pid: thread.pid,
            tid: thread.tid,
            kind: kind as u8,
            reserved: 0,
            api: call.api,
            flags: call.flags | thread.flags,
        },
        duration,
        caller: call.caller,
        result,
        parent: call.parent,
        reserved: 0,
        args: [a, b, c, d, e, f],
    };
    let went_out = if call.long != 0 {
        submit(LongCallRecord { call: record, more }, filled)
    } else {
        submit(record, filled)
    };
    if went_out {
        delivered(weight, counters);
    } else {
        lost(weight, counters);
    }
    went_out
}

/// A call that is probed at entry only.
pub(crate) struct Entered {
    /// When.
    pub(crate) timestamp: u64,
    /// Return address.
    pub(crate) caller: u64,
    /// The enclosing call's API id plus one; 0 for none.
    pub(crate) parent: u16,
    /// Bits of [`agent_common::flags`].
    pub(crate) flags: u32,
    /// As in [`CallRecord::args`].
    pub(crate) args: [u64; SHORT_VALUES],
}

/// Reports a call that is probed at entry only, of a hot function; counts it as reported or
/// lost.
#[inline(always)]
pub(crate) fn entered(hit: &Hit, thread: &ThreadState, call: Entered) {
    if config::count_only() != 0 {
        delivered(Weight::Call, hit.counters);
        return;
    }
    let filled = RING.query(BPF_RB_AVAIL_DATA.into());
    let Entered {
        timestamp,
        caller,
        parent,
        flags,
        args,
    } = call;
    let record = CallRecord {
        header: Header {
            timestamp,
            pid: thread.pid,
            tid: thread.tid,
            kind: RecordKind::Call as u8,
            reserved: 0,
            api: hit.site.api,
            flags: flags | thread.flags,
        },
        duration: 0,
        caller,
        result: 0,
        parent,
        reserved: 0,
        args,
    };
    if filled < config::ring_half() && submit(record, filled) {
        delivered(Weight::Call, hit.counters);
    } else {
        lost(Weight::Call, hit.counters);
    }
}

/// Puts a record into the ring, which has `filled` bytes in it; false where it is full.
#[inline(always)]
pub(crate) fn submit<T: 'static>(record: T, filled: u64) -> bool {
    let Some(mut entry) = RING.reserve::<T>(0) else {
        return false;
    };
    entry.write(record);
    entry.submit(wake::<T>(filled));
    true
}

/// How to submit a record with `filled` bytes in the ring before it. The reader looks by itself
/// many times a second, and is woken only when that might be too late. Not by each record from then
/// on: a wakeup interrupts the caller (a launch of 0.6 µs took 7, Linux 6.18 in a virtual machine),
/// and a reader that gets no processor comes none the sooner.
#[inline(always)]
pub(crate) fn wake<T>(filled: u64) -> u64 {
    let now_filled =
        filled + (size_of::<T>() as u64 + u64::from(BPF_RINGBUF_HDR_SZ)).next_multiple_of(8);
    let first = config::ring_wake();
    let step = first / STEPS;
    // A step is a power of two: a record that goes over a multiple of it changes the bits above.
    if now_filled >= first && filled ^ now_filled >= step {
        BPF_RB_FORCE_WAKEUP.into()
    } else {
        BPF_RB_NO_WAKEUP.into()
    }
}

/// The reader is woken again with each such part of what it was first woken at: two threads may miss
/// a mark that they come to together.
const STEPS: u64 = 8;

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
