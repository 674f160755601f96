//! Memory that several devices share: who takes part, and nothing more. It takes no memory of
//! its own.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use fake_cuda_core::{Code, Outcome, abi::store, exports, layout::MulticastProperties};

use crate::{devices, new_handle, vmm};

struct Team {
    size: u64,
    devices: u32,
    joined: Vec<i32>,
}

static TEAMS: LazyLock<Mutex<HashMap<u64, Team>>> = LazyLock::new(Mutex::default);

fn teams() -> MutexGuard<'static, HashMap<u64, Team>> {
    TEAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a team; `false` when there is none with this handle.
pub(crate) fn release(handle: u64) -> bool {
    teams().remove(&handle).is_some()
}

/// Whether the range lies within what each device of the team shares.
fn check_range(handle: u64, offset: usize, size: usize) -> Outcome {
    let teams = teams();
    let team = teams.get(&handle).ok_or(Code::INVALID_VALUE)?;
    let end = (offset as u64).checked_add(size as u64);
    if end.is_some_and(|end| end <= team.size) {
        Ok(())
    } else {
        Err(Code::INVALID_VALUE)
    }
}

exports! {
    unversioned;

    /// A team without devices.
    fn cuMulticastCreate(handle: *mut u64, properties: *const MulticastProperties) {
        devices::all()?;
        if handle.is_null() || properties.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller's structure, as the real function requires.
        let MulticastProperties { devices, size, .. } = unsafe { *properties };
        let new = new_handle() as u64;
        teams().insert(new, Team { size: size as u64, devices, joined: Vec::new() });
        // SAFETY: not null, and the caller's pointer, as the real function requires.
        unsafe { store(handle, new) }
    }

    /// A device joins, once.
    fn cuMulticastAddDevice(handle: u64, device: i32) {
        let device = devices::get(device)?.ordinal();
        let mut teams = teams();
        let team = teams.get_mut(&handle).ok_or(Code::INVALID_VALUE)?;
        let full = u32::try_from(team.joined.len()).is_ok_and(|joined| joined >= team.devices);
        if full || team.joined.contains(&device) {
            return Err(Code::INVALID_VALUE);
        }
        team.joined.push(device);
        Ok(())
    }

    /// Physical memory behind the team's.
    fn cuMulticastBindMem(
        handle: u64, offset: usize, memory: u64, _memory_offset: usize, size: usize, _flags: u64,
    ) {
        vmm::check(memory)?;
        check_range(handle, offset, size)
    }

    /// Mapped memory behind the team's.
    fn cuMulticastBindAddr(handle: u64, offset: usize, address: u64, size: usize, _flags: u64) {
        vmm::check_mapped(address)?;
        check_range(handle, offset, size)
    }

    /// As the first, for one device of the team.
    fn cuMulticastBindMem_v2(
        handle: u64, device: i32, offset: usize, memory: u64, _memory_offset: usize, size: usize,
        _flags: u64,
    ) {
        devices::get(device)?;
        vmm::check(memory)?;
        check_range(handle, offset, size)
    }

    /// As the first, for one device of the team.
    fn cuMulticastBindAddr_v2(
        handle: u64, device: i32, offset: usize, address: u64, size: usize, _flags: u64,
    ) {
        devices::get(device)?;
        vmm::check_mapped(address)?;
        check_range(handle, offset, size)
    }

    /// Takes it away again.
    fn cuMulticastUnbind(handle: u64, device: i32, offset: usize, size: usize) {
        devices::get(device)?;
        check_range(handle, offset, size)
    }
}
