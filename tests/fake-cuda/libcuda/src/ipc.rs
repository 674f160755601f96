//! Blocks of other processes. A handle names process, address and size; opening one gives
//! addresses of its own, and takes no memory: that is counted where the block was allocated.

use std::{
    collections::HashSet,
    ffi::c_void,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use fake_cuda_core::{Code, abi::store, exports, layout::SharedHandle};

use crate::{context, devices};

/// First word of every handle: "fake ipc".
const MARK: u64 = u64::from_le_bytes(*b"fake ipc");

static OPEN: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);

fn open_blocks() -> MutexGuard<'static, HashSet<u64>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The words that name a block of this process.
pub(crate) fn name_of(address: u64, size: u64) -> [u64; 8] {
    [
        MARK,
        std::process::id().into(),
        address,
        size,
        !address,
        !size,
        0,
        0,
    ]
}

/// Bytes of a named block; an error where the words name none.
pub(crate) fn size_of_named(words: &[u64; 8]) -> Result<u64, Code> {
    let [mark, _, address, size, not_address, not_size, _, _] = *words;
    let valid = mark == MARK && address == !not_address && size == !not_size;
    if valid {
        Ok(size)
    } else {
        Err(Code::INVALID_VALUE)
    }
}

exports! {
    unversioned;

    /// 64 bytes that name a block of a device.
    fn cuIpcGetMemHandle(handle: *mut SharedHandle, address: u64) {
        context::current()?;
        let device = devices::owner(address).ok_or(Code::INVALID_VALUE)?;
        let size = device.memory().size_of(address).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(handle, SharedHandle(name_of(address, size))) }
    }

    /// Addresses for a block of another process.
    fn cuIpcOpenMemHandle_v2(address: *mut u64, handle: SharedHandle, _flags: u32) {
        context::current()?;
        let size = size_of_named(&handle.0)?;
        let addresses = devices::reserve_addresses(size)?;
        open_blocks().insert(addresses.start);
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(address, addresses.start) }
    }

    /// Closes it; the addresses are not used again.
    fn cuIpcCloseMemHandle(address: *const c_void) {
        context::current()?;
        if open_blocks().remove(&(address as u64)) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }
}
