//! Device memory and pinned host memory.

use std::ffi::c_void;

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::{
    device::ready,
    driver::DefaultStream::{self, Legacy, PerThread},
};

/// `cudaHostAllocDefault`.
const DEFAULT_FLAGS: u32 = 0;

fn allocate_async(
    default: DefaultStream,
    address: *mut u64,
    size: usize,
    stream: usize,
) -> Outcome {
    // SAFETY: the driver's function and the caller's pointer, as the real one requires.
    Code::outcome(unsafe { (ready()?.on(default).mem_alloc_async)(address, size, stream) })
}

fn free_async(default: DefaultStream, address: u64, stream: usize) -> Outcome {
    // SAFETY: the driver's function; the address is only a number to it.
    Code::outcome(unsafe { (ready()?.on(default).mem_free_async)(address, stream) })
}

fn allocate_host(address: *mut *mut c_void, size: usize, flags: u32) -> Outcome {
    // SAFETY: the driver's function and the caller's pointer, as the real one requires.
    Code::outcome(unsafe { (ready()?.functions.mem_host_alloc)(address, size, flags) })
}

exports! {
    versioned;

    /// Allocates device memory; nothing at all for 0 bytes.
    fn cudaMalloc(address: *mut u64, size: usize) {
        let driver = ready()?;
        if size == 0 {
            // SAFETY: the caller's pointer, as the real function requires.
            return unsafe { store(address, 0) };
        }
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (driver.functions.mem_alloc)(address, size) })
    }

    /// Frees device memory; null is fine.
    fn cudaFree(address: u64) {
        let driver = ready()?;
        if address == 0 {
            return Ok(());
        }
        // SAFETY: the driver's function; the address is only a number to it.
        Code::outcome(unsafe { (driver.functions.mem_free)(address) })
    }

    /// Free and total bytes of the thread's device.
    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) {
        // SAFETY: the driver's function and the caller's pointers, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.mem_get_info)(free, total) })
    }

    /// Allocates device memory in a stream.
    fn cudaMallocAsync(address: *mut u64, size: usize, stream: usize) {
        allocate_async(Legacy, address, size, stream)
    }

    /// The per-thread default stream's twin of [`cudaMallocAsync`].
    fn cudaMallocAsync_ptsz(address: *mut u64, size: usize, stream: usize) {
        allocate_async(PerThread, address, size, stream)
    }

    /// Frees device memory in a stream.
    fn cudaFreeAsync(address: u64, stream: usize) {
        free_async(Legacy, address, stream)
    }

    /// The per-thread default stream's twin of [`cudaFreeAsync`].
    fn cudaFreeAsync_ptsz(address: u64, stream: usize) {
        free_async(PerThread, address, stream)
    }

    /// Allocates pinned host memory.
    fn cudaMallocHost(address: *mut *mut c_void, size: usize) {
        allocate_host(address, size, DEFAULT_FLAGS)
    }

    /// Allocates pinned host memory.
    fn cudaHostAlloc(address: *mut *mut c_void, size: usize, flags: u32) {
        allocate_host(address, size, flags)
    }

    /// Frees pinned host memory; null is fine.
    fn cudaFreeHost(address: *mut c_void) {
        let driver = ready()?;
        if address.is_null() {
            return Ok(());
        }
        // SAFETY: the driver's function; it frees only what it gave out.
        Code::outcome(unsafe { (driver.functions.mem_free_host)(address) })
    }
}
