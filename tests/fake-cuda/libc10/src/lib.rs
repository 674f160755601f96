//! A stand-in for PyTorch's `libc10.so`: the two functions that its CUDA caching allocator
//! reports to, and a small allocator with the same rules behind a C interface.
//! See `tests/fake-cuda/README.md`.

mod allocator;
mod cudart;
mod report;

use std::{
    ffi::{CStr, c_char},
    sync::{Mutex, MutexGuard, PoisonError},
};

use allocator::{Allocator, Totals};
use cudart::Cudart;
use fake_cuda_core::exports;

static ALLOCATOR: Mutex<Option<Allocator<Cudart>>> = Mutex::new(None);

/// What [`fake_c10_alloc`] and the others return before [`fake_c10_open`].
const NOT_OPEN: i32 = 3; // cudaErrorInitializationError

fn allocator() -> MutexGuard<'static, Option<Allocator<Cudart>>> {
    ALLOCATOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` under the lock, as PyTorch reports under its allocator's lock.
fn with_allocator(work: impl FnOnce(&mut Allocator<Cudart>) -> Result<(), i32>) -> i32 {
    match allocator().as_mut() {
        None => NOT_OPEN,
        Some(allocator) => match work(allocator) {
            Ok(()) => 0,
            Err(code) => code,
        },
    }
}

exports! {
    unversioned;

    /// Opens the CUDA runtime that segments come from. 0, or -1 when there is none.
    @raw fn fake_c10_open(cudart: *const c_char) -> i32 {
        if cudart.is_null() {
            return -1;
        }
        // SAFETY: not null, and a string of the caller.
        match Cudart::open(unsafe { CStr::from_ptr(cudart) }) {
            None => -1,
            Some(cudart) => {
                *allocator() = Some(Allocator::new(cudart));
                0
            }
        }
    }

    /// Allocates `size` bytes on device 0. 0 and the address in `*address`, or a CUDA error.
    @raw fn fake_c10_alloc(size: usize, address: *mut u64) -> i32 {
        with_allocator(|allocator| {
            let block = allocator.allocate(size as u64)?;
            // SAFETY: the caller's pointer.
            unsafe { address.write(block) };
            Ok(())
        })
    }

    /// Gives a block back to the allocator.
    @raw fn fake_c10_free(address: u64) -> i32 {
        with_allocator(|allocator| allocator.free(address))
    }

    /// Gives unused segments back to the device.
    @raw fn fake_c10_empty_cache() -> i32 {
        with_allocator(Allocator::empty_cache)
    }

    /// Size of a live block after rounding, bytes; 0 where there is none.
    @raw fn fake_c10_block_size(address: u64) -> u64 {
        allocator().as_ref().and_then(|allocator| allocator.live_size(address)).unwrap_or(0)
    }

    /// What the allocator holds and has done.
    @raw fn fake_c10_totals(totals: *mut Totals) -> i32 {
        with_allocator(|allocator| {
            // SAFETY: the caller's pointer.
            unsafe { totals.write(allocator.totals()) };
            Ok(())
        })
    }
}
