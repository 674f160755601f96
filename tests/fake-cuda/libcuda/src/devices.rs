//! The devices of this process: their memory, and the address range that each one reserves.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use fake_cuda_core::{
    Code,
    settings::{self, CAPACITY, DEVICES},
};

use crate::device_memory::{DeviceMemory, PAGE};

/// An H100's 80 GB.
const DEFAULT_CAPACITY: u64 = 81_559 << 20;
/// Addresses reserved for a device, as a multiple of its capacity: holes between live blocks
/// must never make an allocation fail, as on the real device.
const ARENA_PER_CAPACITY: u64 = 4;

/// A device.
#[derive(Debug)]
pub(crate) struct Device {
    ordinal: i32,
    arena: std::ops::Range<u64>,
    memory: Mutex<DeviceMemory>,
}

static DEVICES_OF_PROCESS: OnceLock<Result<Vec<Device>, Code>> = OnceLock::new();

/// Makes the devices; `cuInit` does it.
pub(crate) fn initialize() -> Result<(), Code> {
    DEVICES_OF_PROCESS
        .get_or_init(make_devices)
        .as_ref()
        .map(|_| ())
        .map_err(|code| *code)
}

/// All devices, or an error before `cuInit`.
pub(crate) fn all() -> Result<&'static [Device], Code> {
    match DEVICES_OF_PROCESS.get() {
        Some(Ok(devices)) => Ok(devices),
        Some(Err(code)) => Err(*code),
        None => Err(Code::NOT_INITIALIZED),
    }
}

/// The device with this ordinal.
pub(crate) fn get(ordinal: i32) -> Result<&'static Device, Code> {
    let devices = all()?;
    usize::try_from(ordinal)
        .ok()
        .and_then(|at| devices.get(at))
        .ok_or(Code::INVALID_DEVICE)
}

/// The device that `address` belongs to.
pub(crate) fn owner(address: u64) -> Option<&'static Device> {
    all()
        .ok()?
        .iter()
        .find(|device| device.arena.contains(&address))
}

impl Device {
    /// Its number, which is its handle too.
    pub(crate) fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// Its memory, for one change.
    pub(crate) fn memory(&self) -> MutexGuard<'_, DeviceMemory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets every block, as a reset or the end of a primary context does.
    pub(crate) fn forget_blocks(&self) {
        let mut memory = self.memory();
        *memory = DeviceMemory::new(memory.capacity(), self.arena.clone());
    }
}

fn make_devices() -> Result<Vec<Device>, Code> {
    let capacity = settings::number(CAPACITY, DEFAULT_CAPACITY);
    let count = i32::try_from(settings::number(DEVICES, 1)).map_err(|_| Code::INVALID_VALUE)?;
    (0..count)
        .map(|ordinal| {
            let arena = reserve_addresses(capacity * ARENA_PER_CAPACITY)?;
            Ok(Device {
                ordinal,
                memory: Mutex::new(DeviceMemory::new(capacity, arena.clone())),
                arena,
            })
        })
        .collect()
}

/// Reserves addresses that nothing can be read from, so that a device pointer is never a host
/// pointer. They start and end on a page.
pub(crate) fn reserve_addresses(bytes: u64) -> Result<std::ops::Range<u64>, Code> {
    let bytes = bytes.next_multiple_of(PAGE) + PAGE;
    let length = usize::try_from(bytes).map_err(|_| Code::OUT_OF_MEMORY)?;
    // SAFETY: a new anonymous mapping, placed by the kernel.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(Code::OUT_OF_MEMORY);
    }
    let start = (start as u64).next_multiple_of(PAGE);
    Ok(start..start + bytes - PAGE)
}
