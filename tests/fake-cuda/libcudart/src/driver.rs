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

use fake_cuda_core::{
    Code, DefaultStream,
    abi::DriverLaunchConfig,
    layout::{
        AllocationNode, Array3DDescriptor, ArrayDescriptor, Copy2D, Copy3D, PoolProperties,
        SharedHandle,
    },
};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;

/// Declares a structure of driver functions and how to fill it.
macro_rules! driver_functions {
    ($(#[$doc:meta])* $structure:ident { $($(#[$condition:meta])* $field:ident($($type:ty),*) = $name:literal @ $version:literal;)* }) => {
        $(#[$doc])*
        pub(crate) struct $structure {
            $($(#[$condition])* pub(crate) $field: unsafe extern "C" fn($($type),*) -> i32,)*
        }

        impl $structure {
            fn find(entry_points: &EntryPoints, flags: u64) -> Result<Self, Code> {
                Ok(Self {
                    $(
                        $(#[$condition])*
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
        primary_ctx_reset(i32) = c"cuDevicePrimaryCtxReset" @ 7000;
        ctx_set_current(usize) = c"cuCtxSetCurrent" @ 4000;
        ctx_synchronize() = c"cuCtxSynchronize" @ 2000;
        device_get_uuid(*mut u8, i32) = c"cuDeviceGetUuid" @ 9020;
        device_get_pci_bus_id(*mut c_char, i32, i32) = c"cuDeviceGetPCIBusId" @ 4010;
        device_graph_mem_trim(i32) = c"cuDeviceGraphMemTrim" @ 11040;
        default_mem_pool(*mut usize, i32) = c"cuDeviceGetDefaultMemPool" @ 11020;
        mem_pool(*mut usize, i32) = c"cuDeviceGetMemPool" @ 11020;
        set_mem_pool(i32, usize) = c"cuDeviceSetMemPool" @ 11020;
        module_load_data(*mut usize, *const c_void) = c"cuModuleLoadData" @ 2000;
        module_get_function(*mut usize, usize, *const c_char) = c"cuModuleGetFunction" @ 2000;
        library_load_data(
            *mut usize, *const c_void, *const c_void, *const c_void, u32, *const c_void,
            *const c_void, u32
        ) = c"cuLibraryLoadData" @ 12000;
        #[cfg(not(cuda11))]
        library_load_from_file(
            *mut usize, *const c_char, *const c_void, *const c_void, u32, *const c_void,
            *const c_void, u32
        ) = c"cuLibraryLoadFromFile" @ 12000;
        #[cfg(not(cuda11))]
        library_unload(usize) = c"cuLibraryUnload" @ 12000;
        #[cfg(not(cuda11))]
        library_enumerate_kernels(*mut usize, u32, usize) = c"cuLibraryEnumerateKernels" @ 12040;
        library_get_global(*mut u64, *mut usize, usize, *const c_char)
            = c"cuLibraryGetGlobal" @ 12000;
        module_get_global(*mut u64, *mut usize, usize, *const c_char)
            = c"cuModuleGetGlobal" @ 3020;
        library_get_kernel(*mut usize, usize, *const c_char) = c"cuLibraryGetKernel" @ 12000;
        kernel_get_function(*mut usize, usize) = c"cuKernelGetFunction" @ 12000;
        mem_alloc(*mut u64, usize) = c"cuMemAlloc" @ 3020;
        mem_free(u64) = c"cuMemFree" @ 3020;
        mem_get_info(*mut usize, *mut usize) = c"cuMemGetInfo" @ 3020;
        mem_alloc_pitch(*mut u64, *mut usize, usize, usize, u32) = c"cuMemAllocPitch" @ 3020;
        mem_alloc_managed(*mut u64, usize, u32) = c"cuMemAllocManaged" @ 6000;
        mem_host_alloc(*mut u64, usize, u32) = c"cuMemHostAlloc" @ 2020;
        mem_free_host(u64) = c"cuMemFreeHost" @ 2000;
        mem_host_register(u64, usize, u32) = c"cuMemHostRegister" @ 6050;
        mem_host_unregister(u64) = c"cuMemHostUnregister" @ 4000;
        array_create(*mut usize, *const ArrayDescriptor) = c"cuArrayCreate" @ 3020;
        array_3d_create(*mut usize, *const Array3DDescriptor) = c"cuArray3DCreate" @ 3020;
        array_destroy(usize) = c"cuArrayDestroy" @ 2000;
        mipmapped_array_create(*mut usize, *const Array3DDescriptor, u32)
            = c"cuMipmappedArrayCreate" @ 5000;
        mipmapped_array_destroy(usize) = c"cuMipmappedArrayDestroy" @ 5000;
        pool_create(*mut usize, *const PoolProperties) = c"cuMemPoolCreate" @ 11020;
        pool_destroy(usize) = c"cuMemPoolDestroy" @ 11020;
        pool_trim_to(usize, usize) = c"cuMemPoolTrimTo" @ 11020;
        pool_set_attribute(usize, i32, *const c_void) = c"cuMemPoolSetAttribute" @ 11020;
        pool_get_attribute(usize, i32, *mut u64) = c"cuMemPoolGetAttribute" @ 11020;
        pool_export(*mut c_void, usize, i32, u64)
            = c"cuMemPoolExportToShareableHandle" @ 11020;
        pool_import(*mut usize, *const c_void, i32, u64)
            = c"cuMemPoolImportFromShareableHandle" @ 11020;
        pool_export_pointer(*mut SharedHandle, u64) = c"cuMemPoolExportPointer" @ 11020;
        pool_import_pointer(*mut u64, usize, *const SharedHandle)
            = c"cuMemPoolImportPointer" @ 11020;
        ipc_get_mem_handle(*mut SharedHandle, u64) = c"cuIpcGetMemHandle" @ 4010;
        ipc_open_mem_handle(*mut u64, SharedHandle, u32) = c"cuIpcOpenMemHandle" @ 11000;
        ipc_close_mem_handle(u64) = c"cuIpcCloseMemHandle" @ 4010;
        stream_create(*mut usize, u32) = c"cuStreamCreate" @ 2000;
        stream_create_with_priority(*mut usize, u32, i32) = c"cuStreamCreateWithPriority" @ 5050;
        stream_destroy(usize) = c"cuStreamDestroy" @ 4000;
        stream_query(usize) = c"cuStreamQuery" @ 2000;
        stream_is_capturing(usize, *mut i32) = c"cuStreamIsCapturing" @ 10000;
        exchange_capture_mode(*mut i32) = c"cuThreadExchangeStreamCaptureMode" @ 10010;
        event_create(*mut usize, u32) = c"cuEventCreate" @ 2000;
        event_destroy(usize) = c"cuEventDestroy" @ 4000;
        event_query(usize) = c"cuEventQuery" @ 2000;
        event_synchronize(usize) = c"cuEventSynchronize" @ 2000;
        graph_get_nodes(usize, *mut usize, *mut usize) = c"cuGraphGetNodes" @ 10000;
        graph_instantiate(*mut usize, usize, u64) = c"cuGraphInstantiateWithFlags" @ 11040;
        #[cfg(cuda11)]
        graph_instantiate_11(*mut usize, usize, *mut usize, *mut c_char, usize)
            = c"cuGraphInstantiate" @ 11000;
        #[cfg(cuda11)]
        graph_exec_update_11(usize, usize, *mut usize, *mut i32) = c"cuGraphExecUpdate" @ 10020;
        #[cfg(not(cuda11))]
        graph_exec_update(usize, usize, *mut c_void) = c"cuGraphExecUpdate" @ 12000;
        graph_create(*mut usize, u32) = c"cuGraphCreate" @ 10000;
        graph_add_allocation(*mut usize, usize, *const usize, usize, *mut AllocationNode)
            = c"cuGraphAddMemAllocNode" @ 11040;
        graph_add_free(*mut usize, usize, *const usize, usize, u64)
            = c"cuGraphAddMemFreeNode" @ 11040;
        graph_destroy(usize) = c"cuGraphDestroy" @ 10000;
        graph_exec_destroy(usize) = c"cuGraphExecDestroy" @ 10000;
    }
}

driver_functions! {
    /// Functions with a per-thread twin; the version is the first that has both.
    StreamFunctions {
        mem_alloc_async(*mut u64, usize, usize) = c"cuMemAllocAsync" @ 11020;
        mem_free_async(u64, usize) = c"cuMemFreeAsync" @ 11020;
        mem_alloc_from_pool_async(*mut u64, usize, usize, usize)
            = c"cuMemAllocFromPoolAsync" @ 11020;
        memcpy_peer(u64, usize, u64, usize, usize) = c"cuMemcpyPeer" @ 7000;
        memcpy_peer_async(u64, usize, u64, usize, usize, usize) = c"cuMemcpyPeerAsync" @ 7000;
        memcpy_2d(*const Copy2D) = c"cuMemcpy2DUnaligned" @ 7000;
        memcpy_2d_async(*const Copy2D, usize) = c"cuMemcpy2DAsync" @ 7000;
        memcpy_3d(*const Copy3D) = c"cuMemcpy3D" @ 7000;
        memcpy_3d_async(*const Copy3D, usize) = c"cuMemcpy3DAsync" @ 7000;
        memcpy_3d_peer(*const Copy3D) = c"cuMemcpy3DPeer" @ 7000;
        memcpy_3d_peer_async(*const Copy3D, usize) = c"cuMemcpy3DPeerAsync" @ 7000;
        #[cfg(cuda12)]
        memcpy_batch_12(
            *const u64, *const u64, *const usize, usize, *const c_void, *const usize, usize,
            *mut usize, usize
        ) = c"cuMemcpyBatchAsync" @ 12080;
        #[cfg(cuda13)]
        memcpy_batch(
            *const u64, *const u64, *const usize, usize, *const c_void, *const usize, usize, usize
        ) = c"cuMemcpyBatchAsync" @ 13000;
        #[cfg(cuda12)]
        memcpy_3d_batch_12(usize, *const fake_cuda_core::layout::BatchCopy3D, *mut usize, u64, usize)
            = c"cuMemcpy3DBatchAsync" @ 12080;
        #[cfg(cuda13)]
        memcpy_3d_batch(usize, *const fake_cuda_core::layout::BatchCopy3D, u64, usize) = c"cuMemcpy3DBatchAsync" @ 13000;
        #[cfg(cuda13)]
        memcpy_with_attributes(u64, u64, usize, *const c_void, usize)
            = c"cuMemcpyWithAttributesAsync" @ 13020;
        #[cfg(cuda13)]
        memcpy_3d_with_attributes(*const fake_cuda_core::layout::BatchCopy3D, u64, usize)
            = c"cuMemcpy3DWithAttributesAsync" @ 13020;
        memset(u64, u8, usize) = c"cuMemsetD8" @ 7000;
        memset_async(u64, u8, usize, usize) = c"cuMemsetD8Async" @ 7000;
        memset_2d(u64, usize, u8, usize, usize) = c"cuMemsetD2D8" @ 7000;
        memset_2d_async(u64, usize, u8, usize, usize, usize) = c"cuMemsetD2D8Async" @ 7000;
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
        launch_host_function(usize, usize, *mut c_void) = c"cuLaunchHostFunc" @ 10000;
        #[cfg(cuda13)]
        launch_host_function_13(usize, usize, *mut c_void, u32) = c"cuLaunchHostFunc" @ 13010;
        event_record(usize, usize) = c"cuEventRecord" @ 7000;
        event_record_with_flags(usize, usize, u32) = c"cuEventRecordWithFlags" @ 11010;
        stream_wait_event(usize, usize, u32) = c"cuStreamWaitEvent" @ 7000;
        stream_synchronize(usize) = c"cuStreamSynchronize" @ 7000;
        begin_capture(usize, i32) = c"cuStreamBeginCapture" @ 10010;
        #[cfg(not(cuda11))]
        begin_capture_to_graph(usize, usize, *const usize, *const c_void, usize, i32)
            = c"cuStreamBeginCaptureToGraph" @ 12030;
        end_capture(usize, *mut usize) = c"cuStreamEndCapture" @ 10000;
        #[cfg(not(cuda11))]
        graph_instantiate_with_params(*mut usize, usize, *mut c_void)
            = c"cuGraphInstantiateWithParams" @ 12000;
        graph_launch(usize, usize) = c"cuGraphLaunch" @ 10000;
        graph_upload(usize, usize) = c"cuGraphUpload" @ 11010;
    }
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
