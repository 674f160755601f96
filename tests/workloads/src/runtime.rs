//! The CUDA runtime as a program uses it, every call counted.

use std::{
    ffi::{c_char, c_void},
    path::Path,
    ptr,
};

use fake_cuda_core::abi::{Dim3, RuntimeLaunchConfig};

use crate::{function_table, kernels, library::Library, tally::Code};

type LaunchKernel = unsafe extern "C" fn(usize, Dim3, Dim3, *const c_void, usize, usize) -> Code;

function_table! {
    /// Functions that every supported runtime has.
    Functions {
        set_device(i32) -> Code = c"cudaSetDevice";
        device_synchronize() -> Code = c"cudaDeviceSynchronize";
        malloc(*mut u64, usize) -> Code = c"cudaMalloc";
        free(u64) -> Code = c"cudaFree";
        mem_get_info(*mut usize, *mut usize) -> Code = c"cudaMemGetInfo";
        memcpy(u64, u64, usize, i32) -> Code = c"cudaMemcpy";
        memcpy_ptds(u64, u64, usize, i32) -> Code = c"cudaMemcpy_ptds";
        memcpy_async(u64, u64, usize, i32, usize) -> Code = c"cudaMemcpyAsync";
        memcpy_async_ptsz(u64, u64, usize, i32, usize) -> Code = c"cudaMemcpyAsync_ptsz";
        launch_kernel(usize, Dim3, Dim3, *const c_void, usize, usize) -> Code
            = c"cudaLaunchKernel";
        launch_kernel_ptsz(usize, Dim3, Dim3, *const c_void, usize, usize) -> Code
            = c"cudaLaunchKernel_ptsz";
        launch_kernel_ex(*const RuntimeLaunchConfig, usize, *const c_void) -> Code
            = c"cudaLaunchKernelExC";
        launch_kernel_ex_ptsz(*const RuntimeLaunchConfig, usize, *const c_void) -> Code
            = c"cudaLaunchKernelExC_ptsz";
        launch_cooperative(usize, Dim3, Dim3, *const c_void, usize, usize) -> Code
            = c"cudaLaunchCooperativeKernel";
        launch_cooperative_ptsz(usize, Dim3, Dim3, *const c_void, usize, usize) -> Code
            = c"cudaLaunchCooperativeKernel_ptsz";
        begin_capture(usize, i32) -> Code = c"cudaStreamBeginCapture";
        end_capture(usize, *mut usize) -> Code = c"cudaStreamEndCapture";
        graph_instantiate(*mut usize, usize, u64) -> Code = c"cudaGraphInstantiateWithFlags";
        graph_launch(usize, usize) -> Code = c"cudaGraphLaunch";
        graph_launch_ptsz(usize, usize) -> Code = c"cudaGraphLaunch_ptsz";
        graph_destroy(usize) -> Code = c"cudaGraphDestroy";
        graph_exec_destroy(usize) -> Code = c"cudaGraphExecDestroy";
        stream_create(*mut usize) -> Code = c"cudaStreamCreate";
        stream_destroy(usize) -> Code = c"cudaStreamDestroy";
        stream_wait_event(usize, usize, u32) -> Code = c"cudaStreamWaitEvent";
        stream_synchronize(usize) -> Code = c"cudaStreamSynchronize";
        stream_synchronize_ptsz(usize) -> Code = c"cudaStreamSynchronize_ptsz";
        event_create(*mut usize) -> Code = c"cudaEventCreate";
        event_record(usize, usize) -> Code = c"cudaEventRecord";
        event_synchronize(usize) -> Code = c"cudaEventSynchronize";
        event_destroy(usize) -> Code = c"cudaEventDestroy";
        malloc_host(*mut u64, usize) -> Code = c"cudaMallocHost";
        free_host(u64) -> Code = c"cudaFreeHost";
        register_fat_binary(*const c_void) -> usize = c"__cudaRegisterFatBinary";
        register_fat_binary_end(usize) = c"__cudaRegisterFatBinaryEnd";
        register_function(
            usize, usize, *const c_char, *const c_char, i32, *const c_void, *const c_void,
            *const c_void, *const c_void, *const i32
        ) = c"__cudaRegisterFunction";
    }
}

/// What nvcc's launch stubs call since CUDA 12.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StubFunctions {
    pub(crate) get_kernel: unsafe extern "C" fn(*mut usize, usize) -> Code,
    pub(crate) launch_kernel: LaunchKernel,
    pub(crate) launch_kernel_ptsz: LaunchKernel,
}

/// An open runtime with the programs' kernels registered.
#[derive(Debug)]
pub struct Runtime {
    library: Library,
    functions: Functions,
    stub_functions: Option<StubFunctions>,
}

impl Runtime {
    /// Opens a runtime and registers the kernels. No call is counted yet.
    ///
    /// # Panics
    /// When there is no such library, or it lacks a function.
    pub fn open(path: &Path) -> Self {
        Self::new(Library::open(path))
    }

    /// The runtime that the program was linked with.
    ///
    /// # Panics
    /// When the program was linked with none, or it lacks a function.
    pub fn linked() -> Self {
        Self::new(Library::linked())
    }

    fn new(library: Library) -> Self {
        let functions = Functions::find(&library);
        // SAFETY: as nvcc's constructors do it; all strings and addresses live forever.
        unsafe {
            let image = (functions.register_fat_binary)(kernels::fat_binary());
            for kernel in kernels::ALL {
                let (stub, name, none) = (kernel.address(), kernel.mangled.as_ptr(), ptr::null());
                (functions.register_function)(
                    image,
                    stub,
                    name,
                    name,
                    -1,
                    none,
                    none,
                    none,
                    none,
                    ptr::null(),
                );
            }
            (functions.register_fat_binary_end)(image);
        }
        Self {
            library,
            functions,
            stub_functions: StubFunctions::find(&library),
        }
    }

    /// Whether the fake answers.
    pub fn is_fake(&self) -> bool {
        self.library.find(c"fake_cuda_marker").is_some()
    }

    /// The functions, for calls that are counted otherwise.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The functions of nvcc's launch stubs, where the runtime has them.
    pub(crate) fn stub_functions(&self) -> Option<&StubFunctions> {
        self.stub_functions.as_ref()
    }

    /// The open library.
    pub fn library(&self) -> Library {
        self.library
    }
}

impl StubFunctions {
    fn find(library: &Library) -> Option<Self> {
        let get_kernel = library.find(c"__cudaGetKernel")?;
        // SAFETY: the runtime's functions of these names have these signatures.
        unsafe {
            Some(Self {
                get_kernel: std::mem::transmute::<
                    *const c_void,
                    unsafe extern "C" fn(*mut usize, usize) -> Code,
                >(get_kernel),
                launch_kernel: std::mem::transmute::<*const c_void, LaunchKernel>(
                    library.get(c"__cudaLaunchKernel"),
                ),
                launch_kernel_ptsz: std::mem::transmute::<*const c_void, LaunchKernel>(
                    library.get(c"__cudaLaunchKernel_ptsz"),
                ),
            })
        }
    }
}
