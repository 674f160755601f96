//! Device and managed memory.

use std::{
    collections::HashSet,
    sync::{
        LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::{context, devices, host, pool};

/// Bytes from row to row are a multiple of this, as on the real device.
const PITCH: usize = 512;

/// Managed blocks. They are host memory here: a real device's pages are taken at its first
/// touch, and nothing touches them.
static MANAGED: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);
static MANAGED_BLOCKS: AtomicUsize = AtomicUsize::new(0);

fn managed() -> MutexGuard<'static, HashSet<u64>> {
    MANAGED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn allocate(address: *mut u64, size: usize) -> Outcome {
    let device = context::current()?;
    if address.is_null() || size == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let block = device
        .memory()
        .take(size as u64)
        .ok_or(Code::OUT_OF_MEMORY)?;
    context::note_block(block);
    // SAFETY: not null, and the caller's pointer, as the real function requires.
    unsafe { store(address, block) }
}

fn free_managed(address: u64) -> bool {
    if MANAGED_BLOCKS.load(Relaxed) == 0 || !managed().remove(&address) {
        return false;
    }
    MANAGED_BLOCKS.fetch_sub(1, Relaxed);
    host::give_back(address)
}

/// Frees on the device that owns the address, whichever is current.
pub(crate) fn free(address: u64) -> Outcome {
    context::current()?;
    if let Some(outcome) = pool::free_at_once(address) {
        return outcome;
    }
    let freed = devices::owner(address).is_some_and(|device| device.memory().give_back(address))
        || free_managed(address);
    if !freed {
        return Err(Code::INVALID_VALUE);
    }
    context::forget_block(address);
    Ok(())
}

exports! {
    unversioned;

    /// Allocates on the calling thread's device.
    fn cuMemAlloc_v2(address: *mut u64, size: usize) {
        allocate(address, size)
    }

    /// Allocates rows on the calling thread's device.
    fn cuMemAllocPitch_v2(
        address: *mut u64, pitch: *mut usize, width: usize, height: usize, _element: u32,
    ) {
        if pitch.is_null() || width == 0 || height == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(PITCH).ok_or(Code::OUT_OF_MEMORY)?;
        allocate(address, row.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?)?;
        // SAFETY: not null, and the caller's pointer, as the real function requires.
        unsafe { store(pitch, row) }
    }

    /// Memory that the host can really use.
    fn cuMemAllocManaged(address: *mut u64, size: usize, flags: u32) {
        context::current()?;
        // CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_HOST
        if address.is_null() || size == 0 || !matches!(flags, 1 | 2) {
            return Err(Code::INVALID_VALUE);
        }
        let block = host::take(size)?;
        managed().insert(block);
        MANAGED_BLOCKS.fetch_add(1, Relaxed);
        // SAFETY: not null, and the caller's pointer, as the real function requires.
        unsafe { store(address, block) }
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
}
