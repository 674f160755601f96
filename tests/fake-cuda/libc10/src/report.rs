//! The two functions that PyTorch's allocator calls on every allocation and free, profiler or
//! not, with the names and the interface of the real ones.

use std::{ffi::c_void, hint::black_box};

use fake_cuda_core::exports;

/// `c10::Device`: two bytes, passed by value in a register.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Device {
    /// `c10::DeviceType`: 1 for CUDA.
    kind: i8,
    index: i8,
}

/// Device 0.
const CUDA_0: Device = Device { kind: 1, index: 0 };

exports! {
    unversioned;

    /// `c10::reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, c10::Device)`
    @raw fn _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
        address: *mut c_void, size: i64, allocated: usize, reserved: usize, device: Device,
    ) {
        black_box((address, size, allocated, reserved, device));
    }

    /// `c10::reportOutOfMemoryToProfiler(int64_t, size_t, size_t, c10::Device)`
    @raw fn _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(
        size: i64, allocated: usize, reserved: usize, device: Device,
    ) {
        black_box((size, allocated, reserved, device));
    }
}

/// Reports a block that was allocated (`size` above 0) or freed, through the exported symbol.
pub(crate) fn memory_usage(address: u64, size: i64, allocated: u64, reserved: u64) {
    type Report = unsafe extern "C" fn(u64, i64, u64, u64, Device);
    // SAFETY: the exported function has this signature.
    unsafe {
        let report: Report = std::mem::transmute(
            _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE::thunk
                as unsafe extern "C" fn(),
        );
        report(address, size, allocated, reserved, CUDA_0);
    }
}

/// Reports that `size` bytes could not be had, through the exported symbol.
pub(crate) fn out_of_memory(size: i64, allocated: u64, reserved: u64) {
    type Report = unsafe extern "C" fn(i64, u64, u64, Device);
    // SAFETY: the exported function has this signature.
    unsafe {
        let report: Report = std::mem::transmute(
            _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE::thunk as unsafe extern "C" fn(),
        );
        report(size, allocated, reserved, CUDA_0);
    }
}
