//! `cuGetProcAddress`: how the runtime finds the driver. It answers with the exported symbols
//! themselves, as the real driver does; versions are those that CUDA 12.8 and 13.0 ask for.

use std::{
    ffi::{CStr, c_char, c_void},
    ptr,
};

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::{
    array, capture, context, copy, copy_batch, copy_shaped, graph, graph_memory, host, identity,
    ipc, launch, memory, module, multicast, pool, proc_address as own, set, stream, vmm,
};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;

type Symbol = unsafe extern "C" fn();

/// A base name, the first version that has the symbol, the symbol, and its per-thread twin.
struct Entry(&'static str, i32, Symbol, Option<(i32, Symbol)>);

/// `name since => module::symbol | since of the twin => twin;`
macro_rules! entries {
    ($($base:literal $since:literal => $module:ident::$symbol:ident $(| $twin_since:literal => $twin:ident)?;)*) => {
        &[$(Entry(
            $base,
            $since,
            $module::$symbol::thunk,
            entries!(@twin $($twin_since $module::$twin)?),
        )),*]
    };
    (@twin) => { None };
    (@twin $since:literal $module:ident::$twin:ident) => { Some(($since, $module::$twin::thunk)) };
}

/// Newest first where a name has several symbols. Versions are those of cudaTypedefs.h.
static ENTRIES: &[Entry] = entries! {
    "cuInit" 2000 => identity::cuInit;
    "cuDriverGetVersion" 2020 => identity::cuDriverGetVersion;
    "cuDeviceGetCount" 2000 => identity::cuDeviceGetCount;
    "cuDeviceGet" 2000 => identity::cuDeviceGet;
    "cuDeviceGetName" 2000 => identity::cuDeviceGetName;
    "cuDeviceGetUuid" 11040 => identity::cuDeviceGetUuid_v2;
    "cuDeviceGetUuid" 9020 => identity::cuDeviceGetUuid;
    "cuDeviceGetPCIBusId" 4010 => identity::cuDeviceGetPCIBusId;
    "cuDeviceTotalMem" 3020 => identity::cuDeviceTotalMem_v2;
    "cuDeviceGetAttribute" 2000 => identity::cuDeviceGetAttribute;
    "cuDevicePrimaryCtxRetain" 7000 => context::cuDevicePrimaryCtxRetain;
    "cuDevicePrimaryCtxRelease" 11000 => context::cuDevicePrimaryCtxRelease_v2;
    "cuDevicePrimaryCtxRelease" 7000 => context::cuDevicePrimaryCtxRelease;
    "cuDevicePrimaryCtxReset" 11000 => context::cuDevicePrimaryCtxReset_v2;
    "cuDevicePrimaryCtxReset" 7000 => context::cuDevicePrimaryCtxReset;
    "cuCtxCreate" 12050 => context::cuCtxCreate_v4;
    "cuCtxCreate" 11040 => context::cuCtxCreate_v3;
    "cuCtxCreate" 3020 => context::cuCtxCreate_v2;
    "cuCtxDestroy" 4000 => context::cuCtxDestroy_v2;
    "cuCtxSetCurrent" 4000 => context::cuCtxSetCurrent;
    "cuCtxPushCurrent" 4000 => context::cuCtxPushCurrent_v2;
    "cuCtxPopCurrent" 4000 => context::cuCtxPopCurrent_v2;
    "cuCtxGetCurrent" 4000 => context::cuCtxGetCurrent;
    "cuCtxGetDevice" 2000 => context::cuCtxGetDevice_v2;
    "cuCtxSynchronize" 13000 => context::cuCtxSynchronize_v2;
    "cuCtxSynchronize" 2000 => context::cuCtxSynchronize;
    "cuMemAlloc" 3020 => memory::cuMemAlloc_v2;
    "cuMemAllocPitch" 3020 => memory::cuMemAllocPitch_v2;
    "cuMemAllocManaged" 6000 => memory::cuMemAllocManaged;
    "cuMemFree" 3020 => memory::cuMemFree_v2;
    "cuMemGetInfo" 3020 => memory::cuMemGetInfo_v2;
    "cuMemAllocHost" 3020 => host::cuMemAllocHost_v2;
    "cuMemHostAlloc" 2020 => host::cuMemHostAlloc;
    "cuMemFreeHost" 2000 => host::cuMemFreeHost;
    "cuMemHostRegister" 6050 => host::cuMemHostRegister_v2;
    "cuMemHostUnregister" 4000 => host::cuMemHostUnregister;
    "cuArrayCreate" 3020 => array::cuArrayCreate_v2;
    "cuArray3DCreate" 3020 => array::cuArray3DCreate_v2;
    "cuArrayDestroy" 2000 => array::cuArrayDestroy;
    "cuMipmappedArrayCreate" 5000 => array::cuMipmappedArrayCreate;
    "cuMipmappedArrayDestroy" 5000 => array::cuMipmappedArrayDestroy;
    "cuMemAllocAsync" 11020 => pool::cuMemAllocAsync | 11020 => cuMemAllocAsync_ptsz;
    "cuMemAllocFromPoolAsync" 11020 => pool::cuMemAllocFromPoolAsync | 11020 => cuMemAllocFromPoolAsync_ptsz;
    "cuMemFreeAsync" 11020 => pool::cuMemFreeAsync | 11020 => cuMemFreeAsync_ptsz;
    "cuMemPoolCreate" 11020 => pool::cuMemPoolCreate;
    "cuMemPoolDestroy" 11020 => pool::cuMemPoolDestroy;
    "cuMemPoolTrimTo" 11020 => pool::cuMemPoolTrimTo;
    "cuMemPoolSetAttribute" 11020 => pool::cuMemPoolSetAttribute;
    "cuMemPoolGetAttribute" 11020 => pool::cuMemPoolGetAttribute;
    "cuMemPoolExportToShareableHandle" 11020 => pool::cuMemPoolExportToShareableHandle;
    "cuMemPoolImportFromShareableHandle" 11020 => pool::cuMemPoolImportFromShareableHandle;
    "cuMemPoolExportPointer" 11020 => pool::cuMemPoolExportPointer;
    "cuMemPoolImportPointer" 11020 => pool::cuMemPoolImportPointer;
    "cuDeviceGetDefaultMemPool" 11020 => pool::cuDeviceGetDefaultMemPool;
    "cuDeviceGetMemPool" 11020 => pool::cuDeviceGetMemPool;
    "cuDeviceSetMemPool" 11020 => pool::cuDeviceSetMemPool;
    "cuIpcGetMemHandle" 4010 => ipc::cuIpcGetMemHandle;
    "cuIpcOpenMemHandle" 11000 => ipc::cuIpcOpenMemHandle_v2;
    "cuIpcCloseMemHandle" 4010 => ipc::cuIpcCloseMemHandle;
    "cuMemAddressReserve" 10020 => vmm::cuMemAddressReserve;
    "cuMemAddressFree" 10020 => vmm::cuMemAddressFree;
    "cuMemCreate" 10020 => vmm::cuMemCreate;
    "cuMemRelease" 10020 => vmm::cuMemRelease;
    "cuMemRetainAllocationHandle" 11000 => vmm::cuMemRetainAllocationHandle;
    "cuMemMap" 10020 => vmm::cuMemMap;
    "cuMemUnmap" 10020 => vmm::cuMemUnmap;
    "cuMemSetAccess" 10020 => vmm::cuMemSetAccess;
    "cuMemExportToShareableHandle" 10020 => vmm::cuMemExportToShareableHandle;
    "cuMemImportFromShareableHandle" 10020 => vmm::cuMemImportFromShareableHandle;
    "cuMulticastCreate" 12010 => multicast::cuMulticastCreate;
    "cuMulticastAddDevice" 12010 => multicast::cuMulticastAddDevice;
    "cuMulticastBindMem" 13010 => multicast::cuMulticastBindMem_v2;
    "cuMulticastBindMem" 12010 => multicast::cuMulticastBindMem;
    "cuMulticastBindAddr" 13010 => multicast::cuMulticastBindAddr_v2;
    "cuMulticastBindAddr" 12010 => multicast::cuMulticastBindAddr;
    "cuMulticastUnbind" 12010 => multicast::cuMulticastUnbind;
    "cuDeviceGraphMemTrim" 11040 => graph_memory::cuDeviceGraphMemTrim;
    "cuGraphAddMemAllocNode" 11040 => graph_memory::cuGraphAddMemAllocNode;
    "cuGraphAddMemFreeNode" 11040 => graph_memory::cuGraphAddMemFreeNode;
    "cuGraphCreate" 10000 => graph::cuGraphCreate;
    "cuGraphGetNodes" 10000 => graph::cuGraphGetNodes;
    "cuGraphInstantiate" 11000 => graph::cuGraphInstantiate_v2;
    "cuGraphInstantiateWithFlags" 11040 => graph::cuGraphInstantiateWithFlags;
    "cuGraphInstantiateWithParams" 12000 => graph::cuGraphInstantiateWithParams | 12000 => cuGraphInstantiateWithParams_ptsz;
    "cuGraphLaunch" 10000 => graph::cuGraphLaunch | 10000 => cuGraphLaunch_ptsz;
    "cuGraphUpload" 11010 => graph::cuGraphUpload | 11010 => cuGraphUpload_ptsz;
    "cuGraphExecUpdate" 12000 => graph::cuGraphExecUpdate_v2;
    "cuGraphExecUpdate" 10020 => graph::cuGraphExecUpdate;
    "cuGraphDestroy" 10000 => graph::cuGraphDestroy;
    "cuGraphExecDestroy" 10000 => graph::cuGraphExecDestroy;
    "cuStreamBeginCapture" 10010 => capture::cuStreamBeginCapture_v2 | 10010 => cuStreamBeginCapture_v2_ptsz;
    "cuStreamBeginCaptureToGraph" 12030 => capture::cuStreamBeginCaptureToGraph | 12030 => cuStreamBeginCaptureToGraph_ptsz;
    "cuStreamEndCapture" 10000 => capture::cuStreamEndCapture | 10000 => cuStreamEndCapture_ptsz;
    "cuStreamIsCapturing" 10000 => capture::cuStreamIsCapturing;
    "cuThreadExchangeStreamCaptureMode" 10010 => capture::cuThreadExchangeStreamCaptureMode;
    "cuStreamCreate" 2000 => stream::cuStreamCreate;
    "cuStreamCreateWithPriority" 5050 => stream::cuStreamCreateWithPriority;
    "cuStreamDestroy" 4000 => stream::cuStreamDestroy_v2;
    "cuStreamSynchronize" 2000 => stream::cuStreamSynchronize | 7000 => cuStreamSynchronize_ptsz;
    "cuStreamQuery" 2000 => stream::cuStreamQuery;
    "cuStreamWaitEvent" 3020 => stream::cuStreamWaitEvent | 7000 => cuStreamWaitEvent_ptsz;
    "cuEventCreate" 2000 => stream::cuEventCreate;
    "cuEventDestroy" 4000 => stream::cuEventDestroy_v2;
    "cuEventRecord" 2000 => stream::cuEventRecord | 7000 => cuEventRecord_ptsz;
    "cuEventRecordWithFlags" 11010 => stream::cuEventRecordWithFlags | 11010 => cuEventRecordWithFlags_ptsz;
    "cuEventQuery" 2000 => stream::cuEventQuery;
    "cuEventSynchronize" 2000 => stream::cuEventSynchronize;
    "cuLaunchKernel" 4000 => launch::cuLaunchKernel | 7000 => cuLaunchKernel_ptsz;
    "cuLaunchKernelEx" 11060 => launch::cuLaunchKernelEx | 11060 => cuLaunchKernelEx_ptsz;
    "cuLaunchCooperativeKernel" 9000 => launch::cuLaunchCooperativeKernel | 9000 => cuLaunchCooperativeKernel_ptsz;
    "cuLaunchHostFunc" 13010 => launch::cuLaunchHostFunc_v2 | 13010 => cuLaunchHostFunc_v2_ptsz;
    "cuLaunchHostFunc" 10000 => launch::cuLaunchHostFunc | 10000 => cuLaunchHostFunc_ptsz;
    "cuMemcpy" 4000 => copy::cuMemcpy | 7000 => cuMemcpy_ptds;
    "cuMemcpyAsync" 4000 => copy::cuMemcpyAsync | 7000 => cuMemcpyAsync_ptsz;
    "cuMemcpyWithAttributesAsync" 13020 => copy::cuMemcpyWithAttributesAsync | 13020 => cuMemcpyWithAttributesAsync_ptsz;
    "cuMemcpyPeer" 4000 => copy::cuMemcpyPeer | 7000 => cuMemcpyPeer_ptds;
    "cuMemcpyPeerAsync" 4000 => copy::cuMemcpyPeerAsync | 7000 => cuMemcpyPeerAsync_ptsz;
    "cuMemcpyHtoD" 3020 => copy::cuMemcpyHtoD_v2 | 7000 => cuMemcpyHtoD_v2_ptds;
    "cuMemcpyDtoH" 3020 => copy::cuMemcpyDtoH_v2 | 7000 => cuMemcpyDtoH_v2_ptds;
    "cuMemcpyDtoD" 3020 => copy::cuMemcpyDtoD_v2 | 7000 => cuMemcpyDtoD_v2_ptds;
    "cuMemcpyHtoDAsync" 3020 => copy::cuMemcpyHtoDAsync_v2 | 7000 => cuMemcpyHtoDAsync_v2_ptsz;
    "cuMemcpyDtoHAsync" 3020 => copy::cuMemcpyDtoHAsync_v2 | 7000 => cuMemcpyDtoHAsync_v2_ptsz;
    "cuMemcpyDtoDAsync" 3020 => copy::cuMemcpyDtoDAsync_v2 | 7000 => cuMemcpyDtoDAsync_v2_ptsz;
    "cuMemcpy2D" 3020 => copy_shaped::cuMemcpy2D_v2 | 7000 => cuMemcpy2D_v2_ptds;
    "cuMemcpy2DUnaligned" 3020 => copy_shaped::cuMemcpy2DUnaligned_v2 | 7000 => cuMemcpy2DUnaligned_v2_ptds;
    "cuMemcpy2DAsync" 3020 => copy_shaped::cuMemcpy2DAsync_v2 | 7000 => cuMemcpy2DAsync_v2_ptsz;
    "cuMemcpy3D" 3020 => copy_shaped::cuMemcpy3D_v2 | 7000 => cuMemcpy3D_v2_ptds;
    "cuMemcpy3DAsync" 3020 => copy_shaped::cuMemcpy3DAsync_v2 | 7000 => cuMemcpy3DAsync_v2_ptsz;
    "cuMemcpy3DPeer" 4000 => copy_shaped::cuMemcpy3DPeer | 7000 => cuMemcpy3DPeer_ptds;
    "cuMemcpy3DPeerAsync" 4000 => copy_shaped::cuMemcpy3DPeerAsync | 7000 => cuMemcpy3DPeerAsync_ptsz;
    "cuMemcpy3DWithAttributesAsync" 13020 => copy_shaped::cuMemcpy3DWithAttributesAsync | 13020 => cuMemcpy3DWithAttributesAsync_ptsz;
    "cuMemcpyDtoA" 3020 => copy_shaped::cuMemcpyDtoA_v2 | 7000 => cuMemcpyDtoA_v2_ptds;
    "cuMemcpyAtoD" 3020 => copy_shaped::cuMemcpyAtoD_v2 | 7000 => cuMemcpyAtoD_v2_ptds;
    "cuMemcpyHtoA" 3020 => copy_shaped::cuMemcpyHtoA_v2 | 7000 => cuMemcpyHtoA_v2_ptds;
    "cuMemcpyHtoAAsync" 3020 => copy_shaped::cuMemcpyHtoAAsync_v2 | 7000 => cuMemcpyHtoAAsync_v2_ptsz;
    "cuMemcpyAtoH" 3020 => copy_shaped::cuMemcpyAtoH_v2 | 7000 => cuMemcpyAtoH_v2_ptds;
    "cuMemcpyAtoHAsync" 3020 => copy_shaped::cuMemcpyAtoHAsync_v2 | 7000 => cuMemcpyAtoHAsync_v2_ptsz;
    "cuMemcpyAtoA" 3020 => copy_shaped::cuMemcpyAtoA_v2 | 7000 => cuMemcpyAtoA_v2_ptds;
    "cuMemcpyBatchAsync" 13000 => copy_batch::cuMemcpyBatchAsync_v2 | 13000 => cuMemcpyBatchAsync_v2_ptsz;
    "cuMemcpyBatchAsync" 12080 => copy_batch::cuMemcpyBatchAsync | 12080 => cuMemcpyBatchAsync_ptsz;
    "cuMemcpy3DBatchAsync" 13000 => copy_batch::cuMemcpy3DBatchAsync_v2 | 13000 => cuMemcpy3DBatchAsync_v2_ptsz;
    "cuMemcpy3DBatchAsync" 12080 => copy_batch::cuMemcpy3DBatchAsync | 12080 => cuMemcpy3DBatchAsync_ptsz;
    "cuMemsetD8" 3020 => set::cuMemsetD8_v2 | 7000 => cuMemsetD8_v2_ptds;
    "cuMemsetD8Async" 3020 => set::cuMemsetD8Async | 7000 => cuMemsetD8Async_ptsz;
    "cuMemsetD16" 3020 => set::cuMemsetD16_v2 | 7000 => cuMemsetD16_v2_ptds;
    "cuMemsetD16Async" 3020 => set::cuMemsetD16Async | 7000 => cuMemsetD16Async_ptsz;
    "cuMemsetD32" 3020 => set::cuMemsetD32_v2 | 7000 => cuMemsetD32_v2_ptds;
    "cuMemsetD32Async" 3020 => set::cuMemsetD32Async | 7000 => cuMemsetD32Async_ptsz;
    "cuMemsetD2D8" 3020 => set::cuMemsetD2D8_v2 | 7000 => cuMemsetD2D8_v2_ptds;
    "cuMemsetD2D8Async" 3020 => set::cuMemsetD2D8Async | 7000 => cuMemsetD2D8Async_ptsz;
    "cuMemsetD2D16" 3020 => set::cuMemsetD2D16_v2 | 7000 => cuMemsetD2D16_v2_ptds;
    "cuMemsetD2D16Async" 3020 => set::cuMemsetD2D16Async | 7000 => cuMemsetD2D16Async_ptsz;
    "cuMemsetD2D32" 3020 => set::cuMemsetD2D32_v2 | 7000 => cuMemsetD2D32_v2_ptds;
    "cuMemsetD2D32Async" 3020 => set::cuMemsetD2D32Async | 7000 => cuMemsetD2D32Async_ptsz;
    "cuModuleLoadData" 2000 => module::cuModuleLoadData;
    "cuModuleLoad" 2000 => module::cuModuleLoad;
    "cuModuleLoadDataEx" 2010 => module::cuModuleLoadDataEx;
    "cuModuleLoadFatBinary" 2000 => module::cuModuleLoadFatBinary;
    "cuModuleEnumerateFunctions" 12040 => module::cuModuleEnumerateFunctions;
    "cuModuleUnload" 2000 => module::cuModuleUnload;
    "cuModuleGetGlobal" 3020 => module::cuModuleGetGlobal_v2;
    "cuLibraryGetGlobal" 12000 => module::cuLibraryGetGlobal;
    "cuModuleGetFunction" 2000 => module::cuModuleGetFunction;
    "cuLibraryLoadData" 12000 => module::cuLibraryLoadData;
    "cuLibraryLoadFromFile" 12000 => module::cuLibraryLoadFromFile;
    "cuLibraryGetModule" 12000 => module::cuLibraryGetModule;
    "cuLibraryEnumerateKernels" 12040 => module::cuLibraryEnumerateKernels;
    "cuLibraryUnload" 12000 => module::cuLibraryUnload;
    "cuLibraryGetKernel" 12000 => module::cuLibraryGetKernel;
    "cuKernelGetFunction" 12000 => module::cuKernelGetFunction;
    "cuKernelGetName" 12030 => module::cuKernelGetName;
    "cuFuncGetName" 12030 => module::cuFuncGetName;
    "cuGetProcAddress" 12000 => own::cuGetProcAddress_v2;
    "cuGetProcAddress" 11030 => own::cuGetProcAddress;
};

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
