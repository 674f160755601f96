//! Devices and contexts. A context stands for its device: all contexts of a device share its
//! memory here, and a thread has one current context, without the real driver's stack.

use std::{
    cell::Cell,
    ffi::{c_char, c_void},
    ptr,
};

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::devices::{self, Device};

/// A context handle: a device of this process, or null.
type Context = *const Device;

thread_local! {
    static CURRENT: Cell<Context> = const { Cell::new(ptr::null()) };
}

/// The device of the calling thread's context.
#[inline]
pub(crate) fn current() -> Result<&'static Device, Code> {
    let context = CURRENT.get();
    if context.is_null() {
        devices::all()?;
        return Err(Code::INVALID_CONTEXT);
    }
    // SAFETY: only `set_current` stores here, and it stores devices, which live forever.
    Ok(unsafe { &*context })
}

fn set_current(context: Context) -> Outcome {
    let known = context.is_null()
        || devices::all()?
            .iter()
            .any(|device| ptr::eq(device, context));
    if !known {
        return Err(Code::INVALID_CONTEXT);
    }
    CURRENT.set(context);
    Ok(())
}

exports! {
    unversioned;

    /// Reads the settings and makes the devices.
    fn cuInit(_flags: u32) {
        devices::initialize()
    }

    /// The version of the driver that the measurements were made with.
    fn cuDriverGetVersion(version: *mut i32) {
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(version, 13000) }
    }

    /// How many devices the settings ask for.
    fn cuDeviceGetCount(count: *mut i32) {
        let devices = i32::try_from(devices::all()?.len()).map_err(|_| Code::INVALID_VALUE)?;
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(count, devices) }
    }

    /// A device handle is its ordinal.
    fn cuDeviceGet(device: *mut i32, ordinal: i32) {
        devices::get(ordinal)?;
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(device, ordinal) }
    }

    /// Says that the device is none.
    fn cuDeviceGetName(name: *mut c_char, length: i32, device: i32) {
        devices::get(device)?;
        let text = c"fake CUDA device".to_bytes_with_nul();
        let room = usize::try_from(length).map_err(|_| Code::INVALID_VALUE)?;
        if name.is_null() || room < text.len() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller's buffer has `room` bytes, and the text fits.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr().cast(), name, text.len()) };
        Ok(())
    }

    /// Bytes of the device.
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: i32) {
        let capacity = devices::get(device)?.memory().capacity();
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(bytes.cast::<u64>(), capacity) }
    }

    /// Plausible figures for the few attributes that callers look at.
    fn cuDeviceGetAttribute(value: *mut i32, attribute: i32, device: i32) {
        devices::get(device)?;
        let plausible = match attribute {
            1 => 1024, // CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK
            10 => 32,  // CU_DEVICE_ATTRIBUTE_WARP_SIZE
            16 => 132, // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
            75 => 9,   // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
            _ => 0,
        };
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(value, plausible) }
    }

    /// The device's context.
    fn cuDevicePrimaryCtxRetain(context: *mut Context, device: i32) {
        let device = devices::get(device)?;
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(context, device) }
    }

    /// Keeps the context: only a reset ends it here.
    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        devices::get(device).map(|_| ())
    }

    /// Forgets every block of the device.
    fn cuDevicePrimaryCtxReset_v2(device: i32) {
        devices::get(device)?.forget_blocks();
        Ok(())
    }

    /// Makes the device's context current.
    fn cuCtxCreate_v2(context: *mut Context, _flags: u32, device: i32) {
        let device = devices::get(device)?;
        set_current(device)?;
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(context, device) }
    }

    /// Forgets every block of the context's device.
    fn cuCtxDestroy_v2(context: Context) {
        let device = devices::all()?
            .iter()
            .find(|device| ptr::eq(*device, context))
            .ok_or(Code::INVALID_CONTEXT)?;
        device.forget_blocks();
        if ptr::eq(CURRENT.get(), context) {
            CURRENT.set(ptr::null());
        }
        Ok(())
    }

    /// Chooses the calling thread's context; null for none.
    fn cuCtxSetCurrent(context: Context) {
        set_current(context)
    }

    /// The calling thread's context; null for none.
    fn cuCtxGetCurrent(context: *mut Context) {
        devices::all()?;
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(context, CURRENT.get()) }
    }

    /// The ordinal of the calling thread's device.
    fn cuCtxGetDevice_v2(device: *mut i32) {
        let current = current()?;
        let ordinal = devices::all()?.iter().position(|device| ptr::eq(device, current));
        let ordinal = ordinal.and_then(|at| i32::try_from(at).ok()).ok_or(Code::INVALID_CONTEXT)?;
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(device, ordinal) }
    }

    /// Nothing is ever running.
    fn cuCtxSynchronize() {
        current().map(|_| ())
    }

    /// Nothing is ever running.
    fn cuCtxSynchronize_v2(_context: *mut c_void) {
        devices::all().map(|_| ())
    }
}
