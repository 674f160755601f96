//! Virtual memory: addresses, physical memory and mappings apart. Physical memory lives as long
//! as a handle or a mapping refers to it.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::c_void,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use fake_cuda_core::{
    Code, Outcome,
    abi::store,
    exports,
    layout::{AccessDescription, AllocationProperties, Location},
};

use crate::{
    device_memory::PAGE,
    devices::{self, Device},
    new_handle,
};

/// What another process shows as a file descriptor starts here; they are numbers, and no files.
const FIRST_DESCRIPTOR: i32 = 2000;

struct Physical {
    /// `None` for memory of the host.
    device: Option<&'static Device>,
    size: u64,
    /// Handles given out and not released.
    handles: usize,
    mappings: usize,
}

struct Mapping {
    size: u64,
    handle: u64,
}

#[derive(Default)]
struct Vmm {
    /// Reserved ranges: start to bytes.
    reserved: BTreeMap<u64, u64>,
    physical: HashMap<u64, Physical>,
    mappings: BTreeMap<u64, Mapping>,
    /// Exported memory, by descriptor from [`FIRST_DESCRIPTOR`].
    exported: Vec<u64>,
}

static VMM: LazyLock<Mutex<Vmm>> = LazyLock::new(Mutex::default);

fn vmm() -> MutexGuard<'static, Vmm> {
    VMM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the physical memory of a device and its mappings.
pub(crate) fn forget(device: &'static Device) {
    let Vmm {
        physical, mappings, ..
    } = &mut *vmm();
    physical.retain(|_, memory| {
        !memory
            .device
            .is_some_and(|other| std::ptr::eq(other, device))
    });
    mappings.retain(|_, mapping| physical.contains_key(&mapping.handle));
}

/// Fails for a handle that is no physical memory.
pub(crate) fn check(handle: u64) -> Outcome {
    if vmm().physical.contains_key(&handle) {
        Ok(())
    } else {
        Err(Code::INVALID_VALUE)
    }
}

/// Fails for an address that nothing is mapped at.
pub(crate) fn check_mapped(address: u64) -> Outcome {
    vmm()
        .mapped_at(address)
        .map(|_| ())
        .ok_or(Code::INVALID_VALUE)
}

impl Vmm {
    fn mapped_at(&self, address: u64) -> Option<&Mapping> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (address < start + mapping.size).then_some(mapping)
    }

    /// Gives memory back that nothing refers to any more.
    fn drop_unused(&mut self, handle: u64) {
        let Some(memory) = self.physical.get(&handle) else {
            return;
        };
        if memory.handles == 0 && memory.mappings == 0 {
            if let Some(device) = memory.device {
                device.memory().give_physical_back(memory.size);
            }
            self.physical.remove(&handle);
        }
    }

    fn is_reserved(&self, address: u64, size: u64) -> bool {
        let range = self.reserved.range(..=address).next_back();
        range.is_some_and(|(start, length)| {
            address
                .checked_add(size)
                .is_some_and(|end| end <= start + length)
        })
    }
}

fn is_granular(number: u64) -> bool {
    number > 0 && number.is_multiple_of(PAGE)
}

exports! {
    unversioned;

    /// Addresses that nothing can be read from.
    fn cuMemAddressReserve(
        address: *mut u64, size: usize, _alignment: usize, _wish: u64, _flags: u64,
    ) {
        devices::all()?;
        if address.is_null() || !is_granular(size as u64) {
            return Err(Code::INVALID_VALUE);
        }
        let range = devices::reserve_addresses(size as u64)?;
        vmm().reserved.insert(range.start, size as u64);
        // SAFETY: not null, and the caller's pointer, as the real function requires.
        unsafe { store(address, range.start) }
    }

    /// Gives a whole reservation back, with nothing mapped in it.
    fn cuMemAddressFree(address: u64, size: usize) {
        let mut vmm = vmm();
        let size = size as u64;
        let in_use = vmm.mappings.range(address..address.saturating_add(size)).next().is_some();
        if in_use || vmm.reserved.get(&address) != Some(&size) {
            return Err(Code::INVALID_VALUE);
        }
        vmm.reserved.remove(&address);
        // SAFETY: within a mapping that `reserve_addresses` made, and that nobody reads.
        unsafe { libc::munmap(address as *mut c_void, usize::try_from(size).unwrap_or_default()) };
        Ok(())
    }

    /// Physical memory of a device or of the host.
    fn cuMemCreate(
        handle: *mut u64, size: usize, properties: *const AllocationProperties, _flags: u64,
    ) {
        devices::all()?;
        let size = size as u64;
        if handle.is_null() || properties.is_null() || !is_granular(size) {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller's structure, as the real function requires.
        let location = unsafe { (*properties).location };
        let device = match location.kind {
            Location::DEVICE => Some(devices::get(location.id)?),
            2..=4 => None,
            _ => return Err(Code::INVALID_VALUE),
        };
        if device.is_some_and(|device| !device.memory().take_physical(size)) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let new = new_handle() as u64;
        vmm().physical.insert(new, Physical { device, size, handles: 1, mappings: 0 });
        // SAFETY: not null, and the caller's pointer, as the real function requires.
        unsafe { store(handle, new) }
    }

    /// One handle less.
    fn cuMemRelease(handle: u64) {
        if crate::multicast::release(handle) {
            return Ok(());
        }
        let mut vmm = vmm();
        let memory = vmm.physical.get_mut(&handle).ok_or(Code::INVALID_VALUE)?;
        memory.handles = memory.handles.checked_sub(1).ok_or(Code::INVALID_VALUE)?;
        vmm.drop_unused(handle);
        Ok(())
    }

    /// The memory at an address, with one handle more: the same number.
    fn cuMemRetainAllocationHandle(handle: *mut u64, address: u64) {
        let mut vmm = vmm();
        let found = vmm.mapped_at(address).ok_or(Code::INVALID_VALUE)?.handle;
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(handle, found) }?;
        if let Some(memory) = vmm.physical.get_mut(&found) {
            memory.handles += 1;
        }
        Ok(())
    }

    /// Puts memory at reserved addresses.
    fn cuMemMap(address: u64, size: usize, offset: usize, handle: u64, _flags: u64) {
        let mut vmm = vmm();
        let size = size as u64;
        let end = (offset as u64).checked_add(size).ok_or(Code::INVALID_VALUE)?;
        let free = vmm.is_reserved(address, size)
            && vmm.mapped_at(address).is_none()
            && vmm.mappings.range(address..address + size).next().is_none();
        let memory = vmm.physical.get_mut(&handle).ok_or(Code::INVALID_VALUE)?;
        if !free || !is_granular(size) || end > memory.size {
            return Err(Code::INVALID_VALUE);
        }
        memory.mappings += 1;
        vmm.mappings.insert(address, Mapping { size, handle });
        Ok(())
    }

    /// Takes whole mappings away that fill the range.
    fn cuMemUnmap(address: u64, size: usize) {
        let mut vmm = vmm();
        let end = address.checked_add(size as u64).ok_or(Code::INVALID_VALUE)?;
        let inside: Vec<u64> = vmm.mappings.range(address..end).map(|(start, _)| *start).collect();
        let covered: u64 = inside.iter().map(|start| vmm.mappings[start].size).sum();
        if covered != size as u64 || inside.is_empty() {
            return Err(Code::INVALID_VALUE);
        }
        for start in inside {
            if let Some(mapping) = vmm.mappings.remove(&start) {
                if let Some(memory) = vmm.physical.get_mut(&mapping.handle) {
                    memory.mappings -= 1;
                }
                vmm.drop_unused(mapping.handle);
            }
        }
        Ok(())
    }

    /// Whoever it is may use what is mapped.
    fn cuMemSetAccess(
        address: u64, _size: usize, descriptions: *const AccessDescription, count: usize,
    ) {
        if descriptions.is_null() || count == 0 {
            return Err(Code::INVALID_VALUE);
        }
        check_mapped(address)
    }

    /// A number that stands for the memory.
    fn cuMemExportToShareableHandle(out: *mut i32, handle: u64, kind: i32, _flags: u64) {
        let mut vmm = vmm();
        // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        if kind != 1 || !vmm.physical.contains_key(&handle) {
            return Err(Code::INVALID_VALUE);
        }
        let index = i32::try_from(vmm.exported.len()).map_err(|_| Code::INVALID_VALUE)?;
        vmm.exported.push(handle);
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(out, FIRST_DESCRIPTOR + index) }
    }

    /// The memory that a number stands for, if it was exported here, with one handle more;
    /// else memory of another process, which is counted there.
    fn cuMemImportFromShareableHandle(handle: *mut u64, descriptor: usize, kind: i32) {
        devices::all()?;
        if kind != 1 {
            return Err(Code::INVALID_VALUE);
        }
        let mut vmm = vmm();
        let first = usize::try_from(FIRST_DESCRIPTOR).unwrap_or_default();
        let index = descriptor.checked_sub(first).ok_or(Code::INVALID_VALUE)?;
        let found = match vmm.exported.get(index).copied() {
            Some(found) if vmm.physical.contains_key(&found) => found,
            Some(_) | None => {
                let new = new_handle() as u64;
                let foreign = Physical { device: None, size: u64::MAX, handles: 0, mappings: 0 };
                vmm.physical.insert(new, foreign);
                new
            }
        };
        if let Some(memory) = vmm.physical.get_mut(&found) {
            memory.handles += 1;
        }
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(handle, found) }
    }
}
