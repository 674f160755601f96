//! Kernel names: of driver handles when they are looked up, of host stubs when the program
//! makes them known.

use agent_common::{
    CallRecord, Header, KERNEL_NAME_CAPACITY, NameRecord, RecordKind, Shape, ThreadState, flags,
};
use aya_ebpf::{
    bindings::BPF_RB_AVAIL_DATA,
    helpers::generated::bpf_probe_read_user_str,
    macros::uretprobe,
    programs::{ProbeContext, RetProbeContext},
};

use crate::{
    calls::{self, entry_programs},
    config, emit,
    hit::{Hit, args, count, now, read, stack_pointer},
    maps::RING,
};

#[inline(always)]
fn lookup_entry(ctx: &ProbeContext) -> Option<()> {
    let [out, second, third, ..] = args(ctx);
    let hit = Hit::entry(ctx)?;
    // (out, module, name), (out, kernel) or (out, handle).
    calls::enter(ctx, &hit, |words| {
        words[..3].copy_from_slice(&[out, second, third]);
        0
    });
    None
}

#[inline(always)]
fn lookup_return(ctx: &RetProbeContext) -> Option<()> {
    let ctx = ProbeContext { regs: ctx.regs };
    let hit = Hit::at_return(&ctx)?;
    let thread = hit.known_thread()?;
    let end = now();
    // SAFETY: the registers are the context. Results are 32-bit (`CUresult`).
    let result = unsafe { (*ctx.regs).rax } as u32 as i32;
    let call = calls::leave(thread, hit.site.api, stack_pointer(&ctx))?;
    call.flags |= flags::RETURNED;
    let (out, second, third) = (call.args[0], call.args[1], call.args[2]);
    let shape = hit.site.shape;
    let by_name = shape == Shape::KernelByName as u8;
    call.args[0] = 0;
    call.args[1] = if by_name { second } else { 0 };
    call.args[2] = 0;
    if result == 0 {
        if shape == Shape::KernelName as u8 {
            call.args[0] = second;
        } else {
            calls::out_value(call, 0, out);
        }
    }
    let handle = call.args[0];
    let folded = call.folded != 0;
    if !folded {
        calls::finish(&hit, thread, end, result, 0);
    }
    if handle != 0 {
        let name = if by_name {
            third
        } else if shape == Shape::KernelName as u8 {
            read::<u64>(out).unwrap_or(0)
        } else {
            0
        };
        let origin = if shape == Shape::KernelName as u8 {
            0
        } else {
            second
        };
        report_name(
            &hit,
            thread,
            end,
            NamedHandle {
                handle,
                origin,
                name,
            },
        );
    }
    None
}

/// A handle, and where its name is known from.
struct NamedHandle {
    handle: u64,
    /// What it was looked up in.
    origin: u64,
    /// Where its name stands in the target's memory; 0 for nowhere.
    name: u64,
}

/// Reports a handle's name, or the kernel that it is a handle of.
#[inline(always)]
fn report_name(hit: &Hit, thread: &ThreadState, timestamp: u64, named: NamedHandle) {
    if config::count_only() != 0 {
        return;
    }
    let NamedHandle {
        handle,
        origin,
        name,
    } = named;
    let filled = RING.query(BPF_RB_AVAIL_DATA.into());
    let Some(mut entry) = RING.reserve::<NameRecord>(0) else {
        count!(hit.counters, lost_extra, 1);
        return;
    };
    let record = entry.as_mut_ptr();
    // SAFETY: `record` points to the reservation, as large as a NameRecord; every field but the
    // name's tail, which `length` excludes, is written.
    unsafe {
        (*record).header = Header {
            timestamp,
            pid: thread.pid,
            tid: thread.tid,
            kind: RecordKind::KernelName as u8,
            reserved: 0,
            api: hit.site.api,
            flags: thread.flags,
        };
        (*record).handle = handle;
        (*record).origin = origin;
        (*record).length = 0;
        if name != 0 {
            let copied = bpf_probe_read_user_str(
                (&raw mut (*record).name).cast(),
                KERNEL_NAME_CAPACITY as u32,
                core::ptr::with_exposed_provenance(name as usize),
            );
            if copied > 0 {
                // The count includes the terminating NUL.
                (*record).length = copied as u64 - 1;
                if copied as usize == KERNEL_NAME_CAPACITY {
                    (*record).header.flags |= flags::NAME_CUT;
                }
            }
        }
    }
    entry.submit(emit::wake::<NameRecord>(filled));
}

entry_programs!(lookup_entry, lookup_entry_multi, lookup_entry_single);

/// For multi links.
#[uretprobe(multi)]
pub(crate) fn lookup_return_multi(ctx: RetProbeContext) -> u32 {
    let _ = lookup_return(&ctx);
    0
}

/// For single uprobes.
#[uretprobe]
pub(crate) fn lookup_return_single(ctx: RetProbeContext) -> u32 {
    let _ = lookup_return(&ctx);
    0
}

/// `(void **fatbin, const char *hostFun, char *deviceFun, const char *deviceName, ...)`
#[inline(always)]
fn register_entry(ctx: &ProbeContext) -> Option<()> {
    let [_, stub, _, name, ..] = args(ctx);
    let hit = Hit::entry(ctx)?;
    if config::count_only() != 0 {
        return None;
    }
    let filled = RING.query(BPF_RB_AVAIL_DATA.into());
    let thread = hit.thread()?;
    let record = CallRecord {
        header: Header {
            timestamp: now(),
            pid: thread.pid,
            tid: thread.tid,
            kind: RecordKind::Registered as u8,
            reserved: 0,
            api: hit.site.api,
            flags: thread.flags,
        },
        duration: 0,
        caller: 0,
        result: 0,
        parent: 0,
        reserved: 0,
        args: [stub, name, 0, 0, 0, 0],
    };
    if filled >= config::ring_half() || !emit::submit(record, filled) {
        count!(hit.counters, lost_extra, 1);
    }
    None
}

entry_programs!(register_entry, register_entry_multi, register_entry_single);
