//! Memory pools: allocation in stream order, which is the order of the calls here.
//!
//! A freed block stays in its pool. It is used again for a block of the same length; at the next
//! wait the pool gives the device what it holds unused beyond its release threshold, 0 at first.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
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
    devices::{self, Device},
    graph, memory, new_handle,
};

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
const RELEASE_THRESHOLD: i32 = 4;
/// Attributes that are flags, 1 to 3.
const REUSE_FLAGS: std::ops::RangeInclusive<i32> = 1..=3;

struct Pool {
    device: &'static Device,
    is_default: bool,
    threshold: u64,
    /// Blocks in use and their bytes.
    live: HashMap<u64, u64>,
    /// Blocks that were freed and not given back, by bytes.
    unused: BTreeMap<u64, Vec<u64>>,
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
/// Blocks of all pools, used and unused: most programs have none.
static BLOCKS: AtomicUsize = AtomicUsize::new(0);

fn pools() -> MutexGuard<'static, Pools> {
    POOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    fn new(device: &'static Device, is_default: bool) -> Self {
        Self {
            device,
            is_default,
            threshold: 0,
            live: HashMap::new(),
            unused: BTreeMap::new(),
        }
    }

    fn take(&mut self, size: u64) -> Result<u64, Code> {
        let reused = self.unused.get_mut(&size).and_then(Vec::pop);
        let address = match reused {
            Some(address) => address,
            None => self.take_new(size)?,
        };
        self.live.insert(address, size);
        Ok(address)
    }

    fn take_new(&mut self, size: u64) -> Result<u64, Code> {
        let mut taken = self.device.memory().take(size);
        if taken.is_none() {
            // The unused blocks may be what is missing.
            self.trim(0);
            taken = self.device.memory().take(size);
        }
        BLOCKS.fetch_add(usize::from(taken.is_some()), Relaxed);
        taken.ok_or(Code::OUT_OF_MEMORY)
    }

    fn unused_bytes(&self) -> u64 {
        self.unused
            .iter()
            .map(|(size, blocks)| size * blocks.len() as u64)
            .sum()
    }

    /// Gives unused blocks back until at most `keep` bytes of them are left.
    fn trim(&mut self, keep: u64) {
        let mut left = self.unused_bytes();
        while left > keep
            && let Some(mut entry) = self.unused.last_entry()
        {
            if let Some(address) = entry.get_mut().pop() {
                left -= entry.key();
                self.device.memory().give_back(address);
                BLOCKS.fetch_sub(1, Relaxed);
            } else {
                entry.remove();
            }
        }
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
    if BLOCKS.load(Relaxed) == 0 {
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

/// Frees a block of a pool for good; `None` when no pool has it.
pub(crate) fn free_at_once(address: u64) -> Option<Outcome> {
    if BLOCKS.load(Relaxed) == 0 {
        return None;
    }
    let mut pools = pools();
    for pool in pools.known.values_mut() {
        if pool.live.remove(&address).is_some() {
            pool.device.memory().give_back(address);
            BLOCKS.fetch_sub(1, Relaxed);
            return Some(Ok(()));
        }
        if pool
            .unused
            .values()
            .flatten()
            .any(|unused| *unused == address)
        {
            return Some(Err(Code::INVALID_VALUE));
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
        let unused: usize = pool.unused.values().map(Vec::len).sum();
        BLOCKS.fetch_sub(pool.live.len() + unused, Relaxed);
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
    let owner = pools
        .known
        .values_mut()
        .find(|pool| pool.live.contains_key(&address));
    if let Some(pool) = owner {
        if let Some(size) = pool.live.remove(&address) {
            pool.unused.entry(size).or_default().push(address);
        }
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

    /// Ends a pool: its unused blocks are given back, and those in use stay.
    fn cuMemPoolDestroy(pool: usize) {
        let mut pools = pools();
        let known = pools.get(pool)?;
        if known.is_default {
            return Err(Code::INVALID_VALUE);
        }
        known.trim(0);
        let device = known.device;
        // Blocks in use go on in the device's default pool.
        let live = std::mem::take(&mut known.live);
        pools.known.remove(&pool);
        let (default, present) = pools.of(device);
        pools.get(default)?.live.extend(live);
        if present == pool {
            pools.of_device.insert(device.ordinal(), (default, default));
        }
        Ok(())
    }

    /// Gives unused blocks back, down to so many bytes.
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
        let in_use: u64 = pool.live.values().sum();
        let answer = match attribute {
            RELEASE_THRESHOLD => pool.threshold,
            5 => in_use + pool.unused_bytes(),
            7 => in_use,
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
        let size = pools.known.values().find_map(|pool| pool.live.get(&address).copied());
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
