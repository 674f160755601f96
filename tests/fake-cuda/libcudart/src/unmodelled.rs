//! Functions that PyTorch's `libc10_cuda.so` binds and that nothing here models: they answer
//! what a lone device without pools, peers and graphs of memory would answer, or that it is
//! not supported. None of them calls the driver.

use std::ffi::c_void;

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::driver::Driver;

/// What is given out for the default memory pool.
const DEFAULT_POOL: usize = 1;

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

    /// Name, memory, warp, block and capability; the rest of the structure differs between
    /// CUDA majors and is left as it is.
    fn cudaGetDeviceProperties(properties: *mut u8, device: i32) {
        if properties.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let mut total = 0usize;
        let total_mem = Driver::get()?.functions.device_total_mem;
        // SAFETY: the driver's function, and a pointer to a local.
        Code::outcome(unsafe { total_mem(&raw mut total, device) })?;
        let name = c"fake CUDA device".to_bytes_with_nul();
        // SAFETY: the caller's structure; all offsets lie within its first 368 bytes, which
        // are the same from CUDA 11 to 13.
        unsafe {
            properties.copy_from_nonoverlapping(name.as_ptr(), name.len());
            properties.add(288).cast::<usize>().write_unaligned(total);
            properties.add(308).cast::<i32>().write_unaligned(32); // warpSize
            properties.add(320).cast::<i32>().write_unaligned(1024); // maxThreadsPerBlock
            properties.add(360).cast::<i32>().write_unaligned(9); // major
            properties.add(364).cast::<i32>().write_unaligned(0); // minor
        }
        Ok(())
    }

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

    /// A handle that stands for the pool.
    fn cudaDeviceGetDefaultMemPool(pool: *mut usize, _device: i32) {
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(pool, DEFAULT_POOL) }
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

    /// The pool holds nothing back.
    fn cudaMemPoolGetAttribute(_pool: usize, _attribute: i32, value: *mut u64) {
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(value, 0) }
    }

    /// The pool holds nothing back.
    fn cudaMemPoolSetAttribute(_pool: usize, _attribute: i32, _value: *mut c_void) {
        Ok(())
    }

    /// The pool is open to its own device only.
    fn cudaMemPoolSetAccess(_pool: usize, _descriptions: *const c_void, _count: usize) {
        Ok(())
    }

    /// The pool holds nothing back.
    fn cudaMemPoolTrimTo(_pool: usize, _keep: usize) {
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

    /// Memory stays in its process.
    fn cudaIpcGetMemHandle(_handle: *mut c_void, _address: u64) {
        not_supported()
    }

    /// Memory stays in its process.
    fn cudaIpcOpenMemHandle(_address: *mut u64) {
        not_supported()
    }

    /// Memory stays in its process.
    fn cudaIpcCloseMemHandle(_address: u64) {
        not_supported()
    }

    /// No device reaches another one's memory.
    fn cudaMemcpyPeerAsync(
        _to: u64, _to_device: i32, _from: u64, _from_device: i32, _size: usize, _stream: usize,
    ) {
        not_supported()
    }
}
