//! Many copies in one call, since CUDA 12.8. CUDA 13 left out where the index of a failed copy
//! goes.

use std::ffi::c_void;

use fake_cuda_core::{Code, exports, layout::BatchCopy3D};

use crate::device::ready;

#[cfg(cuda12)]
exports! {
    versioned;

    /// Copies blocks.
    fn cudaMemcpyBatchAsync | cudaMemcpyBatchAsync_ptsz [default] (
        to: *const u64, from: *const u64, sizes: *const usize, count: usize,
        attributes: *const c_void, indices: *const usize, attribute_count: usize,
        failed: *mut usize, stream: usize,
    ) {
        let copy = ready()?.on(default).memcpy_batch_12;
        // SAFETY: the driver's function and the caller's pointers, as the real one requires.
        Code::outcome(unsafe {
            copy(to, from, sizes, count, attributes, indices, attribute_count, failed, stream)
        })
    }

    /// Copies blocks of rows and layers.
    fn cudaMemcpy3DBatchAsync | cudaMemcpy3DBatchAsync_ptsz [default] (
        count: usize, copies: *const BatchCopy3D, failed: *mut usize, flags: u64, stream: usize,
    ) {
        let copy = ready()?.on(default).memcpy_3d_batch_12;
        // SAFETY: the driver's function and the caller's pointers, as the real one requires.
        Code::outcome(unsafe { copy(count, copies, failed, flags, stream) })
    }
}

#[cfg(cuda13)]
exports! {
    versioned;

    /// Copies blocks.
    fn cudaMemcpyBatchAsync | cudaMemcpyBatchAsync_ptsz [default] (
        to: *const u64, from: *const u64, sizes: *const usize, count: usize,
        attributes: *const c_void, indices: *const usize, attribute_count: usize, stream: usize,
    ) {
        let copy = ready()?.on(default).memcpy_batch;
        // SAFETY: the driver's function and the caller's pointers, as the real one requires.
        Code::outcome(unsafe {
            copy(to, from, sizes, count, attributes, indices, attribute_count, stream)
        })
    }

    /// Copies blocks of rows and layers.
    fn cudaMemcpy3DBatchAsync | cudaMemcpy3DBatchAsync_ptsz [default] (
        count: usize, copies: *const BatchCopy3D, flags: u64, stream: usize,
    ) {
        let copy = ready()?.on(default).memcpy_3d_batch;
        // SAFETY: the driver's function and the caller's pointers, as the real one requires.
        Code::outcome(unsafe { copy(count, copies, flags, stream) })
    }
}

/// What CUDA 13.4 added: one copy, with the attributes that a batch has.
#[cfg(cuda13)]
pub(crate) mod since_13 {
    use super::{BatchCopy3D, Code, c_void, exports, ready};

    exports! {
        versioned;

        /// Copies in a stream, with hints.
        fn cudaMemcpyWithAttributesAsync | cudaMemcpyWithAttributesAsync_ptsz [default] (
            to: u64, from: u64, size: usize, attributes: *const c_void, stream: usize,
        ) {
            let copy = ready()?.on(default).memcpy_with_attributes;
            // SAFETY: the driver's function; the caller vouches for host ranges and pointers.
            Code::outcome(unsafe { copy(to, from, size, attributes, stream) })
        }

        /// Copies rows and layers in a stream, with hints.
        fn cudaMemcpy3DWithAttributesAsync | cudaMemcpy3DWithAttributesAsync_ptsz [default] (
            copied: *const BatchCopy3D, flags: u64, stream: usize,
        ) {
            let copy = ready()?.on(default).memcpy_3d_with_attributes;
            // SAFETY: the driver's function and the caller's structure, as the real one requires.
            Code::outcome(unsafe { copy(copied, flags, stream) })
        }
    }
}
