//! Functions that are left out of the probe table, by decision.

/// Why a function has no probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unprobed {
    /// It asks, and changes nothing; some are called before every launch.
    Question,
    /// It works for a call that has a probe.
    Part,
    /// The form that CUDA had before version 3.2, with 32-bit sizes: no program of today calls it.
    Ancient,
    /// Kernels on several devices, and launches without a size: removed, or replaced, long ago.
    Abandoned,
    /// Graphics: memory that belongs to OpenGL, EGL, VDPAU or Vulkan.
    Graphics,
    /// Textures and surfaces are views of memory, not memory.
    View,
    /// Nodes of a graph, put there one by one.
    GraphNode,
    /// Where managed memory stands, now or later.
    Residence,
    /// Waits and writes of streams, by values in memory.
    StreamValue,
    /// Nothing is said of it here.
    Other,
}

impl Unprobed {
    /// What becomes of functions that have no row in the table, by their name.
    pub fn of(name: &str) -> Self {
        let has = |part: &str| name.contains(part);
        let base = name.trim_end_matches("_ptsz").trim_end_matches("_ptds");
        if ANCIENT.contains(&base) {
            Self::Ancient
        } else if ["GL", "EGL", "VDPAU", "Graphics", "External"]
            .iter()
            .any(|part| has(part))
        {
            Self::Graphics
        } else if ["MultiDevice", "cuLaunchGrid", "cuParam"]
            .iter()
            .any(|part| has(part))
            || matches!(
                base,
                "cuLaunch" | "cuFuncSetBlockShape" | "cuFuncSetSharedSize"
            )
        {
            Self::Abandoned
        } else if [
            "TexRef",
            "SurfRef",
            "TexObject",
            "SurfObject",
            "Texture",
            "Surface",
        ]
        .iter()
        .any(|part| has(part))
        {
            Self::View
        } else if ["Prefetch", "Advise", "Discard", "AttachMem"]
            .iter()
            .any(|part| has(part))
        {
            Self::Residence
        } else if ["WaitValue", "WriteValue", "BatchMemOp"]
            .iter()
            .any(|part| has(part))
        {
            Self::StreamValue
        } else if has("Get")
            || [
                "Query",
                "CanAccess",
                "Peek",
                "IsCapturing",
                "Occupancy",
                "Logs",
                "Elapsed",
            ]
            .iter()
            .any(|part| has(part))
        {
            Self::Question
        } else if has("Graph") {
            Self::GraphNode
        } else if matches!(name, "__cudaLaunchKernel" | "__cudaLaunchKernel_ptsz")
            || has("CallConfiguration")
        {
            Self::Part
        } else {
            Self::Other
        }
    }

    /// All, what leaves most unseen first.
    pub const ALL: [Self; 10] = [
        Self::Graphics,
        Self::GraphNode,
        Self::Residence,
        Self::StreamValue,
        Self::Abandoned,
        Self::Ancient,
        Self::View,
        Self::Other,
        Self::Part,
        Self::Question,
    ];

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Part => "part",
            Self::Ancient => "ancient",
            Self::Abandoned => "abandoned",
            Self::Graphics => "graphics",
            Self::View => "view",
            Self::GraphNode => "graph_node",
            Self::Residence => "residence",
            Self::StreamValue => "stream_value",
            Self::Other => "other",
        }
    }

    /// What it leaves unseen, in a sentence.
    pub const fn leaves(self) -> &'static str {
        match self {
            Self::Question => "nothing: they ask, and change nothing",
            Self::Part => "nothing: they work for calls that are probed",
            Self::Ancient => "calls of programs built before CUDA 3.2, with 32-bit sizes",
            Self::Abandoned => "launches in forms that CUDA 13 no longer has",
            Self::Graphics => "memory of graphics libraries that CUDA maps; no CUDA call took it",
            Self::View => "nothing: textures and surfaces are views of memory",
            Self::GraphNode => {
                "what is put into a graph node by node; the graph's launches are seen"
            }
            Self::Residence => "where managed memory stands; its allocation is seen",
            Self::StreamValue => "waits of streams for values in memory; the host goes on",
            Self::Other => "no memory, launch, copy or wait that is known of",
        }
    }
}

/// Names that got a `_v2` with CUDA 3.2 or 4.0, by which all later programs call them (cuda.h).
const ANCIENT: &[&str] = &[
    "cuArray3DCreate",
    "cuArray3DGetDescriptor",
    "cuArrayCreate",
    "cuArrayGetDescriptor",
    "cuCtxAttach",
    "cuCtxCreate",
    "cuCtxDestroy",
    "cuCtxDetach",
    "cuCtxPopCurrent",
    "cuCtxPushCurrent",
    "cuDevicePrimaryCtxSetFlags",
    "cuDeviceTotalMem",
    "cuEventDestroy",
    "cuGraphInstantiate",
    "cuIpcOpenMemHandle",
    "cuMemAlloc",
    "cuMemAllocHost",
    "cuMemAllocPitch",
    "cuMemFree",
    "cuMemGetAddressRange",
    "cuMemGetInfo",
    "cuMemHostGetDevicePointer",
    "cuMemHostRegister",
    "cuMemcpy2D",
    "cuMemcpy2DAsync",
    "cuMemcpy2DUnaligned",
    "cuMemcpy3D",
    "cuMemcpy3DAsync",
    "cuMemcpyAtoA",
    "cuMemcpyAtoD",
    "cuMemcpyAtoH",
    "cuMemcpyAtoHAsync",
    "cuMemcpyDtoA",
    "cuMemcpyDtoD",
    "cuMemcpyDtoDAsync",
    "cuMemcpyDtoH",
    "cuMemcpyDtoHAsync",
    "cuMemcpyHtoA",
    "cuMemcpyHtoAAsync",
    "cuMemcpyHtoD",
    "cuMemcpyHtoDAsync",
    "cuMemsetD16",
    "cuMemsetD2D16",
    "cuMemsetD2D32",
    "cuMemsetD2D8",
    "cuMemsetD32",
    "cuMemsetD8",
    "cuModuleGetGlobal",
    "cuStreamBeginCapture",
    "cuStreamDestroy",
];
