//! The probe table: the single source for attaching, decoding, `cudasnoop probes`,
//! docs/probes.md, coverage and the completeness tests.
//!
//! Names, signatures and twins are those of the CUDA 11.7 to 13.5 headers and libraries;
//! a symbol that a library lacks is normal and is listed as missing, never an error.

use crate::api::{
    Api, ApiId, Defaults,
    Effect::{self, Copy, DeviceAlloc, DeviceFree, GraphLaunch, KernelLookup, Launch, Wait},
    Family, Layer, Probe, Shape,
};

/// Capacity of the kernel's per-function arrays; [`APIS`] stays below it.
pub const MAX_APIS: u32 = 256;

/// The row of the per-function arrays that no function has: there stands what concerns
/// processes rather than calls.
pub const TASKS: ApiId = ApiId(255);

const _: () = assert!(TASKS.0 as u32 == MAX_APIS - 1);

/// Every traced function.
pub static APIS: &[Api] = &[
    // Device memory.
    runtime(
        "cudaMalloc",
        &["cudaMalloc"],
        Family::Memory,
        DeviceAlloc,
        Shape::Alloc,
        Probe::Return,
    )
    .doc("Allocates device memory"),
    runtime(
        "cudaFree",
        &["cudaFree"],
        Family::Memory,
        DeviceFree,
        Shape::Free,
        Probe::EntryAndReturn,
    )
    .doc("Frees device memory"),
    runtime(
        "cudaMemGetInfo",
        &["cudaMemGetInfo"],
        Family::Memory,
        Effect::MemoryInfo,
        Shape::MemoryInfo,
        Probe::Return,
    )
    .doc("Asks how much device memory is free"),
    runtime(
        "cudaSetDevice",
        &["cudaSetDevice"],
        Family::Memory,
        Effect::SelectDevice,
        Shape::SelectDevice,
        Probe::Return,
    )
    .doc("Chooses the device of the calling thread"),
    driver(
        "cuMemAlloc_v2",
        &["cuMemAlloc_v2"],
        Family::Memory,
        DeviceAlloc,
        Shape::Alloc,
        Probe::Return,
    )
    .doc("Allocates device memory"),
    driver(
        "cuMemFree_v2",
        &["cuMemFree_v2"],
        Family::Memory,
        DeviceFree,
        Shape::Free,
        Probe::EntryAndReturn,
    )
    .doc("Frees device memory"),
    driver(
        "cuMemGetInfo_v2",
        &["cuMemGetInfo_v2"],
        Family::Memory,
        Effect::MemoryInfo,
        Shape::MemoryInfo,
        Probe::Return,
    )
    .doc("Asks how much device memory is free"),
    // Launches. `__cudaLaunchKernel` jumps to `cudaLaunchKernel`: probing it too would count twice.
    runtime(
        "cudaLaunchKernel",
        &["cudaLaunchKernel", "cudaLaunchKernel_ptsz"],
        Family::Launch,
        Launch,
        Shape::LaunchRuntime,
        Probe::Entry,
    )
    .doc("Launches a kernel"),
    runtime(
        "cudaLaunchKernelExC",
        &["cudaLaunchKernelExC", "cudaLaunchKernelExC_ptsz"],
        Family::Launch,
        Launch,
        Shape::LaunchRuntimeEx,
        Probe::Entry,
    )
    .since(11080)
    .doc("Launches a kernel with attributes, such as clusters"),
    runtime(
        "cudaLaunchCooperativeKernel",
        &[
            "cudaLaunchCooperativeKernel",
            "cudaLaunchCooperativeKernel_ptsz",
        ],
        Family::Launch,
        Launch,
        Shape::LaunchRuntime,
        Probe::Entry,
    )
    .doc("Launches a kernel whose blocks may wait for each other"),
    driver(
        "cuLaunchKernel",
        &["cuLaunchKernel", "cuLaunchKernel_ptsz"],
        Family::Launch,
        Launch,
        Shape::LaunchDriver,
        Probe::Entry,
    )
    .doc("Launches a kernel"),
    driver(
        "cuLaunchKernelEx",
        &["cuLaunchKernelEx", "cuLaunchKernelEx_ptsz"],
        Family::Launch,
        Launch,
        Shape::LaunchDriverEx,
        Probe::Entry,
    )
    .since(11060)
    .doc("Launches a kernel with attributes; Triton and cuBLAS use it"),
    driver(
        "cuLaunchCooperativeKernel",
        &[
            "cuLaunchCooperativeKernel",
            "cuLaunchCooperativeKernel_ptsz",
        ],
        Family::Launch,
        Launch,
        Shape::LaunchDriver,
        Probe::Entry,
    )
    .doc("Launches a kernel whose blocks may wait for each other"),
    // Graphs.
    runtime(
        "cudaGraphLaunch",
        &["cudaGraphLaunch", "cudaGraphLaunch_ptsz"],
        Family::Graph,
        GraphLaunch,
        Shape::GraphLaunch,
        Probe::Return,
    )
    .doc("Launches a graph; the kernels inside it make no calls of their own"),
    driver(
        "cuGraphLaunch",
        &["cuGraphLaunch", "cuGraphLaunch_ptsz"],
        Family::Graph,
        GraphLaunch,
        Shape::GraphLaunch,
        Probe::Return,
    )
    .doc("Launches a graph; the kernels inside it make no calls of their own"),
    // Copies.
    runtime(
        "cudaMemcpy",
        &["cudaMemcpy", "cudaMemcpy_ptds"],
        Family::Copy,
        Copy,
        Shape::CopyKind,
        Probe::Return,
    )
    .doc("Copies; returns when done"),
    runtime(
        "cudaMemcpyAsync",
        &["cudaMemcpyAsync", "cudaMemcpyAsync_ptsz"],
        Family::Copy,
        Copy,
        Shape::CopyKindStream,
        Probe::Return,
    )
    .doc("Copies in a stream; with pageable host memory it blocks all the same"),
    driver(
        "cuMemcpy",
        &["cuMemcpy", "cuMemcpy_ptds"],
        Family::Copy,
        Copy,
        Shape::Copy,
        Probe::Return,
    )
    .doc("Copies, direction by address"),
    driver(
        "cuMemcpyAsync",
        &["cuMemcpyAsync", "cuMemcpyAsync_ptsz"],
        Family::Copy,
        Copy,
        Shape::CopyStream,
        Probe::Return,
    )
    .doc("Copies in a stream, direction by address"),
    driver(
        "cuMemcpyHtoD_v2",
        &["cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"],
        Family::Copy,
        Copy,
        Shape::Copy,
        Probe::Return,
    )
    .doc("Copies from host to device"),
    driver(
        "cuMemcpyDtoH_v2",
        &["cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2_ptds"],
        Family::Copy,
        Copy,
        Shape::Copy,
        Probe::Return,
    )
    .doc("Copies from device to host"),
    driver(
        "cuMemcpyDtoD_v2",
        &["cuMemcpyDtoD_v2", "cuMemcpyDtoD_v2_ptds"],
        Family::Copy,
        Copy,
        Shape::Copy,
        Probe::Return,
    )
    .doc("Copies from device to device"),
    driver(
        "cuMemcpyHtoDAsync_v2",
        &["cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2_ptsz"],
        Family::Copy,
        Copy,
        Shape::CopyStream,
        Probe::Return,
    )
    .doc("Copies from host to device in a stream"),
    driver(
        "cuMemcpyDtoHAsync_v2",
        &["cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync_v2_ptsz"],
        Family::Copy,
        Copy,
        Shape::CopyStream,
        Probe::Return,
    )
    .doc("Copies from device to host in a stream"),
    driver(
        "cuMemcpyDtoDAsync_v2",
        &["cuMemcpyDtoDAsync_v2", "cuMemcpyDtoDAsync_v2_ptsz"],
        Family::Copy,
        Copy,
        Shape::CopyStream,
        Probe::Return,
    )
    .doc("Copies from device to device in a stream"),
    // Waits.
    runtime(
        "cudaDeviceSynchronize",
        &["cudaDeviceSynchronize"],
        Family::Sync,
        Wait,
        Shape::WaitDevice,
        Probe::Return,
    )
    .doc("Waits until the device is idle"),
    runtime(
        "cudaStreamSynchronize",
        &["cudaStreamSynchronize", "cudaStreamSynchronize_ptsz"],
        Family::Sync,
        Wait,
        Shape::WaitStream,
        Probe::Return,
    )
    .doc("Waits until a stream is idle"),
    runtime(
        "cudaEventSynchronize",
        &["cudaEventSynchronize"],
        Family::Sync,
        Wait,
        Shape::WaitEvent,
        Probe::Return,
    )
    .doc("Waits for an event"),
    driver(
        "cuCtxSynchronize",
        &["cuCtxSynchronize"],
        Family::Sync,
        Wait,
        Shape::WaitDevice,
        Probe::Return,
    )
    .doc("Waits until the current context is idle"),
    driver(
        "cuCtxSynchronize_v2",
        &["cuCtxSynchronize_v2"],
        Family::Sync,
        Wait,
        Shape::WaitDevice,
        Probe::Return,
    )
    .since(13000)
    .doc("Waits until a context is idle"),
    driver(
        "cuStreamSynchronize",
        &["cuStreamSynchronize", "cuStreamSynchronize_ptsz"],
        Family::Sync,
        Wait,
        Shape::WaitStream,
        Probe::Return,
    )
    .doc("Waits until a stream is idle"),
    driver(
        "cuEventSynchronize",
        &["cuEventSynchronize"],
        Family::Sync,
        Wait,
        Shape::WaitEvent,
        Probe::Return,
    )
    .doc("Waits for an event"),
    // Kernel handles and their names.
    driver(
        "cuModuleGetFunction",
        &["cuModuleGetFunction"],
        Family::Module,
        KernelLookup,
        Shape::KernelByName,
        Probe::Return,
    )
    .doc("Looks up a kernel of a module by name"),
    driver(
        "cuLibraryGetKernel",
        &["cuLibraryGetKernel"],
        Family::Module,
        KernelLookup,
        Shape::KernelByName,
        Probe::Return,
    )
    .since(12000)
    .doc("Looks up a kernel of a library by name"),
    driver(
        "cuKernelGetFunction",
        &["cuKernelGetFunction"],
        Family::Module,
        KernelLookup,
        Shape::KernelFunction,
        Probe::Return,
    )
    .since(12000)
    .doc("Gives the function handle of a kernel handle"),
    driver(
        "cuKernelGetName",
        &["cuKernelGetName"],
        Family::Module,
        KernelLookup,
        Shape::KernelName,
        Probe::Return,
    )
    .since(12030)
    .doc("Gives the name of a kernel handle"),
    driver(
        "cuFuncGetName",
        &["cuFuncGetName"],
        Family::Module,
        KernelLookup,
        Shape::KernelName,
        Probe::Return,
    )
    .since(12030)
    .doc("Gives the name of a function handle"),
    // PyTorch's caching allocator, from outside: libc10 calls these two on every allocation and
    // free, profiler or not.
    torch(
        "c10::reportMemoryUsageToProfiler",
        &["_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"],
        Shape::TorchReport,
    )
    .doc("PyTorch allocated or freed a block; with its totals"),
    torch(
        "c10::reportOutOfMemoryToProfiler",
        &["_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"],
        Shape::TorchOutOfMemory,
    )
    .doc("PyTorch ran out of memory; with its totals"),
];

const fn row(
    layer: Layer,
    name: &'static str,
    symbols: &'static [&'static str],
    family: Family,
    effect: Effect,
    shape: Shape,
    probe: Probe,
) -> Api {
    Api {
        name,
        symbols,
        layer,
        family,
        effect,
        shape,
        probe,
        defaults: Defaults::On,
        since: 0,
        doc: "",
    }
}

const fn runtime(
    name: &'static str,
    symbols: &'static [&'static str],
    family: Family,
    effect: Effect,
    shape: Shape,
    probe: Probe,
) -> Api {
    row(Layer::Runtime, name, symbols, family, effect, shape, probe)
}

const fn driver(
    name: &'static str,
    symbols: &'static [&'static str],
    family: Family,
    effect: Effect,
    shape: Shape,
    probe: Probe,
) -> Api {
    row(Layer::Driver, name, symbols, family, effect, shape, probe)
}

const fn torch(name: &'static str, symbols: &'static [&'static str], shape: Shape) -> Api {
    row(
        Layer::Torch,
        name,
        symbols,
        Family::Torch,
        Effect::TorchReport,
        shape,
        Probe::Entry,
    )
}

impl Api {
    const fn since(self, since: u16) -> Self {
        Self { since, ..self }
    }

    const fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::Twin;

    #[test]
    fn names_and_symbols_are_unique_and_documented() {
        let mut names = HashSet::new();
        let mut symbols = HashSet::new();
        for api in APIS {
            assert!(names.insert(api.name), "{} twice", api.name);
            assert!(
                !api.doc.is_empty() && !api.doc.ends_with('.'),
                "{}: doc line",
                api.name
            );
            for symbol in api.symbols {
                assert!(symbols.insert(symbol), "{symbol} twice");
            }
        }
        assert!(APIS.len() < usize::try_from(MAX_APIS).expect("small"));
    }

    #[test]
    fn only_the_last_symbol_may_be_a_twin() {
        for api in APIS {
            let plain = api
                .symbols
                .iter()
                .filter(|s| Twin::of_symbol(s) == Twin::Plain)
                .count();
            assert_eq!(plain, 1, "{}", api.name);
            assert_eq!(Twin::of_symbol(api.symbols[0]), Twin::Plain, "{}", api.name);
        }
    }

    #[test]
    fn the_probed_symbol_is_never_the_jumping_one() {
        assert!(
            APIS.iter()
                .flat_map(|api| api.symbols)
                .all(|s| *s != "__cudaLaunchKernel")
        );
    }

    #[test]
    fn directions_come_from_names() {
        let kind = |name: &str| {
            APIS.iter()
                .find(|api| api.name == name)
                .and_then(Api::copy_kind)
        };
        assert_eq!(kind("cuMemcpyHtoD_v2"), Some(1));
        assert_eq!(kind("cuMemcpyDtoHAsync_v2"), Some(2));
        assert_eq!(kind("cuMemcpyDtoD_v2"), Some(3));
        assert_eq!(kind("cuMemcpy"), Some(4));
        assert_eq!(kind("cuMemcpyAsync"), Some(4));
        assert_eq!(kind("cudaMemcpy"), None);
    }
}
