//! Copies: `(dst, src, size, [kind], [stream])`.

use agent_common::Shape;
use aya_ebpf::programs::ProbeContext;

use crate::{
    calls::{self, entry_programs},
    hit::{Hit, args},
};

#[inline(always)]
fn copy_entry(ctx: &ProbeContext) -> Option<()> {
    let [destination, source, size, fourth, fifth, _] = args(ctx);
    let hit = Hit::new(ctx)?;
    let shape = hit.site.shape;
    let named_direction = shape == Shape::Copy as u8 || shape == Shape::CopyStream as u8;
    let kind = if named_direction {
        u64::from(hit.site.copy_kind)
    } else {
        // An enum: the upper half of the register is not defined.
        fourth & 0xffff_ffff
    };
    let stream = if shape == Shape::CopyKindStream as u8 {
        fifth
    } else if shape == Shape::CopyStream as u8 {
        fourth
    } else {
        0
    };
    calls::enter(
        ctx,
        &hit,
        [destination, source, size, kind, stream, 0],
        0,
        true,
    );
    None
}

entry_programs!(copy_entry, copy_entry_multi, copy_entry_single);
