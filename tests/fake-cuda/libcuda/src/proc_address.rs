//! `cuGetProcAddress`: how the runtime finds the driver. It answers with the exported symbols
//! themselves, as the real driver does; versions are those that CUDA 12.8 and 13.0 ask for.

use std::{
    ffi::{CStr, c_char, c_void},
    ptr,
};

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::{context, copy, graph, launch, memory, module, stream};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;

type Symbol = unsafe extern "C" fn();

/// A base name, the first version that has the symbol, the symbol, and its per-thread twin.
struct Entry(&'static str, i32, Symbol, Option<(i32, Symbol)>);

/// Newest first where a name has several symbols.
static ENTRIES: &[Entry] = &[
    Entry("cuInit", 2000, context::cuInit::thunk, None),
    Entry(
        "cuDriverGetVersion",
        2020,
        context::cuDriverGetVersion::thunk,
        None,
    ),
    Entry(
        "cuDeviceGetCount",
        2000,
        context::cuDeviceGetCount::thunk,
        None,
    ),
    Entry("cuDeviceGet", 2000, context::cuDeviceGet::thunk, None),
    Entry(
        "cuDeviceGetName",
        2000,
        context::cuDeviceGetName::thunk,
        None,
    ),
    Entry(
        "cuDeviceTotalMem",
        3020,
        context::cuDeviceTotalMem_v2::thunk,
        None,
    ),
    Entry(
        "cuDeviceGetAttribute",
        2000,
        context::cuDeviceGetAttribute::thunk,
        None,
    ),
    Entry(
        "cuDevicePrimaryCtxRetain",
        7000,
        context::cuDevicePrimaryCtxRetain::thunk,
        None,
    ),
    Entry(
        "cuDevicePrimaryCtxRelease",
        11000,
        context::cuDevicePrimaryCtxRelease_v2::thunk,
        None,
    ),
    Entry(
        "cuDevicePrimaryCtxReset",
        11000,
        context::cuDevicePrimaryCtxReset_v2::thunk,
        None,
    ),
    Entry("cuCtxCreate", 3020, context::cuCtxCreate_v2::thunk, None),
    Entry("cuCtxDestroy", 4000, context::cuCtxDestroy_v2::thunk, None),
    Entry(
        "cuCtxSetCurrent",
        4000,
        context::cuCtxSetCurrent::thunk,
        None,
    ),
    Entry(
        "cuCtxGetCurrent",
        4000,
        context::cuCtxGetCurrent::thunk,
        None,
    ),
    Entry(
        "cuCtxGetDevice",
        2000,
        context::cuCtxGetDevice_v2::thunk,
        None,
    ),
    Entry(
        "cuCtxSynchronize",
        13000,
        context::cuCtxSynchronize_v2::thunk,
        None,
    ),
    Entry(
        "cuCtxSynchronize",
        2000,
        context::cuCtxSynchronize::thunk,
        None,
    ),
    Entry(
        "cuModuleLoadData",
        2000,
        module::cuModuleLoadData::thunk,
        None,
    ),
    Entry("cuModuleUnload", 2000, module::cuModuleUnload::thunk, None),
    Entry(
        "cuModuleGetFunction",
        2000,
        module::cuModuleGetFunction::thunk,
        None,
    ),
    Entry(
        "cuLibraryLoadData",
        12000,
        module::cuLibraryLoadData::thunk,
        None,
    ),
    Entry(
        "cuLibraryUnload",
        12000,
        module::cuLibraryUnload::thunk,
        None,
    ),
    Entry(
        "cuLibraryGetKernel",
        12000,
        module::cuLibraryGetKernel::thunk,
        None,
    ),
    Entry(
        "cuKernelGetFunction",
        12000,
        module::cuKernelGetFunction::thunk,
        None,
    ),
    Entry(
        "cuKernelGetName",
        12030,
        module::cuKernelGetName::thunk,
        None,
    ),
    Entry("cuFuncGetName", 12030, module::cuFuncGetName::thunk, None),
    Entry("cuMemAlloc", 3020, memory::cuMemAlloc_v2::thunk, None),
    Entry("cuMemFree", 3020, memory::cuMemFree_v2::thunk, None),
    Entry("cuMemGetInfo", 3020, memory::cuMemGetInfo_v2::thunk, None),
    Entry("cuMemHostAlloc", 2020, memory::cuMemHostAlloc::thunk, None),
    Entry("cuMemFreeHost", 2000, memory::cuMemFreeHost::thunk, None),
    Entry(
        "cuMemAllocAsync",
        11020,
        memory::cuMemAllocAsync::thunk,
        Some((11020, memory::cuMemAllocAsync_ptsz::thunk)),
    ),
    Entry(
        "cuMemFreeAsync",
        11020,
        memory::cuMemFreeAsync::thunk,
        Some((11020, memory::cuMemFreeAsync_ptsz::thunk)),
    ),
    Entry(
        "cuMemcpy",
        4000,
        copy::cuMemcpy::thunk,
        Some((7000, copy::cuMemcpy_ptds::thunk)),
    ),
    Entry(
        "cuMemcpyAsync",
        4000,
        copy::cuMemcpyAsync::thunk,
        Some((7000, copy::cuMemcpyAsync_ptsz::thunk)),
    ),
    Entry(
        "cuMemcpyHtoD",
        3020,
        copy::cuMemcpyHtoD_v2::thunk,
        Some((7000, copy::cuMemcpyHtoD_v2_ptds::thunk)),
    ),
    Entry(
        "cuMemcpyDtoH",
        3020,
        copy::cuMemcpyDtoH_v2::thunk,
        Some((7000, copy::cuMemcpyDtoH_v2_ptds::thunk)),
    ),
    Entry(
        "cuMemcpyDtoD",
        3020,
        copy::cuMemcpyDtoD_v2::thunk,
        Some((7000, copy::cuMemcpyDtoD_v2_ptds::thunk)),
    ),
    Entry(
        "cuMemcpyHtoDAsync",
        3020,
        copy::cuMemcpyHtoDAsync_v2::thunk,
        Some((7000, copy::cuMemcpyHtoDAsync_v2_ptsz::thunk)),
    ),
    Entry(
        "cuMemcpyDtoHAsync",
        3020,
        copy::cuMemcpyDtoHAsync_v2::thunk,
        Some((7000, copy::cuMemcpyDtoHAsync_v2_ptsz::thunk)),
    ),
    Entry(
        "cuMemcpyDtoDAsync",
        3020,
        copy::cuMemcpyDtoDAsync_v2::thunk,
        Some((7000, copy::cuMemcpyDtoDAsync_v2_ptsz::thunk)),
    ),
    Entry(
        "cuLaunchKernel",
        4000,
        launch::cuLaunchKernel::thunk,
        Some((7000, launch::cuLaunchKernel_ptsz::thunk)),
    ),
    Entry(
        "cuLaunchKernelEx",
        11060,
        launch::cuLaunchKernelEx::thunk,
        Some((11060, launch::cuLaunchKernelEx_ptsz::thunk)),
    ),
    Entry(
        "cuLaunchCooperativeKernel",
        9000,
        launch::cuLaunchCooperativeKernel::thunk,
        Some((9000, launch::cuLaunchCooperativeKernel_ptsz::thunk)),
    ),
    Entry("cuStreamCreate", 2000, stream::cuStreamCreate::thunk, None),
    Entry(
        "cuStreamCreateWithPriority",
        5050,
        stream::cuStreamCreateWithPriority::thunk,
        None,
    ),
    Entry(
        "cuStreamDestroy",
        4000,
        stream::cuStreamDestroy_v2::thunk,
        None,
    ),
    Entry(
        "cuStreamSynchronize",
        2000,
        stream::cuStreamSynchronize::thunk,
        Some((7000, stream::cuStreamSynchronize_ptsz::thunk)),
    ),
    Entry("cuStreamQuery", 2000, stream::cuStreamQuery::thunk, None),
    Entry(
        "cuStreamWaitEvent",
        3020,
        stream::cuStreamWaitEvent::thunk,
        None,
    ),
    Entry("cuEventCreate", 2000, stream::cuEventCreate::thunk, None),
    Entry(
        "cuEventDestroy",
        4000,
        stream::cuEventDestroy_v2::thunk,
        None,
    ),
    Entry("cuEventRecord", 2000, stream::cuEventRecord::thunk, None),
    Entry("cuEventQuery", 2000, stream::cuEventQuery::thunk, None),
    Entry(
        "cuEventSynchronize",
        2000,
        stream::cuEventSynchronize::thunk,
        None,
    ),
    Entry(
        "cuStreamBeginCapture",
        10010,
        graph::cuStreamBeginCapture_v2::thunk,
        Some((10010, graph::cuStreamBeginCapture_v2_ptsz::thunk)),
    ),
    Entry(
        "cuStreamEndCapture",
        10000,
        graph::cuStreamEndCapture::thunk,
        Some((10000, graph::cuStreamEndCapture_ptsz::thunk)),
    ),
    Entry(
        "cuStreamIsCapturing",
        10000,
        graph::cuStreamIsCapturing::thunk,
        None,
    ),
    Entry(
        "cuThreadExchangeStreamCaptureMode",
        10010,
        graph::cuThreadExchangeStreamCaptureMode::thunk,
        None,
    ),
    Entry(
        "cuGraphGetNodes",
        10000,
        graph::cuGraphGetNodes::thunk,
        None,
    ),
    Entry(
        "cuGraphInstantiateWithFlags",
        11040,
        graph::cuGraphInstantiateWithFlags::thunk,
        None,
    ),
    Entry(
        "cuGraphLaunch",
        10000,
        graph::cuGraphLaunch::thunk,
        Some((10000, graph::cuGraphLaunch_ptsz::thunk)),
    ),
    Entry("cuGraphDestroy", 10000, graph::cuGraphDestroy::thunk, None),
    Entry(
        "cuGraphExecDestroy",
        10000,
        graph::cuGraphExecDestroy::thunk,
        None,
    ),
    Entry("cuGetProcAddress", 12000, cuGetProcAddress_v2::thunk, None),
    Entry("cuGetProcAddress", 11030, cuGetProcAddress::thunk, None),
];

/// The symbol for a name at a version: the per-thread twin where one is wanted and there is one.
fn find(name: &CStr, version: i32, flags: u64) -> Option<Symbol> {
    let per_thread = flags & PER_THREAD != 0;
    ENTRIES.iter().find_map(|Entry(base, since, plain, twin)| {
        if base.as_bytes() != name.to_bytes() {
            return None;
        }
        match twin {
            Some((since, twin)) if per_thread => (version >= *since).then_some(*twin),
            Some(_) | None => (version >= *since).then_some(*plain),
        }
    })
}

fn answer(name: *const c_char, out: *mut *const c_void, version: i32, flags: u64) -> Outcome {
    if name.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and a string of the caller, as the real function requires.
    let found = find(unsafe { CStr::from_ptr(name) }, version, flags);
    let address = found.map_or(ptr::null(), |symbol| symbol as *const c_void);
    // SAFETY: the caller's pointer, as the real function requires.
    unsafe { store(out, address) }?;
    found.map(|_| ()).ok_or(Code::NOT_FOUND)
}

exports! {
    unversioned;

    /// The form of CUDA 11.3.
    fn cuGetProcAddress(
        name: *const c_char,
        out: *mut *const c_void,
        version: i32,
        flags: u64,
    ) {
        answer(name, out, version, flags)
    }

    /// The form of CUDA 12: success, with a status of 1, where a name was not found.
    fn cuGetProcAddress_v2(
        name: *const c_char,
        out: *mut *const c_void,
        version: i32,
        flags: u64,
        status: *mut i32,
    ) {
        let outcome = answer(name, out, version, flags);
        if status.is_null() {
            return outcome;
        }
        // SAFETY: not null, and the caller's pointer, as the real function requires.
        unsafe { status.write(i32::from(outcome == Err(Code::NOT_FOUND))) };
        match outcome {
            Err(Code::NOT_FOUND) => Ok(()),
            found => found,
        }
    }
}
