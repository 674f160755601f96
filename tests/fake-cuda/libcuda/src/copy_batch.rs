//! Many copies in one call. In a capture each copy is a node.

use std::ffi::c_void;

use fake_cuda_core::{Code, Outcome, exports, layout::BatchCopy3D};

use crate::{
    context,
    copy::{Direction, copy},
    graph,
};

/// A batch in the default stream is refused, as on the real device.
fn check(count: usize, stream: usize) -> Outcome {
    context::current()?;
    if count == 0 || matches!(stream, 1 | 2) {
        return Err(Code::INVALID_VALUE);
    }
    Ok(())
}

fn copy_all(
    to: *const u64,
    from: *const u64,
    sizes: *const usize,
    count: usize,
    stream: usize,
) -> Outcome {
    check(count, stream)?;
    if to.is_null() || from.is_null() || sizes.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    for index in 0..count {
        // SAFETY: not null, and arrays of `count` elements, as the real functions require.
        let (to, from, size) = unsafe { (*to.add(index), *from.add(index), *sizes.add(index)) };
        copy(Direction::ByAddress, to, from, size, stream)?;
    }
    Ok(())
}

fn copy_all_3d(copies: *const BatchCopy3D, count: usize, stream: usize) -> Outcome {
    check(count, stream)?;
    if copies.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    for _ in 0..count {
        graph::add_node_if_capturing(stream);
    }
    Ok(())
}

exports! {
    unversioned;

    /// Copies, in CUDA 12's form.
    fn cuMemcpyBatchAsync | cuMemcpyBatchAsync_ptsz [default] (
        to: *const u64, from: *const u64, sizes: *const usize, count: usize,
        _attributes: *const c_void, _attribute_indices: *const usize, _attribute_count: usize,
        _failed: *mut usize, stream: usize,
    ) {
        copy_all(to, from, sizes, count, default.resolve(stream))
    }

    /// Copies, in CUDA 13's form.
    fn cuMemcpyBatchAsync_v2 | cuMemcpyBatchAsync_v2_ptsz [default] (
        to: *const u64, from: *const u64, sizes: *const usize, count: usize,
        _attributes: *const c_void, _attribute_indices: *const usize, _attribute_count: usize,
        stream: usize,
    ) {
        copy_all(to, from, sizes, count, default.resolve(stream))
    }

    /// Copies rows and layers, in CUDA 12's form.
    fn cuMemcpy3DBatchAsync | cuMemcpy3DBatchAsync_ptsz [default] (
        count: usize, copies: *const BatchCopy3D, _failed: *mut usize, _flags: u64, stream: usize,
    ) {
        copy_all_3d(copies, count, default.resolve(stream))
    }

    /// Copies rows and layers, in CUDA 13's form.
    fn cuMemcpy3DBatchAsync_v2 | cuMemcpy3DBatchAsync_v2_ptsz [default] (
        count: usize, copies: *const BatchCopy3D, _flags: u64, stream: usize,
    ) {
        copy_all_3d(copies, count, default.resolve(stream))
    }
}
