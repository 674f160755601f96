//! Graph launches: `(exec, stream)`.

use aya_ebpf::programs::ProbeContext;

use crate::{
    calls::{self, entry_programs},
    hit::{Hit, args},
};

#[inline(always)]
fn graph_entry(ctx: &ProbeContext) -> Option<()> {
    let [exec, stream, ..] = args(ctx);
    let hit = Hit::new(ctx)?;
    calls::enter(ctx, &hit, [exec, stream, 0, 0, 0, 0], 0, true);
    None
}

entry_programs!(graph_entry, graph_entry_multi, graph_entry_single);
