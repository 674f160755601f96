//! Memory pools: allocation in stream order, which is the order of the calls here.
//!
//! The room of a freed block stays in its pool. At the next wait the pool gives unused pieces back
//! until it holds no more than its release threshold, 0 at first.

use std::{
    collections::{HashMap, HashSet},
    ffi::c_void,
    sync::{
        LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use fake_cuda_core::{
    Code, Outcome,
    abi::store,
    exports,
    layout::{Location, PoolProperties},
};

use crate::{
    context,
    device_memory::DeviceMemory,
    devices::{self, Device},
    graph, memory, new_handle,
    pool_memory::PoolMemory,
};

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
const RELEASE_THRESHOLD: i32 = 4;
/// Attributes that are flags, 1 to 3.
const REUSE_FLAGS: std::ops::RangeInclusive<i32> = 1..=3;

struct Pool {
    device: &'static Device,
    is_default: bool,
    threshold: u64,
    memory: PoolMemory,
}

#[derive(Default)]
struct Pools {
    known: HashMap<usize, Pool>,
    /// Each device's default pool and present one, by ordinal.
    of_device: HashMap<i32, (usize, usize)>,
    /// Addresses of shared pools of other processes.
    imported: HashSet<u64>,
}

static POOLS: LazyLock<Mutex<Pools>> = LazyLock::new(Mutex::default);
/// Pieces that all pools hold: in most programs none.
static PIECES: AtomicUsize = AtomicUsize::new(0);

fn pools() -> MutexGuard<'static, Pools> {
    POOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    fn new(device: &'static Device, is_default: bool) -> Self {
        Self {
            device,
            is_default,
            threshold: 0,
            memory: PoolMemory::default(),
        }
    }

    /// Changes what the pool holds, and counts its pieces.
    fn change<T>(&mut self, change: impl FnOnce(&mut PoolMemory, &mut DeviceMemory) -> T) -> T {
        let before = self.memory.pieces();
        let outcome = change(&mut self.memory, &mut self.device.memory());
        PIECES.fetch_add(self.memory.pieces(), Relaxed);
        PIECES.fetch_sub(before, Relaxed);
        outcome
    }

    fn take(&mut self, size: u64) -> Result<u64, Code> {
        self.change(|memory, device| {
            memory.take(size, device).or_else(|| {
                // The unused pieces may be what is missing.
                memory.trim(0, device);
                memory.take(size, device)
            })
        })
        .ok_or(Code::OUT_OF_MEMORY)
    }

    /// Gives unused pieces back until at most `keep` bytes are held.
    fn trim(&mut self, keep: u64) {
        self.change(|memory, device| memory.trim(keep, device));
    }
}

impl Pools {
    fn of(&mut self, device: &'static Device) -> (usize, usize) {
        let known = &mut self.known;
        *self.of_device.entry(device.ordinal()).or_insert_with(|| {
            let handle = new_handle();
            known.insert(handle, Pool::new(device, true));
            (handle, handle)
        })
    }

    fn get(&mut self, handle: usize) -> Result<&mut Pool, Code> {
        self.known.get_mut(&handle).ok_or(Code::INVALID_VALUE)
    }
}

/// At a wait: pools of the device give back what they do not keep.
pub(crate) fn settle(device: &'static Device) {
    if PIECES.load(Relaxed) == 0 {
        return;
    }
    let mut pools = pools();
    let of_device = pools
        .known
        .values_mut()
        .filter(|pool| std::ptr::eq(pool.device, device));
    for pool in of_device {
        pool.trim(pool.threshold);
    }
}

/// Frees a block of a pool out of order, which waits; `None` when no pool has it.
pub(crate) fn free_at_once(address: u64) -> Option<Outcome> {
    if PIECES.load(Relaxed) == 0 {
        return None;
    }
    let mut pools = pools();
    for pool in pools.known.values_mut() {
        if pool.memory.give_back(address) {
            pool.trim(pool.threshold);
            return Some(Ok(()));
        }
    }
    None
}

/// Forgets the blocks of a device, and the pools that the program made there.
pub(crate) fn forget(device: &'static Device) {
    let mut pools = pools();
    for pool in pools
        .known
        .values_mut()
        .filter(|pool| std::ptr::eq(pool.device, device))
    {
        PIECES.fetch_sub(pool.memory.pieces(), Relaxed);
        *pool = Pool::new(device, pool.is_default);
    }
    pools
        .known
        .retain(|_, pool| pool.is_default || !std::ptr::eq(pool.device, device));
    pools.of_device.remove(&device.ordinal());
}

fn allocate(address: *mut u64, size: usize, pool: Option<usize>, stream: usize) -> Outcome {
    let device = context::current()?;
    if address.is_null() || size == 0 {
        return Err(Code::INVALID_VALUE);
    }
    let block = if let Some(captured) = graph::allocate_if_capturing(stream, size as u64) {
        captured?
    } else {
        let mut pools = pools();
        let present = pools.of(device).1;
        pools.get(pool.unwrap_or(present))?.take(size as u64)?
    };
    // SAFETY: not null, and the caller's pointer, as the real functions require.
    unsafe { store(address, block) }
}

fn free(address: u64, stream: usize) -> Outcome {
    context::current()?;
    if graph::free_if_capturing(stream, address) {
        return Ok(());
    }
    let mut pools = pools();
    let mut known = pools.known.values_mut();
    if known.any(|pool| pool.memory.give_back(address)) {
        return Ok(());
    }
    if pools.imported.remove(&address) {
        return Ok(());
    }
    drop(pools);
    memory::free(address)
}

exports! {
    unversioned;

    /// Allocates from the present pool of the calling thread's device.
    fn cuMemAllocAsync | cuMemAllocAsync_ptsz [default] (
        address: *mut u64, size: usize, stream: usize,
    ) {
        allocate(address, size, None, default.resolve(stream))
    }

    /// Allocates from a pool.
    fn cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz [default] (
        address: *mut u64, size: usize, pool: usize, stream: usize,
    ) {
        allocate(address, size, Some(pool), default.resolve(stream))
    }

    /// Gives a block back to its pool.
    fn cuMemFreeAsync | cuMemFreeAsync_ptsz [default] (address: u64, stream: usize) {
        free(address, default.resolve(stream))
    }

    /// A new pool on a device.
    fn cuMemPoolCreate(pool: *mut usize, properties: *const PoolProperties) {
        if properties.is_null() || pool.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller's structure, as the real function requires.
        let location = unsafe { (*properties).location };
        // The host's memory is not counted: any device keeps the books of such a pool.
        let device = if location.kind == Location::DEVICE { location.id } else { 0 };
        let device = devices::get(device)?;
        let handle = new_handle();
        pools().known.insert(handle, Pool::new(device, false));
        // SAFETY: not null, and the caller's pointer, as the real function requires.
        unsafe { store(pool, handle) }
    }

    /// Ends a pool: its unused pieces are given back, and blocks in use stay.
    fn cuMemPoolDestroy(pool: usize) {
        let mut pools = pools();
        let known = pools.get(pool)?;
        if known.is_default {
            return Err(Code::INVALID_VALUE);
        }
        known.trim(0);
        let device = known.device;
        // Blocks in use go on in the device's default pool.
        let memory = std::mem::take(&mut known.memory);
        pools.known.remove(&pool);
        let (default, present) = pools.of(device);
        pools.get(default)?.memory.absorb(memory);
        if present == pool {
            pools.of_device.insert(device.ordinal(), (default, default));
        }
        Ok(())
    }

    /// Gives unused pieces back, down to so many bytes.
    fn cuMemPoolTrimTo(pool: usize, keep: usize) {
        pools().get(pool)?.trim(keep as u64);
        Ok(())
    }

    /// The release threshold counts; how blocks are reused means nothing here.
    fn cuMemPoolSetAttribute(pool: usize, attribute: i32, value: *const c_void) {
        let mut pools = pools();
        let pool = pools.get(pool)?;
        if value.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        if attribute == RELEASE_THRESHOLD {
            // SAFETY: not null, and 64 bits of the caller, as the real function requires.
            pool.threshold = unsafe { value.cast::<u64>().read_unaligned() };
            return Ok(());
        }
        if REUSE_FLAGS.contains(&attribute) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    /// Bytes: the release threshold (4), held by the pool (5), in use (7); 0 for the rest.
    fn cuMemPoolGetAttribute(pool: usize, attribute: i32, value: *mut u64) {
        let mut pools = pools();
        let pool = pools.get(pool)?;
        let answer = match attribute {
            RELEASE_THRESHOLD => pool.threshold,
            5 => pool.memory.held_bytes(),
            7 => pool.memory.used_bytes(),
            _ => 0,
        };
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(value, answer) }
    }

    /// A file descriptor that stands for the pool: a number, and no file.
    fn cuMemPoolExportToShareableHandle(
        handle: *mut i32, pool: usize, _kind: i32, _flags: u64,
    ) {
        pools().get(pool)?;
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(handle, 1000) }
    }

    /// A pool of another process, on the calling thread's device.
    fn cuMemPoolImportFromShareableHandle(
        pool: *mut usize, handle: usize, _kind: i32, _flags: u64,
    ) {
        let device = context::current()?;
        if handle == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let new = new_handle();
        pools().known.insert(new, Pool::new(device, false));
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(pool, new) }
    }

    /// 64 bytes that name a block of a pool.
    fn cuMemPoolExportPointer(handle: *mut [u64; 8], address: u64) {
        let pools = pools();
        let size = pools.known.values().find_map(|pool| pool.memory.size_of(address));
        let size = size.ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(handle, crate::ipc::name_of(address, size)) }
    }

    /// Addresses for a block of another process's pool: its memory is counted there.
    fn cuMemPoolImportPointer(address: *mut u64, pool: usize, handle: *const [u64; 8]) {
        let mut pools = pools();
        pools.get(pool)?;
        if handle.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller's bytes, as the real function requires.
        let size = crate::ipc::size_of_named(unsafe { &*handle })?;
        let addresses = devices::reserve_addresses(size)?;
        pools.imported.insert(addresses.start);
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(address, addresses.start) }
    }

    /// The pool that a device has from the start.
    fn cuDeviceGetDefaultMemPool(pool: *mut usize, device: i32) {
        let (default, _) = pools().of(devices::get(device)?);
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(pool, default) }
    }

    /// The pool that allocations of a device come from now.
    fn cuDeviceGetMemPool(pool: *mut usize, device: i32) {
        let (_, present) = pools().of(devices::get(device)?);
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(pool, present) }
    }

    /// Chooses the pool that allocations of a device come from.
    fn cuDeviceSetMemPool(device: i32, pool: usize) {
        let device = devices::get(device)?;
        let mut pools = pools();
        pools.get(pool)?;
        let (default, _) = pools.of(device);
        pools.of_device.insert(device.ordinal(), (default, pool));
        Ok(())
    }
}
