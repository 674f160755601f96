//! Waits of the host: for a device, a stream or an event.

use agent_common::Shape;
use aya_ebpf::programs::ProbeContext;

use crate::{
    calls::{self, entry_programs},
    hit::{Hit, args},
};

#[inline(always)]
fn sync_entry(ctx: &ProbeContext) -> Option<()> {
    let [first, ..] = args(ctx);
    let hit = Hit::new(ctx)?;
    let handle = if hit.site.shape == Shape::WaitDevice as u8 {
        0
    } else {
        first
    };
    calls::enter(ctx, &hit, [0, handle, 0, 0, 0, 0], 0, true);
    None
}

entry_programs!(sync_entry, sync_entry_multi, sync_entry_single);
