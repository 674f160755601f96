//! Kernel launches, of four argument shapes, probed at entry only unless asked otherwise.

use agent_common::{
    CallRecord, Header, Layer, Probe, RecordKind, SHORT_VALUES, Shape, ThreadState, flags,
    launch::pair,
};
use aya_ebpf::{bindings::BPF_RB_AVAIL_DATA, programs::ProbeContext};

use crate::{
    calls::{self, entry_programs},
    config,
    emit::{self, Entered},
    hit::{self, Hit, args, count, now, read, stack_pointer},
    maps::{KERNEL_PAIRS, KernelKey, RING, SITES},
};

/// The head of `cudaLaunchConfig_t` and, but for the width of the shared memory size, of
/// `CUlaunchConfig` (56 bytes each; the same in the headers of CUDA 12.9 and 13.5).
#[derive(Clone, Copy)]
#[repr(C)]
struct LaunchConfig {
    /// Grid x, y, z, block x, y, z, 32 bits each.
    dimensions: [u64; 3],
    /// Dynamic shared memory, bytes; the driver's has 32 bits and padding.
    shared_memory: u64,
    stream: u64,
}

#[inline(always)]
fn launch_entry(ctx: &ProbeContext) -> Option<()> {
    let registers = args(ctx);
    let hit = Hit::entry(ctx)?;
    let sp = stack_pointer(ctx);
    // The return address, and above it the arguments on the stack.
    let frame = read::<[u64; 4]>(sp);
    if hit.site.probe != Probe::Entry as u8 {
        calls::enter(ctx, &hit, |words| {
            let (args, unread) = launch_args(registers, frame, hit.site.shape);
            words[..SHORT_VALUES].copy_from_slice(&args);
            unread
        });
        return None;
    }
    let Some(thread) = hit.thread() else {
        count!(hit.counters, made, 1);
        count!(hit.counters, lost_pairing, 1);
        return None;
    };
    let caller = match frame {
        Some([address, ..]) => address,
        None => 0,
    };
    let function = function(registers, hit.site.shape);
    if hit.site.layer == Layer::Driver as u8 {
        if is_part_of_runtime_call(thread, hit.site.effect, caller, sp) {
            count!(hit.counters, folded, 1);
            report_pair(&hit, thread, function);
            thread.runtime_site = 0;
            return None;
        }
    } else {
        runtime_entered(ctx, &hit, thread);
        thread.launch_function = function;
    }
    calls::leave_dead_calls(thread, sp);
    let around = calls::around(thread, hit.site.layer, hit.site.effect);
    count!(hit.counters, made, 1);
    let (args, unread) = launch_args(registers, frame, hit.site.shape);
    let unread = if frame.is_none() {
        unread | flags::CALLER_UNREAD
    } else {
        unread
    };
    let call = Entered {
        timestamp: now(),
        caller,
        parent: around.parent,
        flags: unread | calls::site_flags(hit.site),
        args,
    };
    emit::entered(&hit, thread, call);
    None
}

/// The host stub, or the driver's handle.
#[inline(always)]
fn function([first, second, ..]: [u64; 6], shape: u8) -> u64 {
    if shape == Shape::LaunchRuntime as u8 || shape == Shape::LaunchDriver as u8 {
        first
    } else {
        second
    }
}

/// Function, dimensions, shared memory, stream; and the flag for what could not be read.
#[inline(always)]
fn launch_args(registers: [u64; 6], frame: Option<[u64; 4]>, shape: u8) -> ([u64; 6], u32) {
    let [_, first, second, third] = frame.unwrap_or([0; 4]);
    let [a, b, c, d, e, f] = registers;
    if shape == Shape::LaunchRuntime as u8 {
        let (shared, stream) = (first, second);
        let (grid_xy, grid_z) = (b, c as u32);
        let (block_xy, block_z) = (d, e as u32);
        let args = [
            a,
            grid_xy,
            pair(grid_z, block_xy as u32),
            pair((block_xy >> 32) as u32, block_z),
            shared,
            stream,
        ];
        (args, unread(frame.is_some()))
    } else if shape == Shape::LaunchDriver as u8 {
        let (block_z, shared, stream) = (first, second, third);
        let args = [
            a,
            pair(b as u32, c as u32),
            pair(d as u32, e as u32),
            pair(f as u32, block_z as u32),
            shared & 0xffff_ffff,
            stream,
        ];
        (args, unread(frame.is_some()))
    } else {
        let (config, function) = (a, b);
        match read::<LaunchConfig>(config) {
            Some(LaunchConfig {
                dimensions: [x, y, z],
                shared_memory,
                stream,
            }) => (
                [
                    function,
                    x,
                    y,
                    z,
                    shared_memory & shared_mask(shape),
                    stream,
                ],
                0,
            ),
            None => ([function, 0, 0, 0, 0, 0], flags::ARGS_UNREAD),
        }
    }
}

#[inline(always)]
fn unread(all_read: bool) -> u32 {
    if all_read { 0 } else { flags::ARGS_UNREAD }
}

/// The driver's configuration has 32 bits for the shared memory size, the runtime's 64.
#[inline(always)]
fn shared_mask(shape: u8) -> u64 {
    if shape == Shape::LaunchDriverEx as u8 {
        0xffff_ffff
    } else {
        u64::MAX
    }
}

/// Takes note of a runtime call that is probed at entry only.
#[inline(always)]
fn runtime_entered(ctx: &ProbeContext, hit: &Hit, thread: &mut ThreadState) {
    thread.runtime_site = hit.site_index + 1;
    thread.runtime_ip = hit::instruction_pointer(ctx);
    thread.runtime_stack_pointer = stack_pointer(ctx);
}

/// Whether a driver call belongs to the runtime call, probed at entry only, that was last entered
/// on this thread: that has the same effect, and the driver call's return address lies in the same
/// library as that function, and deeper in the stack.
#[inline(always)]
fn is_part_of_runtime_call(thread: &ThreadState, effect: u8, caller: u64, sp: u64) -> bool {
    if thread.runtime_site == 0 || sp >= thread.runtime_stack_pointer {
        return false;
    }
    let Some(runtime) = SITES.get(thread.runtime_site - 1) else {
        return false;
    };
    if runtime.effect != effect {
        return false;
    }
    let start = thread.runtime_ip.wrapping_sub(runtime.text_before);
    let length = runtime.text_before.wrapping_add(runtime.text_after);
    caller.wrapping_sub(start) < length
}

/// The same for any call that is probed at entry only.
#[inline(always)]
pub(crate) fn is_inside_lone(ctx: &ProbeContext, hit: &Hit, thread: &mut ThreadState) -> bool {
    if hit.site.layer != Layer::Driver as u8 {
        runtime_entered(ctx, hit, thread);
        return false;
    }
    let caller = hit::return_address(ctx).unwrap_or(0);
    is_part_of_runtime_call(thread, hit.site.effect, caller, stack_pointer(ctx))
}

/// Tells user space which driver handle the runtime made of a host stub, once per pair.
#[inline(always)]
fn report_pair(hit: &Hit, thread: &ThreadState, handle: u64) {
    if config::count_only() != 0 {
        return;
    }
    let key = KernelKey {
        tgid: u64::from(hit::tgid(hit.pid_tgid)),
        function: thread.launch_function,
    };
    // SAFETY: the value is copied at once.
    if unsafe { KERNEL_PAIRS.get(&key) }.copied() == Some(handle) {
        return;
    }
    let record = CallRecord {
        header: Header {
            timestamp: now(),
            pid: thread.pid,
            tid: thread.tid,
            kind: RecordKind::KernelPair as u8,
            reserved: 0,
            api: hit.site.api,
            flags: thread.flags,
        },
        duration: 0,
        caller: 0,
        result: 0,
        parent: 0,
        reserved: 0,
        args: [thread.launch_function, handle, 0, 0, 0, 0],
    };
    if !emit::submit(record, RING.query(BPF_RB_AVAIL_DATA.into())) {
        count!(hit.counters, lost_extra, 1);
        return;
    }
    let _ = KERNEL_PAIRS.insert(&key, &handle, 0);
}

entry_programs!(launch_entry, launch_entry_multi, launch_entry_single);
