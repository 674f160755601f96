//! Entry and return of a call: pairing them, and folding a driver call into the runtime
//! call that makes it.

use agent_common::{
    Counters, Effect, Layer, MAX_DEPTH, Pending, Probe, RecordKind, Shape, ThreadState, Twin, flags,
};
use aya_ebpf::{
    macros::uretprobe,
    programs::{ProbeContext, RetProbeContext},
};

use crate::{
    emit::{self, Weight},
    hit::{self, Hit, count, now, read, stack_pointer},
    maps::COUNTERS,
};

/// Why a call makes no event at its entry.
pub(crate) enum Entered {
    /// It is pending: its return will report it.
    Pending,
    /// It is folded into the runtime call around it.
    Folded,
    /// There was no room to keep it.
    Lost,
}

/// Takes note of a call that its return will report. `args` as in [`Pending::args`].
#[inline(always)]
pub(crate) fn enter(
    ctx: &ProbeContext,
    hit: &Hit,
    args: [u64; 6],
    unread: u32,
    keep_caller: bool,
) -> Entered {
    let Some(thread) = hit.thread() else {
        count!(hit.counters, made, 1);
        count!(hit.counters, lost_pairing, 1);
        return Entered::Lost;
    };
    let sp = stack_pointer(ctx);
    leave_dead_calls(thread, sp);
    let around = around(thread, hit.site.layer, hit.site.effect);
    if around.folds {
        count!(hit.counters, folded, 1);
    } else {
        count!(hit.counters, made, 1);
    }
    let depth = thread.depth;
    if depth >= MAX_DEPTH {
        if !around.folds {
            count!(hit.counters, lost_pairing, 1);
        }
        return Entered::Lost;
    }
    let (caller, unread) = caller(ctx, keep_caller, unread);
    let call = &mut thread.calls[(depth % MAX_DEPTH) as usize];
    call.timestamp = now();
    call.stack_pointer = sp;
    call.caller = caller;
    call.args = args;
    call.api = hit.site.api;
    call.parent = around.parent;
    call.flags = unread | twin_flag(hit);
    call.layer = hit.site.layer;
    call.effect = hit.site.effect;
    call.shape = hit.site.shape;
    call.folded = u8::from(around.folds);
    call.hot = hit.site.hot;
    if !around.folds && hit.site.probe == Probe::EntryAndReturn as u8 {
        let call = &thread.calls[(depth % MAX_DEPTH) as usize];
        if !emit::call(
            thread,
            RecordKind::Begin,
            Weight::Extra,
            call,
            0,
            0,
            hit.counters,
        ) {
            thread.calls[(depth % MAX_DEPTH) as usize].flags |= flags::BEGIN_LOST;
        }
    }
    thread.depth = depth + 1;
    if around.folds {
        Entered::Folded
    } else {
        Entered::Pending
    }
}

/// The return address, where it is wanted.
#[inline(always)]
pub(crate) fn caller(ctx: &ProbeContext, wanted: bool, flags: u32) -> (u64, u32) {
    if !wanted {
        return (0, flags);
    }
    match hit::return_address(ctx) {
        Some(address) => (address, flags),
        None => (0, flags | flags::CALLER_UNREAD),
    }
}

/// The flag of a per-thread-default-stream twin.
#[inline(always)]
pub(crate) fn twin_flag(hit: &Hit) -> u32 {
    if hit.site.twin == Twin::PerThread as u8 {
        flags::PER_THREAD_STREAM
    } else {
        0
    }
}

/// What a new call happens inside of.
pub(crate) struct Around {
    /// It is part of a runtime call of the same effect.
    pub(crate) folds: bool,
    /// Else the innermost call's API id plus one; 0 for none.
    pub(crate) parent: u16,
}

/// Looks at the pending calls around a new one, and marks the one that it folds into.
#[inline(always)]
pub(crate) fn around(thread: &mut ThreadState, layer: u8, effect: u8) -> Around {
    let mut around = Around {
        folds: false,
        parent: 0,
    };
    for index in 0..MAX_DEPTH {
        if index >= thread.depth {
            break;
        }
        let call = &mut thread.calls[(index % MAX_DEPTH) as usize];
        around.parent = call.api + 1;
        // A driver call in a runtime call of the same effect, or inside one that is itself
        // part of such a call (a driver function that calls another exported one).
        if call.effect == effect && layer == Layer::Driver as u8 && call.layer <= layer {
            call.flags |= flags::DRIVER_SEEN;
            around.folds = true;
        }
    }
    around
}

/// Ends pending calls that the stack pointer proves to be over though no return was seen: an
/// exception or `longjmp` went past them.
#[inline(always)]
pub(crate) fn leave_dead_calls(thread: &mut ThreadState, sp: u64) {
    for _ in 0..MAX_DEPTH {
        let depth = thread.depth;
        if depth == 0 || depth > MAX_DEPTH {
            return;
        }
        let top = &thread.calls[((depth - 1) % MAX_DEPTH) as usize];
        if top.stack_pointer > sp {
            return;
        }
        abandon_top(thread);
    }
}

/// Reports the innermost pending call as abandoned and takes it off.
#[inline(never)]
pub(crate) fn abandon_top(thread: &mut ThreadState) -> u32 {
    let depth = thread.depth;
    if depth == 0 || depth > MAX_DEPTH {
        return 0;
    }
    let index = ((depth - 1) % MAX_DEPTH) as usize;
    let call = &thread.calls[index];
    if call.folded == 0 {
        if let Some(counters) = COUNTERS.get_ptr_mut(u32::from(call.api)) {
            let age = now().wrapping_sub(call.timestamp);
            emit::call(
                thread,
                RecordKind::Abandoned,
                Weight::Abandoned,
                call,
                age,
                0,
                counters,
            );
        }
    }
    thread.depth = depth - 1;
    0
}

/// The pending call that this return belongs to, taken off; calls inside it that never
/// returned are abandoned. `None` for a return whose entry was not seen.
#[inline(always)]
pub(crate) fn leave<'a>(thread: &'a mut ThreadState, api: u16, sp: u64) -> Option<&'a mut Pending> {
    for _ in 0..MAX_DEPTH {
        let depth = thread.depth;
        if depth == 0 || depth > MAX_DEPTH {
            return None;
        }
        let top = &thread.calls[((depth - 1) % MAX_DEPTH) as usize];
        if top.stack_pointer >= sp {
            // Still to come: this return belongs to a call inside it that was not kept.
            return None;
        }
        if top.api == api && top.stack_pointer + 8 == sp {
            thread.depth = depth - 1;
            break;
        }
        abandon_top(thread);
    }
    let depth = thread.depth;
    let call = &mut thread.calls[(depth % MAX_DEPTH) as usize];
    (call.api == api && call.stack_pointer + 8 == sp).then_some(call)
}

/// The return of any call but a kernel lookup.
#[inline(always)]
fn call_return(ctx: &RetProbeContext) -> Option<()> {
    let ctx = ProbeContext { regs: ctx.regs };
    let hit = Hit::new(&ctx)?;
    let thread = hit.known_thread()?;
    let end = now();
    // SAFETY: the registers are the context. Results are 32-bit (`cudaError_t`, `CUresult`).
    let result = unsafe { (*ctx.regs).rax } as u32 as i32;
    let call = leave(thread, hit.site.api, stack_pointer(&ctx))?;
    if call.folded != 0 {
        return None;
    }
    call.flags |= flags::RETURNED;
    let mut bytes = 0;
    if call.shape == Shape::Alloc as u8 {
        let out = call.args[0];
        call.args[0] = 0;
        if result == 0 {
            bytes = call.args[1];
            out_value(call, 0, out);
        }
    } else if call.shape == Shape::MemoryInfo as u8 {
        let (free, total) = (call.args[0], call.args[1]);
        call.args[0] = 0;
        call.args[1] = 0;
        if result == 0 {
            out_value(call, 0, free);
            out_value(call, 1, total);
        }
    } else if call.effect == Effect::Copy as u8 && result == 0 {
        bytes = call.args[2];
    }
    finish(&hit, thread, end, result, bytes);
    None
}

/// Counts and reports the call that [`leave`] took off last.
#[inline(always)]
pub(crate) fn finish(hit: &Hit, thread: &ThreadState, end: u64, result: i32, bytes: u64) {
    let call = &thread.calls[(thread.depth % MAX_DEPTH) as usize];
    let duration = settle(hit.counters, call, end, result, bytes);
    emit::call(
        thread,
        RecordKind::Call,
        Weight::Call,
        call,
        duration,
        result,
        hit.counters,
    );
}

/// Counts a returned call's time, bytes and error; gives its duration.
#[inline(always)]
pub(crate) fn settle(
    counters: *mut Counters,
    call: &Pending,
    end: u64,
    result: i32,
    bytes: u64,
) -> u64 {
    let duration = end.wrapping_sub(call.timestamp);
    count!(counters, duration, duration);
    if bytes != 0 {
        count!(counters, bytes, bytes);
    }
    if result != 0 {
        count!(counters, errors, 1);
    }
    duration
}

/// Puts what the call left behind `pointer` into its arguments.
#[inline(always)]
pub(crate) fn out_value(call: &mut Pending, index: usize, pointer: u64) {
    match read::<u64>(pointer) {
        Some(value) => call.args[index] = value,
        None => call.flags |= flags::OUT_UNREAD,
    }
}

/// For multi links.
#[uretprobe(multi)]
pub(crate) fn call_return_multi(ctx: RetProbeContext) -> u32 {
    let _ = call_return(&ctx);
    0
}

/// For single uprobes.
#[uretprobe]
pub(crate) fn call_return_single(ctx: RetProbeContext) -> u32 {
    let _ = call_return(&ctx);
    0
}

/// Declares a family's entry programs: one for multi links, one for single uprobes.
macro_rules! entry_programs {
    ($body:path, $multi:ident, $single:ident) => {
        /// For multi links.
        #[aya_ebpf::macros::uprobe(multi)]
        pub(crate) fn $multi(ctx: aya_ebpf::programs::ProbeContext) -> u32 {
            let _ = $body(&ctx);
            0
        }

        /// For single uprobes.
        #[aya_ebpf::macros::uprobe]
        pub(crate) fn $single(ctx: aya_ebpf::programs::ProbeContext) -> u32 {
            let _ = $body(&ctx);
            0
        }
    };
}
pub(crate) use entry_programs;
