//! The CUDA driver as a program with a static runtime uses it: opened by name, its exported
//! functions called.

use std::{
    ffi::{CStr, c_char, c_void},
    path::Path,
};

use fake_cuda_core::abi::DriverLaunchConfig;

use crate::{function_table, library::Library, tally::Code};

function_table! {
    /// The exported functions that the workloads call.
    Functions {
        init(u32) -> Code = c"cuInit";
        device_get(*mut i32, i32) -> Code = c"cuDeviceGet";
        primary_ctx_retain(*mut usize, i32) -> Code = c"cuDevicePrimaryCtxRetain";
        ctx_set_current(usize) -> Code = c"cuCtxSetCurrent";
        ctx_synchronize() -> Code = c"cuCtxSynchronize";
        module_load_data(*mut usize, *const c_void) -> Code = c"cuModuleLoadData";
        module_unload(usize) -> Code = c"cuModuleUnload";
        module_get_function(*mut usize, usize, *const c_char) -> Code = c"cuModuleGetFunction";
        library_load_data(
            *mut usize, *const c_void, *const c_void, *const c_void, u32, *const c_void,
            *const c_void, u32
        ) -> Code = c"cuLibraryLoadData";
        library_get_kernel(*mut usize, usize, *const c_char) -> Code = c"cuLibraryGetKernel";
        kernel_get_function(*mut usize, usize) -> Code = c"cuKernelGetFunction";
        kernel_get_name(*mut *const c_char, usize) -> Code = c"cuKernelGetName";
        func_get_name(*mut *const c_char, usize) -> Code = c"cuFuncGetName";
        mem_alloc(*mut u64, usize) -> Code = c"cuMemAlloc_v2";
        mem_free(u64) -> Code = c"cuMemFree_v2";
        mem_get_info(*mut usize, *mut usize) -> Code = c"cuMemGetInfo_v2";
        memcpy(u64, u64, usize) -> Code = c"cuMemcpy";
        memcpy_ptds(u64, u64, usize) -> Code = c"cuMemcpy_ptds";
        memcpy_async(u64, u64, usize, usize) -> Code = c"cuMemcpyAsync";
        memcpy_async_ptsz(u64, u64, usize, usize) -> Code = c"cuMemcpyAsync_ptsz";
        memcpy_htod(u64, u64, usize) -> Code = c"cuMemcpyHtoD_v2";
        memcpy_htod_ptds(u64, u64, usize) -> Code = c"cuMemcpyHtoD_v2_ptds";
        memcpy_dtoh(u64, u64, usize) -> Code = c"cuMemcpyDtoH_v2";
        memcpy_dtoh_ptds(u64, u64, usize) -> Code = c"cuMemcpyDtoH_v2_ptds";
        memcpy_dtod(u64, u64, usize) -> Code = c"cuMemcpyDtoD_v2";
        memcpy_dtod_ptds(u64, u64, usize) -> Code = c"cuMemcpyDtoD_v2_ptds";
        memcpy_htod_async(u64, u64, usize, usize) -> Code = c"cuMemcpyHtoDAsync_v2";
        memcpy_htod_async_ptsz(u64, u64, usize, usize) -> Code = c"cuMemcpyHtoDAsync_v2_ptsz";
        memcpy_dtoh_async(u64, u64, usize, usize) -> Code = c"cuMemcpyDtoHAsync_v2";
        memcpy_dtoh_async_ptsz(u64, u64, usize, usize) -> Code = c"cuMemcpyDtoHAsync_v2_ptsz";
        memcpy_dtod_async(u64, u64, usize, usize) -> Code = c"cuMemcpyDtoDAsync_v2";
        memcpy_dtod_async_ptsz(u64, u64, usize, usize) -> Code = c"cuMemcpyDtoDAsync_v2_ptsz";
        launch_kernel(
            usize, u32, u32, u32, u32, u32, u32, u32, usize, *const c_void, *const c_void
        ) -> Code = c"cuLaunchKernel";
        launch_kernel_ptsz(
            usize, u32, u32, u32, u32, u32, u32, u32, usize, *const c_void, *const c_void
        ) -> Code = c"cuLaunchKernel_ptsz";
        launch_kernel_ex(*const DriverLaunchConfig, usize, *const c_void, *const c_void) -> Code
            = c"cuLaunchKernelEx";
        launch_kernel_ex_ptsz(
            *const DriverLaunchConfig, usize, *const c_void, *const c_void
        ) -> Code = c"cuLaunchKernelEx_ptsz";
        launch_cooperative(
            usize, u32, u32, u32, u32, u32, u32, u32, usize, *const c_void
        ) -> Code = c"cuLaunchCooperativeKernel";
        launch_cooperative_ptsz(
            usize, u32, u32, u32, u32, u32, u32, u32, usize, *const c_void
        ) -> Code = c"cuLaunchCooperativeKernel_ptsz";
        begin_capture(usize, i32) -> Code = c"cuStreamBeginCapture_v2";
        end_capture(usize, *mut usize) -> Code = c"cuStreamEndCapture";
        graph_instantiate(*mut usize, usize, u64) -> Code = c"cuGraphInstantiateWithFlags";
        graph_launch(usize, usize) -> Code = c"cuGraphLaunch";
        graph_launch_ptsz(usize, usize) -> Code = c"cuGraphLaunch_ptsz";
        graph_destroy(usize) -> Code = c"cuGraphDestroy";
        graph_exec_destroy(usize) -> Code = c"cuGraphExecDestroy";
        stream_create(*mut usize, u32) -> Code = c"cuStreamCreate";
        stream_destroy(usize) -> Code = c"cuStreamDestroy_v2";
        stream_synchronize(usize) -> Code = c"cuStreamSynchronize";
        stream_synchronize_ptsz(usize) -> Code = c"cuStreamSynchronize_ptsz";
        event_create(*mut usize, u32) -> Code = c"cuEventCreate";
        event_record(usize, usize) -> Code = c"cuEventRecord";
        event_synchronize(usize) -> Code = c"cuEventSynchronize";
        event_destroy(usize) -> Code = c"cuEventDestroy_v2";
    }
}

/// An open driver.
#[derive(Debug)]
pub struct Driver {
    library: Library,
    functions: Functions,
}

impl Driver {
    /// Opens a driver. No call is made yet.
    ///
    /// # Panics
    /// When there is no such library, or it lacks a function.
    pub fn open(path: &Path) -> Self {
        let library = Library::open(path);
        Self {
            library,
            functions: Functions::find(&library),
        }
    }

    /// Whether the fake answers.
    pub fn is_fake(&self) -> bool {
        self.library.find(c"fake_cuda_marker").is_some()
    }

    /// A function that no call gives out, as cuFFT has them. In the fake alone.
    ///
    /// # Panics
    /// On a real driver.
    pub fn hidden_function(&self, module: usize, name: &CStr) -> usize {
        let symbol = self.library.get(c"fake_cuda_hidden_function");
        // SAFETY: the fake's function has this signature.
        let hidden: unsafe extern "C" fn(usize, *const c_char) -> usize =
            unsafe { std::mem::transmute(symbol) };
        // SAFETY: a string.
        unsafe { hidden(module, name.as_ptr()) }
    }

    /// The functions, for calls that are counted otherwise.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }
}
