//! Device and managed memory.

use fake_cuda_core::{
    Code, Outcome,
    abi::store,
    exports,
    layout::{Extent, PitchedPointer},
};

use crate::device::ready;

/// Bytes of an element, for the driver: any alignment will do.
const ELEMENT: u32 = 4;

fn allocate_rows(address: *mut u64, pitch: *mut usize, width: usize, height: usize) -> Outcome {
    let allocate = ready()?.functions.mem_alloc_pitch;
    // SAFETY: the driver's function and the caller's pointers, as the real one requires.
    Code::outcome(unsafe { allocate(address, pitch, width, height, ELEMENT) })
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

    /// Allocates rows.
    fn cudaMallocPitch(address: *mut u64, pitch: *mut usize, width: usize, height: usize) {
        allocate_rows(address, pitch, width, height)
    }

    /// Allocates rows and layers.
    fn cudaMalloc3D(pointer: *mut PitchedPointer, extent: Extent) {
        if pointer.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let rows = extent.height.checked_mul(extent.depth).ok_or(Code::OUT_OF_MEMORY)?;
        let (mut address, mut pitch) = (0, 0);
        allocate_rows(&raw mut address, &raw mut pitch, extent.width, rows)?;
        let allocated = PitchedPointer { address, pitch, row: extent.width, rows: extent.height };
        // SAFETY: not null, and the caller's pointer, as the real function requires.
        unsafe { store(pointer, allocated) }
    }

    /// Allocates memory that host and device share.
    fn cudaMallocManaged(address: *mut u64, size: usize, flags: u32) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.mem_alloc_managed)(address, size, flags) })
    }
}
