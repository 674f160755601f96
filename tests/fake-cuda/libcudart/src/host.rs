//! Host memory that devices can reach.

use fake_cuda_core::{Code, Outcome, exports};

use crate::device::ready;

/// `cudaHostAllocDefault`.
const DEFAULT_FLAGS: u32 = 0;

fn allocate(address: *mut u64, size: usize, flags: u32) -> Outcome {
    // SAFETY: the driver's function and the caller's pointer, as the real one requires.
    Code::outcome(unsafe { (ready()?.functions.mem_host_alloc)(address, size, flags) })
}

exports! {
    versioned;

    /// Allocates pinned host memory.
    fn cudaMallocHost(address: *mut u64, size: usize) {
        allocate(address, size, DEFAULT_FLAGS)
    }

    /// Allocates pinned host memory.
    fn cudaHostAlloc(address: *mut u64, size: usize, flags: u32) {
        allocate(address, size, flags)
    }

    /// Frees pinned host memory; null is fine.
    fn cudaFreeHost(address: u64) {
        let driver = ready()?;
        if address == 0 {
            return Ok(());
        }
        // SAFETY: the driver's function; it frees only what it gave out.
        Code::outcome(unsafe { (driver.functions.mem_free_host)(address) })
    }

    /// Pins memory of the program.
    fn cudaHostRegister(address: u64, size: usize, flags: u32) {
        // SAFETY: the driver's function; the address is only a number to it.
        Code::outcome(unsafe { (ready()?.functions.mem_host_register)(address, size, flags) })
    }

    /// Ends the pinning.
    fn cudaHostUnregister(address: u64) {
        // SAFETY: the driver's function; the address is only a number to it.
        Code::outcome(unsafe { (ready()?.functions.mem_host_unregister)(address) })
    }
}
