//! Devices, and the context that the calling thread works in.
//!
//! As in the real runtime, a thread starts on device 0 and the first call that needs a context
//! makes one, inside that call: the primary context is retained, and registered code is loaded.

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use fake_cuda_core::{Code, abi::store, exports};

use crate::{driver::Driver, kernels, variables};

/// What [`BOUND`] holds while the thread has no context.
const NO_DEVICE: i32 = -1;

thread_local! {
    /// The device that the thread chose.
    static CHOSEN: Cell<i32> = const { Cell::new(0) };
    /// The device whose context is current.
    static BOUND: Cell<i32> = const { Cell::new(NO_DEVICE) };
}

/// Primary contexts of this process, by device.
static CONTEXTS: Mutex<BTreeMap<i32, usize>> = Mutex::new(BTreeMap::new());

/// The device that the thread chose.
pub(crate) fn chosen() -> i32 {
    CHOSEN.get()
}

/// The driver, with the thread's device current.
#[inline]
pub(crate) fn ready() -> Result<&'static Driver, Code> {
    let driver = Driver::get()?;
    let device = CHOSEN.get();
    if BOUND.get() != device {
        bind(driver, device)?;
    }
    Ok(driver)
}

#[cold]
fn bind(driver: &Driver, device: i32) -> Result<(), Code> {
    let context = context(driver, device)?;
    // SAFETY: the driver's function, and a context that it gave out.
    Code::outcome(unsafe { (driver.functions.ctx_set_current)(context) })?;
    BOUND.set(device);
    kernels::load_registered(driver)
}

/// A device's primary context, made at its first use.
pub(crate) fn context(driver: &Driver, device: i32) -> Result<usize, Code> {
    let mut contexts = CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(context) = contexts.get(&device) {
        return Ok(*context);
    }
    let mut context = 0;
    // SAFETY: the driver's function, and a pointer to a local.
    let code = unsafe { (driver.functions.primary_ctx_retain)(&raw mut context, device) };
    Code::outcome(code)?;
    contexts.insert(device, context);
    Ok(context)
}

fn device_count(driver: &Driver) -> Result<i32, Code> {
    let mut count = 0;
    // SAFETY: the driver's function, and a pointer to a local.
    Code::outcome(unsafe { (driver.functions.device_get_count)(&raw mut count) })?;
    Ok(count)
}

exports! {
    versioned;

    /// How many devices there are.
    fn cudaGetDeviceCount(count: *mut i32) {
        let devices = device_count(Driver::get()?)?;
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(count, devices) }
    }

    /// The calling thread's device.
    fn cudaGetDevice(device: *mut i32) {
        Driver::get()?;
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(device, CHOSEN.get()) }
    }

    /// Chooses the calling thread's device and makes its context current, as CUDA 12 does.
    fn cudaSetDevice(device: i32) {
        if !(0..device_count(Driver::get()?)?).contains(&device) {
            return Err(Code::INVALID_DEVICE);
        }
        CHOSEN.set(device);
        ready().map(|_| ())
    }

    /// Waits until the device is idle.
    fn cudaDeviceSynchronize() {
        // SAFETY: the driver's function; it takes no pointers.
        Code::outcome(unsafe { (ready()?.functions.ctx_synchronize)() })
    }

    /// Ends the device's context: every block of it is gone.
    fn cudaDeviceReset() {
        let driver = Driver::get()?;
        let device = CHOSEN.get();
        CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner).remove(&device);
        BOUND.set(NO_DEVICE);
        variables::forget(device);
        // SAFETY: the driver's function; it takes no pointers.
        Code::outcome(unsafe { (driver.functions.primary_ctx_reset)(device) })
    }

    /// A figure of a device.
    fn cudaDeviceGetAttribute(value: *mut i32, attribute: i32, device: i32) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe {
            (Driver::get()?.functions.device_get_attribute)(value, attribute, device)
        })
    }

    /// The driver's version.
    fn cudaDriverGetVersion(version: *mut i32) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (Driver::get()?.functions.driver_get_version)(version) })
    }

    /// The version that this library's name stands for.
    fn cudaRuntimeGetVersion(version: *mut i32) {
        let own = match crate::SONAME {
            "libcudart.so.11.0" => 11080,
            "libcudart.so.12" => 12080,
            _ => 13000,
        };
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(version, own) }
    }
}
