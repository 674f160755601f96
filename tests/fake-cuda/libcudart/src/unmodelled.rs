//! Functions that PyTorch's `libc10_cuda.so` binds and that nothing here models: they answer
//! what a lone device would answer, or that it is not supported. None of them calls the driver.

use std::ffi::c_void;

use fake_cuda_core::{Code, Outcome, abi::store, exports};

/// Stores through a pointer that may be null.
///
/// # Safety
/// `out` is null or valid for a write of `T`.
unsafe fn store_if_wanted<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: not null, and the caller says that it is valid.
        unsafe { out.write(value) };
    }
}

fn not_supported() -> Outcome {
    Err(Code::NOT_SUPPORTED)
}

exports! {
    versioned;

    /// No device reaches another one's memory.
    fn cudaDeviceCanAccessPeer(can: *mut i32, _device: i32, _peer: i32) {
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(can, 0) }
    }

    /// No device reaches another one's memory.
    fn cudaDeviceEnablePeerAccess(_peer: i32, _flags: u32) {
        not_supported()
    }

    /// All priorities are the same.
    fn cudaDeviceGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) {
        // SAFETY: the caller's pointers, as the real function requires.
        unsafe {
            store_if_wanted(least, 0);
            store_if_wanted(greatest, 0);
        }
        Ok(())
    }

    /// Graphs hold no memory.
    fn cudaDeviceGetGraphMemAttribute(_device: i32, _attribute: i32, value: *mut u64) {
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(value, 0) }
    }

    /// Graphs hold no memory.
    fn cudaDeviceSetGraphMemAttribute(_device: i32, _attribute: i32, _value: *mut u64) {
        Ok(())
    }

    /// The pool is open to its own device only.
    fn cudaMemPoolSetAccess(_pool: usize, _descriptions: *const c_void, _count: usize) {
        Ok(())
    }

    /// No time passes on the device.
    fn cudaEventElapsedTime(milliseconds: *mut f32, _start: usize, _end: usize) {
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(milliseconds, 0.0) }
    }

    /// No node depends on another.
    fn cudaGraphNodeGetDependencies(
        _node: usize,
        _dependencies: *mut usize,
        _edges: *mut c_void,
        count: *mut usize,
    ) {
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(count, 0) }
    }
}
