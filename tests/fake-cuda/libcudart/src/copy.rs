//! Copies: the driver function is chosen by direction, as the real runtime does it.

use fake_cuda_core::{Code, Outcome, exports};

use crate::{
    device::ready,
    driver::DefaultStream::{self, Legacy, PerThread},
};

fn copy(default: DefaultStream, to: u64, from: u64, size: usize, kind: i32) -> Outcome {
    let driver = ready()?.on(default);
    let function = match kind {
        0 | 4 => driver.memcpy, // cudaMemcpyHostToHost, cudaMemcpyDefault
        1 => driver.memcpy_htod,
        2 => driver.memcpy_dtoh,
        3 => driver.memcpy_dtod,
        _ => return Err(Code::INVALID_MEMCPY_DIRECTION),
    };
    // SAFETY: the driver's function; the caller vouches for host ranges as to the real one.
    Code::outcome(unsafe { function(to, from, size) })
}

fn copy_async(
    default: DefaultStream,
    to: u64,
    from: u64,
    size: usize,
    kind: i32,
    stream: usize,
) -> Outcome {
    let driver = ready()?.on(default);
    let function = match kind {
        0 | 4 => driver.memcpy_async, // cudaMemcpyHostToHost, cudaMemcpyDefault
        1 => driver.memcpy_htod_async,
        2 => driver.memcpy_dtoh_async,
        3 => driver.memcpy_dtod_async,
        _ => return Err(Code::INVALID_MEMCPY_DIRECTION),
    };
    // SAFETY: the driver's function; the caller vouches for host ranges as to the real one.
    Code::outcome(unsafe { function(to, from, size, stream) })
}

exports! {
    versioned;

    /// Copies.
    fn cudaMemcpy(to: u64, from: u64, size: usize, kind: i32) {
        copy(Legacy, to, from, size, kind)
    }

    /// The per-thread default stream's twin of [`cudaMemcpy`].
    fn cudaMemcpy_ptds(to: u64, from: u64, size: usize, kind: i32) {
        copy(PerThread, to, from, size, kind)
    }

    /// Copies in a stream.
    fn cudaMemcpyAsync(to: u64, from: u64, size: usize, kind: i32, stream: usize) {
        copy_async(Legacy, to, from, size, kind, stream)
    }

    /// The per-thread default stream's twin of [`cudaMemcpyAsync`].
    fn cudaMemcpyAsync_ptsz(to: u64, from: u64, size: usize, kind: i32, stream: usize) {
        copy_async(PerThread, to, from, size, kind, stream)
    }
}
