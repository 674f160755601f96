//! PyTorch's caching allocator: two functions of libc10 that it calls on every block.

use agent_common::{Pending, RecordKind, Shape, flags};
use aya_ebpf::programs::ProbeContext;

use crate::{
    calls::{self, entry_programs},
    emit::{self, Weight},
    hit::{Hit, args, count, now},
};

/// The part of a `c10::Device` register that the ABI defines: device type and index.
const DEVICE: u64 = 0xffff;

#[inline(always)]
fn torch_entry(ctx: &ProbeContext) -> Option<()> {
    let [a, b, c, d, e, _] = args(ctx);
    let hit = Hit::new(ctx)?;
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
    let call = Pending {
        timestamp: now(),
        stack_pointer: 0,
        caller: 0,
        args,
        api: hit.site.api,
        parent: 0,
        flags: calls::twin_flag(&hit) & flags::PER_THREAD_STREAM,
        layer: hit.site.layer,
        effect: hit.site.effect,
        shape: hit.site.shape,
        folded: 0,
        hot: hit.site.hot,
        reserved: [0; 3],
    };
    emit::call(
        thread,
        RecordKind::Call,
        Weight::Call,
        &call,
        0,
        0,
        hit.counters,
    );
    None
}

entry_programs!(torch_entry, torch_entry_multi, torch_entry_single);
