//! Device memory and pinned host memory.

use std::{
    collections::HashMap,
    ffi::c_void,
    ptr,
    sync::{LazyLock, Mutex, PoisonError},
};

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::{context, devices};

/// Pinned host blocks: address to bytes.
static PINNED: LazyLock<Mutex<HashMap<u64, usize>>> = LazyLock::new(Mutex::default);

fn allocate(address: *mut u64, size: usize) -> Outcome {
    let device = context::current()?;
    if address.is_null() || size == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let block = device
        .memory()
        .take(size as u64)
        .ok_or(Code::OUT_OF_MEMORY)?;
    // SAFETY: not null, and the caller's pointer, as the real function requires.
    unsafe { store(address, block) }
}

/// Frees on the device that owns the address, whichever is current.
fn free(address: u64) -> Outcome {
    context::current()?;
    let freed = devices::owner(address).is_some_and(|device| device.memory().give_back(address));
    if freed {
        Ok(())
    } else {
        Err(Code::INVALID_VALUE)
    }
}

exports! {
    unversioned;

    /// Allocates on the calling thread's device.
    fn cuMemAlloc_v2(address: *mut u64, size: usize) {
        allocate(address, size)
    }

    /// Frees a block of any device.
    fn cuMemFree_v2(address: u64) {
        free(address)
    }

    /// Free and total bytes of the calling thread's device.
    fn cuMemGetInfo_v2(free: *mut u64, total: *mut u64) {
        let memory = context::current()?.memory();
        // SAFETY: the caller's pointers, as the real function requires.
        unsafe {
            store(free, memory.free())?;
            store(total, memory.capacity())
        }
    }

    /// Allocates as [`cuMemAlloc_v2`] does: the stream's order is the calls' order here.
    fn cuMemAllocAsync(address: *mut u64, size: usize, _stream: usize) {
        allocate(address, size)
    }

    /// The per-thread default stream's twin of [`cuMemAllocAsync`].
    fn cuMemAllocAsync_ptsz(address: *mut u64, size: usize, _stream: usize) {
        allocate(address, size)
    }

    /// Frees as [`cuMemFree_v2`] does.
    fn cuMemFreeAsync(address: u64, _stream: usize) {
        free(address)
    }

    /// The per-thread default stream's twin of [`cuMemFreeAsync`].
    fn cuMemFreeAsync_ptsz(address: u64, _stream: usize) {
        free(address)
    }

    /// Host memory that can really be used.
    fn cuMemHostAlloc(address: *mut *mut c_void, size: usize, _flags: u32) {
        context::current()?;
        if address.is_null() || size == 0 {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: a new anonymous mapping, placed by the kernel.
        let block = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if block == libc::MAP_FAILED {
            return Err(Code::OUT_OF_MEMORY);
        }
        PINNED.lock().unwrap_or_else(PoisonError::into_inner).insert(block as u64, size);
        // SAFETY: not null, and the caller's pointer, as the real function requires.
        unsafe { store(address, block) }
    }

    /// Gives pinned host memory back.
    fn cuMemFreeHost(address: *mut c_void) {
        context::current()?;
        let mut pinned = PINNED.lock().unwrap_or_else(PoisonError::into_inner);
        let size = pinned.remove(&(address as u64)).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the whole of a mapping that `cuMemHostAlloc` made and nobody unmapped since.
        unsafe { libc::munmap(address, size) };
        Ok(())
    }
}
