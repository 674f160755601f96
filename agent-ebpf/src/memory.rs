//! Device memory: allocations report at return, frees at entry and at return.

use agent_common::Shape;
use aya_ebpf::programs::ProbeContext;

use crate::{
    calls::{self, entry_programs},
    hit::{Hit, args},
    log::debug,
};

#[inline(always)]
fn memory_entry(ctx: &ProbeContext) -> Option<()> {
    let [first, second, ..] = args(ctx);
    let hit = Hit::new(ctx)?;
    let is_ordinal = hit.site.shape == Shape::SelectDevice as u8;
    let first = if is_ordinal {
        first & 0xffff_ffff
    } else {
        first
    };
    // (out, size), (address), (free, total) or (ordinal): what a shape does not have is not
    // looked at by its decoder, so both registers are taken as they are.
    debug!(ctx, "memory {} {:x} {:x}", hit.site.api, first, second);
    calls::enter(ctx, &hit, [first, second, 0, 0, 0, 0], 0, true);
    None
}

entry_programs!(memory_entry, memory_entry_multi, memory_entry_single);
