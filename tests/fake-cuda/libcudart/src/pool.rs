//! Memory pools.

use std::ffi::c_void;

use fake_cuda_core::{
    Code, exports,
    layout::{PoolProperties, SharedHandle},
};

use crate::device::ready;

exports! {
    versioned;

    /// Allocates from the device's pool, in a stream.
    fn cudaMallocAsync | cudaMallocAsync_ptsz [default] (
        address: *mut u64, size: usize, stream: usize,
    ) {
        let allocate = ready()?.on(default).mem_alloc_async;
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { allocate(address, size, stream) })
    }

    /// Allocates from a pool, in a stream.
    fn cudaMallocFromPoolAsync | cudaMallocFromPoolAsync_ptsz [default] (
        address: *mut u64, size: usize, pool: usize, stream: usize,
    ) {
        let allocate = ready()?.on(default).mem_alloc_from_pool_async;
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { allocate(address, size, pool, stream) })
    }

    /// Frees in a stream.
    fn cudaFreeAsync | cudaFreeAsync_ptsz [default] (address: u64, stream: usize) {
        // SAFETY: the driver's function; the address is only a number to it.
        Code::outcome(unsafe { (ready()?.on(default).mem_free_async)(address, stream) })
    }

    /// A new pool.
    fn cudaMemPoolCreate(pool: *mut usize, properties: *const PoolProperties) {
        // SAFETY: the driver's function and the caller's pointers, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.pool_create)(pool, properties) })
    }

    /// Ends a pool.
    fn cudaMemPoolDestroy(pool: usize) {
        // SAFETY: the driver's function; the handle is only a number to it.
        Code::outcome(unsafe { (ready()?.functions.pool_destroy)(pool) })
    }

    /// Gives unused memory of a pool back, down to so many bytes.
    fn cudaMemPoolTrimTo(pool: usize, keep: usize) {
        // SAFETY: the driver's function; the handle is only a number to it.
        Code::outcome(unsafe { (ready()?.functions.pool_trim_to)(pool, keep) })
    }

    /// Sets a pool up.
    fn cudaMemPoolSetAttribute(pool: usize, attribute: i32, value: *const c_void) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.pool_set_attribute)(pool, attribute, value) })
    }

    /// A figure of a pool.
    fn cudaMemPoolGetAttribute(pool: usize, attribute: i32, value: *mut u64) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.pool_get_attribute)(pool, attribute, value) })
    }

    /// Shows a pool to other processes.
    fn cudaMemPoolExportToShareableHandle(
        handle: *mut c_void, pool: usize, kind: i32, flags: u32,
    ) {
        let export = ready()?.functions.pool_export;
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { export(handle, pool, kind, flags.into()) })
    }

    /// Opens another process's pool.
    fn cudaMemPoolImportFromShareableHandle(
        pool: *mut usize, handle: *const c_void, kind: i32, flags: u32,
    ) {
        let import = ready()?.functions.pool_import;
        // SAFETY: the driver's function and the caller's pointers, as the real one requires.
        Code::outcome(unsafe { import(pool, handle, kind, flags.into()) })
    }

    /// Shows memory of a pool to other processes.
    fn cudaMemPoolExportPointer(handle: *mut SharedHandle, address: u64) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.pool_export_pointer)(handle, address) })
    }

    /// Opens memory of another process's pool.
    fn cudaMemPoolImportPointer(address: *mut u64, pool: usize, handle: *const SharedHandle) {
        // SAFETY: the driver's function and the caller's pointers, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.pool_import_pointer)(address, pool, handle) })
    }

    /// The pool that a device has from the start.
    fn cudaDeviceGetDefaultMemPool(pool: *mut usize, device: i32) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.default_mem_pool)(pool, device) })
    }

    /// The pool that a device has now.
    fn cudaDeviceGetMemPool(pool: *mut usize, device: i32) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.mem_pool)(pool, device) })
    }

    /// Chooses a device's pool.
    fn cudaDeviceSetMemPool(device: i32, pool: usize) {
        // SAFETY: the driver's function; the handle is only a number to it.
        Code::outcome(unsafe { (ready()?.functions.set_mem_pool)(device, pool) })
    }
}
