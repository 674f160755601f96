//! The vocabulary of the probe table: one [`Api`] per CUDA or PyTorch function.

use crate::{value::Value, windows::ProbeClass};

/// Index of a function in [`crate::APIS`].
///
/// Stable only within one build: recordings name functions, they do not number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ApiId(pub u16);

impl ApiId {
    /// The table row, or `None` for an id that this build does not know (a damaged record).
    pub fn api(self) -> Option<&'static Api> {
        crate::APIS.get(usize::from(self.0))
    }

    /// All ids, in table order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0u16..).take(crate::APIS.len()).map(ApiId)
    }

    /// The function with this name (its table name, without a twin's suffix).
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().find(|id| crate::APIS[usize::from(id.0)].name == name)
    }
}

/// The library that a function belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Layer {
    /// `libcudart.so`: what the program meant.
    Runtime = 0,
    /// `libcuda.so`: what everything, static runtimes included, ends in.
    Driver = 1,
    /// `libc10.so`: PyTorch's caching allocator.
    Torch = 2,
}

/// What users select with `--events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Family {
    /// Memory: allocation and release of every kind, and how much is free.
    Memory = 0,
    /// Kernel launches.
    Launch = 1,
    /// CUDA graphs, and their capture.
    Graph = 2,
    /// Copies, and sets.
    Copy = 3,
    /// Waits: of the host for the device, of a stream for an event.
    Sync = 4,
    /// Device code: loading it, kernel handles and their names.
    Module = 5,
    /// PyTorch's caching allocator.
    Torch = 6,
    /// Contexts, and which device is which.
    Device = 7,
}

/// What a call brings about. A driver call inside a runtime call of the same
/// effect is the same call, and is folded into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Effect {
    /// Device memory is taken.
    DeviceAlloc = 0,
    /// Device or managed memory is given back.
    DeviceFree = 1,
    /// Memory that host and device share is taken.
    ManagedAlloc = 2,
    /// Pinned host memory is taken.
    HostAlloc = 3,
    /// Pinned host memory is given back.
    HostFree = 4,
    /// Host memory of the program is pinned.
    HostRegister = 5,
    /// That ends.
    HostUnregister = 6,
    /// Memory of a pool is taken, in stream order.
    PoolAlloc = 7,
    /// Memory of a pool is given back, in stream order.
    PoolFree = 8,
    /// Device memory of opaque layout is taken.
    ArrayAlloc = 9,
    /// That is given back.
    ArrayFree = 10,
    /// A memory pool is made.
    PoolCreate = 11,
    /// A memory pool is ended.
    PoolDestroy = 12,
    /// A memory pool gives unused memory back to the device.
    PoolTrim = 13,
    /// A memory pool is set up: how much unused memory it may keep.
    PoolSet = 14,
    /// A device's memory pool is asked for, or chosen.
    PoolLookup = 15,
    /// A memory pool is shown to other processes.
    PoolExport = 16,
    /// Another process's memory pool is opened.
    PoolImport = 17,
    /// Memory of a shared pool is shown to other processes.
    PoolPointerExport = 18,
    /// Another process's memory of a shared pool is opened.
    PoolPointerImport = 19,
    /// The device's free memory is asked for.
    MemoryInfo = 20,
    /// The device takes back unused memory of graphs.
    GraphMemoryTrim = 21,
    /// Addresses are reserved. Takes no memory.
    AddressReserve = 22,
    /// Reserved addresses are given back.
    AddressFree = 23,
    /// Physical memory is taken, without an address.
    PhysicalCreate = 24,
    /// A reference to physical memory is given up.
    PhysicalRelease = 25,
    /// A reference to physical memory is added.
    PhysicalRetain = 26,
    /// Physical memory is put at reserved addresses.
    Map = 27,
    /// It is taken away from there.
    Unmap = 28,
    /// A device may now use mapped memory.
    SetAccess = 29,
    /// Physical memory is shown to other processes.
    PhysicalExport = 30,
    /// Another process's physical memory is opened.
    PhysicalImport = 31,
    /// Memory that several devices share is set up or taken down.
    Multicast = 32,
    /// A block is shown to other processes.
    IpcExport = 33,
    /// Another process's block is opened.
    IpcOpen = 34,
    /// That ends.
    IpcClose = 35,
    /// The calling thread's device is chosen.
    SelectDevice = 36,
    /// A context is put on the calling thread's stack.
    ContextPush = 37,
    /// It is taken off.
    ContextPop = 38,
    /// A reference to a device's primary context is taken.
    ContextRetain = 39,
    /// It is given up: the last one ends the context and frees its memory.
    ContextRelease = 40,
    /// A context is made.
    ContextCreate = 41,
    /// A context is ended, and its memory freed.
    ContextDestroy = 42,
    /// A device's primary context is ended, and its memory freed.
    ContextReset = 43,
    /// A device's UUID or bus id is asked for.
    DeviceIdentity = 44,
    /// A kernel is launched.
    Launch = 45,
    /// A function of the host is put into a stream.
    HostFunction = 46,
    /// What a stream is given goes into a graph from now on.
    CaptureBegin = 47,
    /// That ends: the graph is complete.
    CaptureEnd = 48,
    /// An event is put into a stream.
    EventRecord = 49,
    /// A stream waits for an event.
    StreamWait = 50,
    /// A graph is made ready to launch.
    GraphInstantiate = 51,
    /// A graph is launched.
    GraphLaunch = 52,
    /// A graph is moved to the device ahead of its launch.
    GraphUpload = 53,
    /// A ready graph is changed.
    GraphUpdate = 54,
    /// A graph is ended.
    GraphDestroy = 55,
    /// A ready graph is ended.
    GraphExecDestroy = 56,
    /// The nodes of a graph are asked for.
    GraphNodes = 57,
    /// An allocation becomes part of a graph.
    GraphAlloc = 58,
    /// A free becomes part of a graph.
    GraphFree = 59,
    /// Bytes are copied.
    Copy = 60,
    /// Bytes are set.
    Set = 61,
    /// The host waits.
    Wait = 62,
    /// A kernel handle is looked up.
    KernelLookup = 63,
    /// Device code is loaded.
    ModuleLoad = 64,
    /// Device code is unloaded.
    ModuleUnload = 65,
    /// A kernel of the program is made known to the runtime. No event: see [`crate::RecordKind::Registered`].
    Registration = 66,
    /// PyTorch reports on its allocator. Never nested.
    TorchReport = 67,
    /// An error's name or text is asked for: the program has got that error.
    ErrorText = 68,
}

/// How a function's arguments are decoded.
///
/// Register positions are those of the System V x86-64 ABI, taken from the CUDA
/// 12.9 and 13.5 headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Shape {
    /// As [`Api::values`] say: one decoder for all.
    Values = 0,
    /// As `Values`, and the bytes are the sum of `size_t` sizes: value 0 points to them,
    /// value 1 counts them.
    CopyBatch = 1,
    /// As `Values`, and the bytes are the sum over operations of 112 bytes with an extent of
    /// three words at byte 80 (`cudaMemcpy3DBatchOp`): value 0 points to them, value 1 counts
    /// them.
    CopyBatch3D = 2,
    /// As `Values`, in a process that has a capture open: elsewhere nothing.
    InCapture = 3,
    /// `(func, dim3 grid, dim3 block, void **args, size_t shared, stream)`: grid and
    /// block travel by value in register pairs, shared memory and stream on the stack.
    LaunchRuntime = 4,
    /// `(const cudaLaunchConfig_t *config, func, void **args)`.
    LaunchRuntimeEx = 5,
    /// `(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra)`: from `bz` on the stack.
    LaunchDriver = 6,
    /// `(const CUlaunchConfig *config, f, params, extra)`.
    LaunchDriverEx = 7,
    /// `(handle *out, library or module, const char *name)`; `*out` read at return.
    KernelByName = 8,
    /// `(CUfunction *out, CUkernel kernel)`; `*out` read at return.
    KernelFunction = 9,
    /// `(const char **out, handle)`; the string at `*out` is read at return.
    KernelName = 10,
    /// `(void **fatbin, const char *hostFun, char *deviceFun, const char *deviceName, ...)`.
    Registration = 11,
    /// `c10::reportMemoryUsageToProfiler(void *ptr, int64_t alloc_size, size_t
    /// total_allocated, size_t total_reserved, c10::Device device)`.
    TorchReport = 12,
    /// `c10::reportOutOfMemoryToProfiler(int64_t alloc_size, size_t total_allocated,
    /// size_t total_reserved, c10::Device device)`.
    TorchOutOfMemory = 13,
}

/// Which of a call's two moments are probed, and what is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Probe {
    /// One record, at entry: no result, no duration.
    Entry = 0,
    /// One record, at return.
    Return = 1,
    /// Two records: one at entry ("this block is being freed", for its address may be
    /// handed out again before the call returns) and one at return.
    EntryAndReturn = 2,
}

/// One row of the probe table: everything there is to know about one function.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// The exported name. PyTorch's C++ functions have their plain name here and the
    /// mangled one in [`Api::symbols`].
    pub name: &'static str,
    /// The exported symbols, each a separate piece of code: the function and its
    /// per-thread-default-stream twin. A twin is told by its suffix ([`crate::Twin`]).
    pub symbols: &'static [&'static str],
    /// The library it belongs to.
    pub layer: Layer,
    /// What users select it by.
    pub family: Family,
    /// What it brings about.
    pub effect: Effect,
    /// How its arguments are decoded.
    pub shape: Shape,
    /// Where its arguments are and what they mean.
    pub values: &'static [Value],
    /// The same in libraries of CUDA 12 and older, where it differs.
    pub values_before_13: Option<&'static [Value]>,
    /// Which moments are probed.
    pub probe: Probe,
    /// Whether it is traced where each probe is dear to detach (single uprobes: a tenth of a
    /// second): what nearly every program's memory, launches and waits go through.
    pub core: bool,
    /// First CUDA version (major * 1000 + minor * 10, as in `CUDART_VERSION`) that exports
    /// it; 0 where every supported one (11.0 and later) does.
    pub since: u16,
    /// One line for `cudasnoop probes` and the docs.
    pub doc: &'static str,
}

impl Api {
    /// Whether a storm of this call may fill at most half of the ring, so that it
    /// cannot push out a free.
    pub const fn is_hot(&self) -> bool {
        match self.family {
            Family::Launch | Family::Copy | Family::Torch => true,
            // Waits of streams spread captures: without them, launches would be told wrong.
            Family::Sync => matches!(self.effect, Effect::Wait),
            Family::Memory | Family::Graph | Family::Module | Family::Device => matches!(
                self.effect,
                Effect::Registration
                    | Effect::SelectDevice
                    | Effect::ContextPush
                    | Effect::ContextPop
            ),
        }
    }

    /// What the overhead budget switches it together with.
    pub const fn class(&self) -> ProbeClass {
        match self.family {
            Family::Launch | Family::Copy => ProbeClass::Hot,
            // Waits of streams spread captures: without them, launches would be told wrong.
            Family::Sync if matches!(self.effect, Effect::Wait) => ProbeClass::Hot,
            // That memory ran out is rare, and not to be missed.
            Family::Torch if matches!(self.shape, Shape::TorchOutOfMemory) => ProbeClass::Steady,
            Family::Torch => ProbeClass::Torch,
            Family::Graph if matches!(self.effect, Effect::EventRecord) => ProbeClass::Capture,
            Family::Memory => ProbeClass::Memory,
            Family::Sync | Family::Graph | Family::Module | Family::Device => ProbeClass::Steady,
        }
    }

    /// Whether it is traced when the user asked for `families`: theirs, and what those need to
    /// be understood: devices always, kernel names and captures with launches.
    pub fn is_traced_with(&self, families: &[Family]) -> bool {
        let asked = |family| families.contains(&family);
        match self.family {
            Family::Memory | Family::Launch | Family::Copy | Family::Torch => asked(self.family),
            Family::Sync => {
                asked(Family::Sync)
                    || self.effect == Effect::StreamWait
                        && (asked(Family::Launch) || asked(Family::Graph))
            }
            Family::Graph => asked(Family::Graph) || asked(Family::Launch),
            Family::Module => asked(Family::Module) || asked(Family::Launch),
            Family::Device => !families.is_empty(),
        }
    }
}

#[cfg(feature = "user")]
mod text {
    use super::{Family, Layer};

    impl Layer {
        /// All layers, in discriminant order.
        pub const ALL: [Self; 3] = [Self::Runtime, Self::Driver, Self::Torch];

        /// The name in recordings, JSON and metrics.
        pub const fn name(self) -> &'static str {
            match self {
                Self::Runtime => "runtime",
                Self::Driver => "driver",
                Self::Torch => "torch",
            }
        }
    }

    impl Family {
        /// All families, in discriminant order.
        pub const ALL: [Self; 8] = [
            Self::Memory,
            Self::Launch,
            Self::Graph,
            Self::Copy,
            Self::Sync,
            Self::Module,
            Self::Torch,
            Self::Device,
        ];

        /// The name in recordings, JSON, metrics and `--events`.
        pub const fn name(self) -> &'static str {
            match self {
                Self::Memory => "memory",
                Self::Launch => "launch",
                Self::Graph => "graph",
                Self::Copy => "copy",
                Self::Sync => "sync",
                Self::Module => "module",
                Self::Torch => "torch",
                Self::Device => "device",
            }
        }
    }
}
