//! Registered variables of device code: from the address of the host's shadow to the device's.

use std::{
    collections::HashMap,
    ffi::{CStr, CString, c_char, c_void},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use fake_cuda_core::{Code, exports};

use crate::{
    device::{chosen, ready},
    driver::Driver,
    kernels,
};

#[derive(Default)]
struct Variables {
    /// Host shadows: the fat binary handle and the variable's name.
    registered: HashMap<usize, (usize, CString)>,
    /// Host shadow and device: the address there.
    addresses: HashMap<(usize, i32), u64>,
}

static VARIABLES: LazyLock<Mutex<Variables>> = LazyLock::new(Mutex::default);

fn variables() -> MutexGuard<'static, Variables> {
    VARIABLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets where variables are on a device.
pub(crate) fn forget(device: i32) {
    variables()
        .addresses
        .retain(|(_, other), _| *other != device);
}

/// Where a variable is on the thread's device.
pub(crate) fn address_of(symbol: usize) -> Result<u64, Code> {
    let driver = ready()?;
    let mut variables = variables();
    let key = (symbol, chosen());
    if let Some(address) = variables.addresses.get(&key) {
        return Ok(*address);
    }
    let (image, name) = variables
        .registered
        .get(&symbol)
        .ok_or(Code::INVALID_SYMBOL)?;
    let address = ask_driver(driver, kernels::library_of(driver, *image)?, name)?;
    variables.addresses.insert(key, address);
    Ok(address)
}

fn ask_driver(driver: &Driver, library: usize, name: &CStr) -> Result<u64, Code> {
    let get = if cfg!(cuda11) {
        driver.functions.module_get_global
    } else {
        driver.functions.library_get_global
    };
    let (mut address, mut size) = (0, 0);
    // SAFETY: the driver's function, pointers to locals, and a string that lives on.
    Code::outcome(unsafe { get(&raw mut address, &raw mut size, library, name.as_ptr()) })?;
    Ok(address)
}

exports! {
    versioned;

    /// Announces a variable: its host shadow and its name in the device code.
    @raw fn __cudaRegisterVar(
        handle: *mut *mut c_void, symbol: *const c_void, _device_address: *const c_char,
        name: *const c_char, _external: i32, _size: usize, _constant: i32, _global: i32,
    ) {
        if name.is_null() {
            return;
        }
        // SAFETY: not null, and a string of the program's image.
        let name = unsafe { CStr::from_ptr(name) }.to_owned();
        variables().registered.insert(symbol as usize, (handle as usize, name));
    }
}
