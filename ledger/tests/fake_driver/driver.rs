//! Calls of the fake driver.
#![allow(dead_code, reason = "each test file uses its part")]

use std::{ffi::c_void, sync::Once};

// Links the library.
use cuda as _;

pub(crate) const DEVICES: i32 = 2;
/// Bytes of each device.
pub(crate) const CAPACITY: u64 = 8 << 30;

#[repr(C)]
pub(crate) struct Properties {
    pub(crate) kind: i32,
    pub(crate) handle_types: i32,
    pub(crate) location: [i32; 2],
    pub(crate) rest: [u64; 9],
}

#[repr(C)]
pub(crate) struct ArrayDescriptor {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) format: i32,
    pub(crate) channels: u32,
}

/// `CUipcMemHandle`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct SharedHandle(pub(crate) [u64; 8]);

#[repr(C)]
pub(crate) struct AllocationNode {
    pub(crate) before: [u64; 13],
    pub(crate) size: usize,
    pub(crate) address: u64,
}

// Those that take numbers alone are safe: the fake driver looks them up in its books.
unsafe extern "C" {
    fn cuInit(flags: u32) -> i32;
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: i32) -> i32;
    fn cuCtxSetCurrent(context: usize) -> i32;
    fn cuMemGetInfo_v2(free: *mut u64, total: *mut u64) -> i32;
    pub(crate) fn cuMemAlloc_v2(address: *mut u64, size: usize) -> i32;
    pub(crate) safe fn cuMemFree_v2(address: u64) -> i32;
    pub(crate) fn cuMemAllocManaged(address: *mut u64, size: usize, flags: u32) -> i32;
    pub(crate) fn cuMemHostAlloc(address: *mut u64, size: usize, flags: u32) -> i32;
    pub(crate) safe fn cuMemFreeHost(address: u64) -> i32;
    pub(crate) safe fn cuMemHostRegister_v2(address: u64, size: usize, flags: u32) -> i32;
    pub(crate) safe fn cuMemHostUnregister(address: u64) -> i32;
    pub(crate) fn cuMemPoolCreate(pool: *mut usize, properties: *const Properties) -> i32;
    pub(crate) safe fn cuMemPoolTrimTo(pool: usize, keep: usize) -> i32;
    pub(crate) fn cuDeviceGetDefaultMemPool(pool: *mut usize, device: i32) -> i32;
    pub(crate) fn cuMemAllocAsync(address: *mut u64, size: usize, stream: usize) -> i32;
    pub(crate) fn cuMemAllocFromPoolAsync(
        address: *mut u64,
        size: usize,
        pool: usize,
        stream: usize,
    ) -> i32;
    pub(crate) safe fn cuMemFreeAsync(address: u64, stream: usize) -> i32;
    pub(crate) fn cuArrayCreate_v2(handle: *mut usize, descriptor: *const ArrayDescriptor) -> i32;
    pub(crate) safe fn cuArrayDestroy(handle: usize) -> i32;
    pub(crate) fn cuMemAddressReserve(
        address: *mut u64,
        size: usize,
        alignment: usize,
        wish: u64,
        flags: u64,
    ) -> i32;
    pub(crate) safe fn cuMemAddressFree(address: u64, size: usize) -> i32;
    pub(crate) fn cuMemCreate(
        handle: *mut u64,
        size: usize,
        properties: *const Properties,
        flags: u64,
    ) -> i32;
    pub(crate) safe fn cuMemRelease(handle: u64) -> i32;
    pub(crate) fn cuMemRetainAllocationHandle(handle: *mut u64, address: *const c_void) -> i32;
    pub(crate) safe fn cuMemMap(
        address: u64,
        size: usize,
        offset: usize,
        handle: u64,
        flags: u64,
    ) -> i32;
    pub(crate) safe fn cuMemUnmap(address: u64, size: usize) -> i32;
    pub(crate) fn cuIpcGetMemHandle(handle: *mut SharedHandle, address: u64) -> i32;
    pub(crate) fn cuIpcOpenMemHandle_v2(address: *mut u64, handle: SharedHandle, flags: u32)
    -> i32;
    pub(crate) safe fn cuIpcCloseMemHandle(address: u64) -> i32;
    pub(crate) fn cuGraphCreate(graph: *mut usize, flags: u32) -> i32;
    pub(crate) fn cuGraphAddMemAllocNode(
        node: *mut usize,
        graph: usize,
        dependencies: *const usize,
        count: usize,
        parameters: *mut AllocationNode,
    ) -> i32;
    pub(crate) safe fn cuGraphDestroy(graph: usize) -> i32;
    pub(crate) safe fn cuDevicePrimaryCtxReset_v2(device: i32) -> i32;
}

/// Chooses the device of the next calls.
pub(crate) fn select(device: i32) {
    static READY: Once = Once::new();
    READY.call_once(|| {
        // SAFETY: no other thread of this test reads the environment before this is done.
        unsafe {
            std::env::set_var("FAKE_CUDA_DEVICES", DEVICES.to_string());
            std::env::set_var("FAKE_CUDA_CAPACITY", CAPACITY.to_string());
            assert_eq!(cuInit(0), 0);
        }
    });
    let mut context = 0;
    // SAFETY: the pointer is valid.
    unsafe {
        assert_eq!(cuDevicePrimaryCtxRetain(&raw mut context, device), 0);
        assert_eq!(cuCtxSetCurrent(context), 0);
    }
}

/// Free and total bytes of a device.
pub(crate) fn memory(device: i32) -> (u64, u64) {
    select(device);
    let (mut free, mut total) = (0, 0);
    // SAFETY: the pointers are valid.
    assert_eq!(unsafe { cuMemGetInfo_v2(&raw mut free, &raw mut total) }, 0);
    (free, total)
}
