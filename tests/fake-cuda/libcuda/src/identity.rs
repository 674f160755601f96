//! Which device is which, and its figures.

use std::{
    ffi::{CStr, CString, c_char},
    ptr,
};

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::devices;

/// 16 bytes that differ from device to device: "fake", then the ordinal in the last four.
fn uuid(ordinal: i32) -> [u8; 16] {
    let mut bytes = *b"fake\x00\x01\x40\x00\x80\x00\x00\x00\x00\x00\x00\x00";
    bytes[12..].copy_from_slice(&ordinal.to_be_bytes());
    bytes
}

fn store_uuid(out: *mut [u8; 16], device: i32) -> Outcome {
    let ordinal = devices::get(device)?.ordinal();
    // SAFETY: the caller's pointer, as the real functions require.
    unsafe { store(out, uuid(ordinal)) }
}

/// Stores a text into the caller's buffer, if there is room.
fn store_text(out: *mut c_char, length: i32, text: &CStr) -> Outcome {
    let text = text.to_bytes_with_nul();
    let room = usize::try_from(length).map_err(|_| Code::INVALID_VALUE)?;
    if out.is_null() || room < text.len() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller's buffer has `room` bytes, and the text fits.
    unsafe { ptr::copy_nonoverlapping(text.as_ptr().cast(), out, text.len()) };
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
        store_text(name, length, c"fake CUDA device")
    }

    /// The device's UUID.
    fn cuDeviceGetUuid(out: *mut [u8; 16], device: i32) {
        store_uuid(out, device)
    }

    /// The device's UUID: no part of it is set apart.
    fn cuDeviceGetUuid_v2(out: *mut [u8; 16], device: i32) {
        store_uuid(out, device)
    }

    /// Domain, bus, device and function; buses are numbered from 0x10.
    fn cuDeviceGetPCIBusId(text: *mut c_char, length: i32, device: i32) {
        let bus = devices::get(device)?.ordinal() + 0x10;
        let id = CString::new(format!("0000:{bus:02X}:00.0")).map_err(|_| Code::INVALID_VALUE)?;
        store_text(text, length, &id)
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

    /// What an error means. One text does for all of them.
    fn cuGetErrorString(_code: i32, text: *mut *const c_char) {
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(text, c"fake CUDA: an error".as_ptr()) }
    }

    /// What an error is called, likewise.
    fn cuGetErrorName(_code: i32, name: *mut *const c_char) {
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(name, c"CUDA_ERROR_FAKE".as_ptr()) }
    }
}
