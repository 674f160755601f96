//! Copies of many blocks in one call.

use agent_common::{MAX_VALUES, Shape, flags};
use aya_ebpf::programs::ProbeContext;

use crate::{
    calls::{self, entry_programs},
    hit::{Hit, args, read},
    values,
};

/// Blocks whose sizes are added up. Beyond, the size is not known.
const MAX_BLOCKS: u64 = 1024;

/// Bytes of `cudaMemcpy3DBatchOp`, and of `CUDA_MEMCPY3D_BATCH_OP`.
const OPERATION: u64 = 112;
/// Where its extent stands: width, height, depth.
const EXTENT: u64 = 80;

#[inline(always)]
fn batch_entry(ctx: &ProbeContext) -> Option<()> {
    let registers = args(ctx);
    let hit = Hit::entry(ctx)?;
    calls::enter(ctx, &hit, |words: &mut [u64; MAX_VALUES]| {
        let three_dimensional = hit.site.shape == Shape::CopyBatch3D as u8;
        let unread = values::at_entry(ctx, hit.site, registers, words);
        let (blocks, count) = (words[0], words[1]);
        match sum(blocks, count, three_dimensional) {
            Some(bytes) => {
                words[0] = bytes;
                unread
            }
            None => {
                words[0] = 0;
                unread | flags::ARGS_UNREAD
            }
        }
    });
    None
}

#[inline(always)]
fn sum(blocks: u64, count: u64, three_dimensional: bool) -> Option<u64> {
    if count > MAX_BLOCKS {
        return None;
    }
    let mut bytes = 0_u64;
    for index in 0..MAX_BLOCKS {
        if index >= count {
            break;
        }
        let size = if three_dimensional {
            let [width, height, depth] =
                read::<[u64; 3]>(blocks.wrapping_add(index * OPERATION + EXTENT))?;
            width.wrapping_mul(height.max(1)).wrapping_mul(depth.max(1))
        } else {
            read(blocks.wrapping_add(8 * index))?
        };
        bytes = bytes.wrapping_add(size);
    }
    Some(bytes)
}

entry_programs!(batch_entry, batch_entry_multi, batch_entry_single);
