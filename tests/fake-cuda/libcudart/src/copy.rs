//! Copies: the driver function is chosen by direction, as the real runtime does it.

use fake_cuda_core::{Code, DefaultStream, Outcome, exports};

use crate::device::{context, ready};

pub(crate) fn copy(default: DefaultStream, to: u64, from: u64, size: usize, kind: i32) -> Outcome {
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

pub(crate) fn copy_async(
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
    fn cudaMemcpy | cudaMemcpy_ptds [default] (to: u64, from: u64, size: usize, kind: i32) {
        copy(default, to, from, size, kind)
    }

    /// Copies in a stream.
    fn cudaMemcpyAsync | cudaMemcpyAsync_ptsz [default] (to: u64, from: u64, size: usize, kind: i32, stream: usize) {
        copy_async(default, to, from, size, kind, stream)
    }

    /// Copies between devices.
    fn cudaMemcpyPeer(to: u64, to_device: i32, from: u64, from_device: i32, size: usize) {
        let driver = ready()?;
        let (to_context, from_context) =
            (context(driver, to_device)?, context(driver, from_device)?);
        let copy = driver.on(DefaultStream::Legacy).memcpy_peer;
        // SAFETY: the driver's function; addresses and contexts are only numbers to it.
        Code::outcome(unsafe { copy(to, to_context, from, from_context, size) })
    }

    /// Copies between devices in a stream.
    fn cudaMemcpyPeerAsync(
        to: u64, to_device: i32, from: u64, from_device: i32, size: usize, stream: usize,
    ) {
        let driver = ready()?;
        let (to_context, from_context) =
            (context(driver, to_device)?, context(driver, from_device)?);
        let copy = driver.on(DefaultStream::Legacy).memcpy_peer_async;
        // SAFETY: the driver's function; addresses and contexts are only numbers to it.
        Code::outcome(unsafe { copy(to, to_context, from, from_context, size, stream) })
    }
}
