//! The driver, reached as the real runtime reaches it: `dlopen` of `libcuda.so.1`, then
//! `cuGetProcAddress` for each function, with the version that CUDA 12.8 and 13.0 ask for.
//!
//! Callers use the result of each call afterwards, so that it stays a call: the return address
//! at the driver's entry lies in this library, as with the real one.

use std::{
    ffi::{CStr, c_char, c_void},
    ptr,
    sync::OnceLock,
};

use fake_cuda_core::{Code, abi::DriverLaunchConfig};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;

/// Declares a structure of driver functions and how to fill it.
macro_rules! driver_functions {
    ($(#[$doc:meta])* $structure:ident { $($field:ident($($type:ty),*) = $name:literal @ $version:literal;)* }) => {
        $(#[$doc])*
        pub(crate) struct $structure {
            $(pub(crate) $field: unsafe extern "C" fn($($type),*) -> i32,)*
        }

        impl $structure {
            fn find(entry_points: &EntryPoints, flags: u64) -> Result<Self, Code> {
                Ok(Self {
                    $(
                        $field: {
                            let symbol = entry_points.get($name, $version, flags)?;
                            // SAFETY: the driver's function of this name has this signature.
                            unsafe {
                                std::mem::transmute::<
                                    *const c_void,
                                    unsafe extern "C" fn($($type),*) -> i32,
                                >(symbol)
                            }
                        },
                    )*
                })
            }
        }
    };
}

driver_functions! {
    /// Functions without a per-thread twin.
    Functions {
        init(u32) = c"cuInit" @ 2000;
        driver_get_version(*mut i32) = c"cuDriverGetVersion" @ 2020;
        device_get_count(*mut i32) = c"cuDeviceGetCount" @ 2000;
        device_total_mem(*mut usize, i32) = c"cuDeviceTotalMem" @ 3020;
        device_get_attribute(*mut i32, i32, i32) = c"cuDeviceGetAttribute" @ 2000;
        primary_ctx_retain(*mut usize, i32) = c"cuDevicePrimaryCtxRetain" @ 7000;
        primary_ctx_reset(i32) = c"cuDevicePrimaryCtxReset" @ 11000;
        ctx_set_current(usize) = c"cuCtxSetCurrent" @ 4000;
        ctx_synchronize() = c"cuCtxSynchronize" @ 2000;
        module_load_data(*mut usize, *const c_void) = c"cuModuleLoadData" @ 2000;
        module_get_function(*mut usize, usize, *const c_char) = c"cuModuleGetFunction" @ 2000;
        library_load_data(
            *mut usize, *const c_void, *const c_void, *const c_void, u32, *const c_void,
            *const c_void, u32
        ) = c"cuLibraryLoadData" @ 12000;
        library_get_kernel(*mut usize, usize, *const c_char) = c"cuLibraryGetKernel" @ 12000;
        kernel_get_function(*mut usize, usize) = c"cuKernelGetFunction" @ 12000;
        mem_alloc(*mut u64, usize) = c"cuMemAlloc" @ 3020;
        mem_free(u64) = c"cuMemFree" @ 3020;
        mem_get_info(*mut usize, *mut usize) = c"cuMemGetInfo" @ 3020;
        mem_host_alloc(*mut *mut c_void, usize, u32) = c"cuMemHostAlloc" @ 2020;
        mem_free_host(*mut c_void) = c"cuMemFreeHost" @ 2000;
        stream_create(*mut usize, u32) = c"cuStreamCreate" @ 2000;
        stream_create_with_priority(*mut usize, u32, i32) = c"cuStreamCreateWithPriority" @ 5050;
        stream_destroy(usize) = c"cuStreamDestroy" @ 4000;
        stream_query(usize) = c"cuStreamQuery" @ 2000;
        stream_wait_event(usize, usize, u32) = c"cuStreamWaitEvent" @ 3020;
        stream_is_capturing(usize, *mut i32) = c"cuStreamIsCapturing" @ 10000;
        exchange_capture_mode(*mut i32) = c"cuThreadExchangeStreamCaptureMode" @ 10010;
        event_create(*mut usize, u32) = c"cuEventCreate" @ 2000;
        event_destroy(usize) = c"cuEventDestroy" @ 4000;
        event_record(usize, usize) = c"cuEventRecord" @ 2000;
        event_query(usize) = c"cuEventQuery" @ 2000;
        event_synchronize(usize) = c"cuEventSynchronize" @ 2000;
        graph_get_nodes(usize, *mut usize, *mut usize) = c"cuGraphGetNodes" @ 10000;
        graph_instantiate(*mut usize, usize, u64) = c"cuGraphInstantiateWithFlags" @ 11040;
        graph_destroy(usize) = c"cuGraphDestroy" @ 10000;
        graph_exec_destroy(usize) = c"cuGraphExecDestroy" @ 10000;
    }
}

driver_functions! {
    /// Functions with a per-thread twin; the version is the first that has both.
    StreamFunctions {
        mem_alloc_async(*mut u64, usize, usize) = c"cuMemAllocAsync" @ 11020;
        mem_free_async(u64, usize) = c"cuMemFreeAsync" @ 11020;
        memcpy(u64, u64, usize) = c"cuMemcpy" @ 7000;
        memcpy_htod(u64, u64, usize) = c"cuMemcpyHtoD" @ 7000;
        memcpy_dtoh(u64, u64, usize) = c"cuMemcpyDtoH" @ 7000;
        memcpy_dtod(u64, u64, usize) = c"cuMemcpyDtoD" @ 7000;
        memcpy_async(u64, u64, usize, usize) = c"cuMemcpyAsync" @ 7000;
        memcpy_htod_async(u64, u64, usize, usize) = c"cuMemcpyHtoDAsync" @ 7000;
        memcpy_dtoh_async(u64, u64, usize, usize) = c"cuMemcpyDtoHAsync" @ 7000;
        memcpy_dtod_async(u64, u64, usize, usize) = c"cuMemcpyDtoDAsync" @ 7000;
        launch_kernel(
            usize, u32, u32, u32, u32, u32, u32, u32, usize, *const c_void, *const c_void
        ) = c"cuLaunchKernel" @ 7000;
        launch_kernel_ex(
            *const DriverLaunchConfig, usize, *const c_void, *const c_void
        ) = c"cuLaunchKernelEx" @ 11060;
        launch_cooperative_kernel(
            usize, u32, u32, u32, u32, u32, u32, u32, usize, *const c_void
        ) = c"cuLaunchCooperativeKernel" @ 9000;
        stream_synchronize(usize) = c"cuStreamSynchronize" @ 7000;
        begin_capture(usize, i32) = c"cuStreamBeginCapture" @ 10010;
        end_capture(usize, *mut usize) = c"cuStreamEndCapture" @ 10000;
        graph_launch(usize, usize) = c"cuGraphLaunch" @ 10000;
    }
}

/// Which default stream a function means.
#[derive(Clone, Copy)]
pub(crate) enum DefaultStream {
    /// One for all threads.
    Legacy,
    /// One for each thread: the `_ptsz` and `_ptds` symbols.
    PerThread,
}

/// The whole driver.
pub(crate) struct Driver {
    pub(crate) functions: Functions,
    legacy: StreamFunctions,
    per_thread: StreamFunctions,
}

impl Driver {
    /// The functions for one meaning of the default stream.
    #[inline]
    pub(crate) fn on(&self, default: DefaultStream) -> &StreamFunctions {
        match default {
            DefaultStream::Legacy => &self.legacy,
            DefaultStream::PerThread => &self.per_thread,
        }
    }

    /// Finds and initializes the driver on first use.
    #[inline]
    pub(crate) fn get() -> Result<&'static Self, Code> {
        static DRIVER: OnceLock<Result<Driver, Code>> = OnceLock::new();
        DRIVER
            .get_or_init(Self::load)
            .as_ref()
            .map_err(|code| *code)
    }

    fn load() -> Result<Self, Code> {
        let entry_points = EntryPoints::open().ok_or(Code::INSUFFICIENT_DRIVER)?;
        let driver = Self {
            functions: Functions::find(&entry_points, 0)?,
            legacy: StreamFunctions::find(&entry_points, 0)?,
            per_thread: StreamFunctions::find(&entry_points, PER_THREAD)?,
        };
        // SAFETY: the driver's function; it takes no pointers.
        Code::outcome(unsafe { (driver.functions.init)(0) })?;
        Ok(driver)
    }
}

/// `cuGetProcAddress`, in the form of the runtime's major.
struct EntryPoints {
    symbol: *mut c_void,
}

impl EntryPoints {
    fn open() -> Option<Self> {
        let name = if cfg!(cuda11) {
            c"cuGetProcAddress"
        } else {
            c"cuGetProcAddress_v2"
        };
        // SAFETY: loads a library by a constant name; its constructors are the driver's own.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        // SAFETY: an open library and a constant name.
        let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!symbol.is_null()).then_some(Self { symbol })
    }

    /// The function with this name, or [`Code::NOT_FOUND`].
    fn get(&self, name: &CStr, version: i32, flags: u64) -> Result<*const c_void, Code> {
        let mut found: *const c_void = ptr::null();
        let code = if cfg!(cuda11) {
            type V1 = unsafe extern "C" fn(*const c_char, *mut *const c_void, i32, u64) -> i32;
            // SAFETY: `cuGetProcAddress` has this signature, and the pointers live through it.
            unsafe {
                let get: V1 = std::mem::transmute(self.symbol);
                get(name.as_ptr(), &raw mut found, version, flags)
            }
        } else {
            type V2 =
                unsafe extern "C" fn(*const c_char, *mut *const c_void, i32, u64, *mut i32) -> i32;
            let mut status = 0;
            // SAFETY: `cuGetProcAddress_v2` has this signature, and the pointers live through it.
            unsafe {
                let get: V2 = std::mem::transmute(self.symbol);
                get(
                    name.as_ptr(),
                    &raw mut found,
                    version,
                    flags,
                    &raw mut status,
                )
            }
        };
        Code::outcome(code)?;
        if found.is_null() {
            Err(Code::NOT_FOUND)
        } else {
            Ok(found)
        }
    }
}

/// What CUDA 12 added for programs that look for driver functions themselves.
#[cfg(not(cuda11))]
pub(crate) mod since_12 {
    use std::ffi::{CStr, c_char, c_void};

    use super::{EntryPoints, ptr};
    use fake_cuda_core::{Code, abi::store, exports};

    /// `cudaDriverEntryPointSymbolNotFound`
    const SYMBOL_NOT_FOUND: i32 = 1;

    exports! {
        versioned;

        /// A driver function for a version, and whether it was found.
        fn cudaGetDriverEntryPointByVersion(
            name: *const c_char,
            function: *mut *const c_void,
            version: u32,
            _flags: u64,
            status: *mut i32,
        ) {
            if name.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            let version = i32::try_from(version).map_err(|_| Code::INVALID_VALUE)?;
            let driver = EntryPoints::open().ok_or(Code::INSUFFICIENT_DRIVER)?;
            // SAFETY: not null, and a string of the caller.
            let found = driver.get(unsafe { CStr::from_ptr(name) }, version, 0).ok();
            if !status.is_null() {
                let code = if found.is_some() { 0 } else { SYMBOL_NOT_FOUND };
                // SAFETY: not null, and the caller's pointer, as the real function requires.
                unsafe { status.write(code) };
            }
            // SAFETY: the caller's pointer, as the real function requires.
            unsafe { store(function, found.unwrap_or(ptr::null())) }
        }
    }
}
