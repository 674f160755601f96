//! PyTorch's caching allocator: two functions of libc10 that it calls on every block.

use agent_common::Shape;
use aya_ebpf::programs::ProbeContext;

use crate::{
    calls::entry_programs,
    emit::{self, Entered},
    hit::{Hit, args, count, now},
};

/// The part of a `c10::Device` register that the ABI defines: device type and index.
const DEVICE: u64 = 0xffff;

#[inline(always)]
fn torch_entry(ctx: &ProbeContext) -> Option<()> {
    let [a, b, c, d, e, _] = args(ctx);
    let hit = Hit::entry(ctx)?;
    count!(hit.counters, made, 1);
    let Some(thread) = hit.thread() else {
        count!(hit.counters, lost_pairing, 1);
        return None;
    };
    let args = if hit.site.shape == Shape::TorchReport as u8 {
        [a, b, c, d, e & DEVICE, 0]
    } else {
        [0, a, b, c, d & DEVICE, 0]
    };
    let call = Entered {
        timestamp: now(),
        caller: 0,
        parent: 0,
        flags: 0,
        args,
    };
    emit::entered(&hit, thread, call);
    None
}

entry_programs!(torch_entry, torch_entry_multi, torch_entry_single);
