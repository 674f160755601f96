//! Entry and return of a call: pairing them, and folding a driver call into the runtime
//! call that makes it.

use agent_common::{
    BEFORE_13, Counters, Effect, Layer, MAX_DEPTH, MAX_VALUES, Pending, Probe, RecordKind,
    SHORT_VALUES, Site, ThreadState, Twin, Windows, flags,
};
use aya_ebpf::{
    macros::uretprobe,
    programs::{ProbeContext, RetProbeContext},
};

use crate::{
    capture,
    emit::{self, Weight},
    hit::{self, Hit, args, count, now, read, stack_pointer},
    launch,
    log::debug,
    maps::COUNTERS,
    values,
};

/// Declares entry programs: one for multi links, one for single uprobes.
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

/// Takes note of a call that its return will report; where only entries are probed, reports it.
/// `fill` puts its values in place, as in
/// [`Pending::args`], and gives the flags of what could not be read.
#[inline(always)]
pub(crate) fn enter(
    ctx: &ProbeContext,
    hit: &Hit,
    fill: impl FnOnce(&mut [u64; MAX_VALUES]) -> u32,
) {
    let Some(thread) = hit.thread() else {
        count!(hit.counters, made, 1);
        count!(hit.counters, lost_pairing, 1);
        return;
    };
    let sp = stack_pointer(ctx);
    leave_dead_calls(thread, sp);
    let alone = hit.site.probe == Probe::Entry as u8;
    let around = if alone {
        Around {
            folds: launch::is_inside_lone(ctx, hit, thread),
            parent: 0,
        }
    } else {
        around(thread, hit.site.layer, hit.site.effect)
    };
    if around.folds {
        count!(hit.counters, folded, 1);
        if alone {
            return;
        }
    } else {
        count!(hit.counters, made, 1);
    }
    let depth = thread.depth;
    if depth >= MAX_DEPTH {
        if !around.folds {
            count!(hit.counters, lost_pairing, 1);
        }
        return;
    }
    let call = &mut thread.calls[(depth % MAX_DEPTH) as usize];
    call.timestamp = now();
    call.stack_pointer = sp;
    call.api = hit.site.api;
    call.parent = around.parent;
    call.layer = hit.site.layer;
    call.effect = hit.site.effect;
    call.long = u8::from(usize::from(hit.site.values) > SHORT_VALUES);
    call.folded = u8::from(around.folds);
    call.hot = hit.site.hot;
    call.class = hit.site.class;
    // A kernel lookup needs its values even where it is folded: its name is told all the same.
    if !around.folds || hit.site.effect == Effect::KernelLookup as u8 {
        let unread = fill(&mut call.args);
        let (caller, unread) = caller(ctx, unread);
        call.caller = caller;
        call.flags = unread | site_flags(hit.site);
    }
    if alone {
        // Nobody will tell of its return: what is known now is all there will be, and the place
        // among the pending calls is free again.
        let call = &thread.calls[(depth % MAX_DEPTH) as usize];
        let kind = RecordKind::Call;
        emit::call(thread, kind, Weight::Call, call, 0, 0, hit.counters);
        return;
    }
    if !around.folds && hit.site.probe == Probe::EntryAndReturn as u8 {
        let call = &thread.calls[(depth % MAX_DEPTH) as usize];
        let kind = RecordKind::Begin;
        if !emit::call(thread, kind, Weight::Extra, call, 0, 0, hit.counters) {
            thread.calls[(depth % MAX_DEPTH) as usize].flags |= flags::BEGIN_LOST;
        }
    }
    thread.depth = depth + 1;
}

/// The entry of any call that has no program of its own.
#[inline(always)]
fn call_entry(ctx: &ProbeContext) -> Option<()> {
    let registers = args(ctx);
    let hit = Hit::entry(ctx)?;
    debug!(
        ctx,
        "call {} {:x} {:x}", hit.site.api, registers[0], registers[1]
    );
    enter(ctx, &hit, |words| {
        values::at_entry(ctx, hit.site, registers, words)
    });
    None
}

entry_programs!(call_entry, call_entry_multi, call_entry_single);

/// The return address; with the flag where it cannot be read.
#[inline(always)]
pub(crate) fn caller(ctx: &ProbeContext, flags: u32) -> (u64, u32) {
    match hit::return_address(ctx) {
        Some(address) => (address, flags),
        None => (0, flags | flags::CALLER_UNREAD),
    }
}

/// The flags that say which form of the function it was.
#[inline(always)]
pub(crate) fn site_flags(site: &Site) -> u32 {
    let mut form = 0;
    if site.twin == Twin::PerThread as u8 {
        form |= flags::PER_THREAD_STREAM;
    }
    if site.before_13 != 0 {
        form |= BEFORE_13;
    }
    form
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

/// Reports all pending calls as abandoned.
#[inline(never)]
pub(crate) fn abandon_all(thread: &mut ThreadState) -> u32 {
    for _ in 0..MAX_DEPTH {
        abandon_top(thread);
    }
    0
}

/// Reports as abandoned the pending calls that are sampled, and what is pending inside of them:
/// their return probes were taken off.
#[inline(never)]
pub(crate) fn abandon_sampled(thread: &mut ThreadState, windows: Windows) -> u32 {
    for _ in 0..MAX_DEPTH {
        let mut is_pending = false;
        for index in 0..MAX_DEPTH {
            let call = &thread.calls[(index % MAX_DEPTH) as usize];
            is_pending |= index < thread.depth && windows.is_sampled(call.class);
        }
        if !is_pending {
            break;
        }
        abandon_top(thread);
    }
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
    let hit = Hit::at_return(&ctx)?;
    let thread = hit.known_thread()?;
    let end = now();
    // SAFETY: the registers are the context. Results are 32-bit (`cudaError_t`, `CUresult`).
    let result = unsafe { (*ctx.regs).rax } as u32 as i32;
    let call = leave(thread, hit.site.api, stack_pointer(&ctx))?;
    if call.folded != 0 {
        return None;
    }
    call.flags |= flags::RETURNED;
    values::at_return(hit.site, call, result);
    let bytes = if result == 0 {
        values::bytes(hit.site, call)
    } else {
        0
    };
    capture::returned(&hit, call, result);
    if !finish(&hit, thread, end, result, bytes) {
        capture::lost(&hit);
    }
    None
}

/// Counts and reports the call that [`leave`] took off last. True if the record went out.
#[inline(always)]
pub(crate) fn finish(hit: &Hit, thread: &ThreadState, end: u64, result: i32, bytes: u64) -> bool {
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
    )
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
