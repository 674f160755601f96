//! Host memory that devices can reach: allocated pinned, or pinned later.

use std::{
    collections::HashMap,
    ffi::c_void,
    ptr,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::context;

/// Host blocks of this library: address to bytes.
static BLOCKS: LazyLock<Mutex<HashMap<u64, usize>>> = LazyLock::new(Mutex::default);
/// The program's own memory that it pinned: address to bytes.
static REGISTERED: LazyLock<Mutex<HashMap<u64, usize>>> = LazyLock::new(Mutex::default);

fn lock(map: &'static Mutex<HashMap<u64, usize>>) -> MutexGuard<'static, HashMap<u64, usize>> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Host memory that can really be used: its address.
pub(crate) fn take(size: usize) -> Result<u64, Code> {
    // SAFETY: a new anonymous mapping, placed by the kernel.
    let block = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if block == libc::MAP_FAILED {
        return Err(Code::OUT_OF_MEMORY);
    }
    lock(&BLOCKS).insert(block as u64, size);
    Ok(block as u64)
}

/// Gives a block of [`take`] back; `false` when there is none.
pub(crate) fn give_back(address: u64) -> bool {
    let Some(size) = lock(&BLOCKS).remove(&address) else {
        return false;
    };
    // SAFETY: the whole of a mapping that `take` made and nobody unmapped since.
    unsafe { libc::munmap(address as *mut c_void, size) };
    true
}

fn allocate(address: *mut u64, size: usize) -> Outcome {
    context::current()?;
    if address.is_null() || size == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let block = take(size)?;
    // SAFETY: not null, and the caller's pointer, as the real functions require.
    unsafe { store(address, block) }
}

exports! {
    unversioned;

    /// Host memory that can really be used.
    fn cuMemAllocHost_v2(address: *mut u64, size: usize) {
        allocate(address, size)
    }

    /// Host memory that can really be used.
    fn cuMemHostAlloc(address: *mut u64, size: usize, _flags: u32) {
        allocate(address, size)
    }

    /// Gives pinned host memory back.
    fn cuMemFreeHost(address: u64) {
        context::current()?;
        if give_back(address) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    /// Pins memory of the program.
    fn cuMemHostRegister_v2(address: u64, size: usize, _flags: u32) {
        context::current()?;
        if address == 0 || size == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let end = address.checked_add(size as u64).ok_or(Code::INVALID_VALUE)?;
        let mut registered = lock(&REGISTERED);
        let overlaps = registered
            .iter()
            .any(|(other, length)| *other < end && address < *other + *length as u64);
        if overlaps {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        registered.insert(address, size);
        Ok(())
    }

    /// Ends the pinning.
    fn cuMemHostUnregister(address: u64) {
        context::current()?;
        lock(&REGISTERED)
            .remove(&address)
            .map(|_| ())
            .ok_or(Code::HOST_MEMORY_NOT_REGISTERED)
    }
}
