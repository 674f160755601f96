//! Which device is which.

use std::ffi::c_char;

use fake_cuda_core::{Code, Outcome, exports};

use crate::driver::Driver;

/// Name, UUID, memory, warp, block and capability; the rest of the structure differs between
/// CUDA majors and is left as it is.
fn describe(properties: *mut u8, device: i32) -> Outcome {
    if properties.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let functions = &Driver::get()?.functions;
    let (mut total, mut uuid) = (0usize, [0_u8; 16]);
    // SAFETY: the driver's functions, and pointers to locals.
    unsafe {
        Code::outcome((functions.device_total_mem)(&raw mut total, device))?;
        Code::outcome((functions.device_get_uuid)((&raw mut uuid).cast(), device))?;
    }
    let name = c"fake CUDA device".to_bytes_with_nul();
    // SAFETY: the caller's structure; all offsets lie within its first 368 bytes, which
    // are the same from CUDA 11 to 13.
    unsafe {
        properties.copy_from_nonoverlapping(name.as_ptr(), name.len());
        properties
            .add(256)
            .copy_from_nonoverlapping(uuid.as_ptr(), uuid.len());
        properties.add(288).cast::<usize>().write_unaligned(total);
        properties.add(308).cast::<i32>().write_unaligned(32); // warpSize
        properties.add(320).cast::<i32>().write_unaligned(1024); // maxThreadsPerBlock
        properties.add(360).cast::<i32>().write_unaligned(9); // major
        properties.add(364).cast::<i32>().write_unaligned(0); // minor
    }
    Ok(())
}

exports! {
    versioned;

    /// What there is to know of a device.
    fn cudaGetDeviceProperties(properties: *mut u8, device: i32) {
        describe(properties, device)
    }

    /// Where a device is plugged in.
    fn cudaDeviceGetPCIBusId(text: *mut c_char, length: i32, device: i32) {
        let get = Driver::get()?.functions.device_get_pci_bus_id;
        // SAFETY: the driver's function and the caller's buffer, as the real one requires.
        Code::outcome(unsafe { get(text, length, device) })
    }
}

/// What CUDA 12 calls it where its structure is meant.
#[cfg(cuda12)]
pub(crate) mod only_12 {
    use fake_cuda_core::exports;

    exports! {
        versioned;

        /// What there is to know of a device.
        fn cudaGetDeviceProperties_v2(properties: *mut u8, device: i32) {
            super::describe(properties, device)
        }
    }
}
