//! The CUDA runtime, as far as the allocator needs it.

use std::ffi::{CStr, c_void};

use crate::allocator::Device;

/// `cudaMalloc` and `cudaFree` of an open runtime.
pub(crate) struct Cudart {
    malloc: unsafe extern "C" fn(*mut u64, usize) -> i32,
    free: unsafe extern "C" fn(u64) -> i32,
}

impl Cudart {
    pub(crate) fn open(path: &CStr) -> Option<Self> {
        // SAFETY: a string; the library's constructors are its own affair.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        // SAFETY: an open library and constant names; the signatures are CUDA's.
        unsafe {
            let malloc = libc::dlsym(library, c"cudaMalloc".as_ptr());
            let free = libc::dlsym(library, c"cudaFree".as_ptr());
            if malloc.is_null() || free.is_null() {
                return None;
            }
            Some(Self {
                malloc: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut u64, usize) -> i32,
                >(malloc),
                free: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(u64) -> i32>(free),
            })
        }
    }
}

impl Device for Cudart {
    fn malloc(&mut self, size: u64) -> Result<u64, i32> {
        let mut address = 0;
        let size = usize::try_from(size).map_err(|_| 1)?;
        // SAFETY: a pointer to a local.
        match unsafe { (self.malloc)(&raw mut address, size) } {
            0 => Ok(address),
            code => Err(code),
        }
    }

    fn free(&mut self, address: u64) -> Result<(), i32> {
        // SAFETY: a device address is only a number.
        match unsafe { (self.free)(address) } {
            0 => Ok(()),
            code => Err(code),
        }
    }
}
