//! The vocabulary of the probe table: one [`Api`] per CUDA or PyTorch function.

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
    /// Device memory: allocation, release, and how much is free.
    Memory = 0,
    /// Kernel launches.
    Launch = 1,
    /// CUDA graphs.
    Graph = 2,
    /// Copies.
    Copy = 3,
    /// Waits of the host for the device.
    Sync = 4,
    /// Kernel handles and their names. Always attached with `Launch`.
    Module = 5,
    /// PyTorch's caching allocator.
    Torch = 6,
}

/// What a call brings about. A driver call inside a runtime call of the same
/// effect is the same call, and is folded into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Effect {
    /// Device memory is taken.
    DeviceAlloc = 0,
    /// Device memory is given back.
    DeviceFree = 1,
    /// The device's free memory is asked for.
    MemoryInfo = 2,
    /// A kernel is launched.
    Launch = 3,
    /// A graph is launched.
    GraphLaunch = 4,
    /// Bytes are copied.
    Copy = 5,
    /// The host waits.
    Wait = 6,
    /// A kernel handle is looked up.
    KernelLookup = 7,
    /// PyTorch reports on its allocator. Never nested.
    TorchReport = 8,
    /// The calling thread's device is chosen.
    SelectDevice = 9,
}

/// Where a function's arguments are and what they mean; each has one decoder in
/// `agent-ebpf` and one in `trace`.
///
/// Register positions are those of the System V x86-64 ABI, taken from the CUDA
/// 12.9 and 13.5 headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Shape {
    /// `(T **out, size_t size)`; `*out` is read at return.
    Alloc = 0,
    /// `(T *address)`.
    Free = 1,
    /// `(size_t *free, size_t *total)`; both read at return.
    MemoryInfo = 2,
    /// `(func, dim3 grid, dim3 block, void **args, size_t shared, stream)`: grid and
    /// block travel by value in register pairs, shared memory and stream on the stack.
    LaunchRuntime = 3,
    /// `(const cudaLaunchConfig_t *config, func, void **args)`.
    LaunchRuntimeEx = 4,
    /// `(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra)`: from `bz` on the stack.
    LaunchDriver = 5,
    /// `(const CUlaunchConfig *config, f, params, extra)`.
    LaunchDriverEx = 6,
    /// `(exec, stream)`.
    GraphLaunch = 7,
    /// `(dst, src, size, enum cudaMemcpyKind kind)`.
    CopyKind = 8,
    /// `(dst, src, size, enum cudaMemcpyKind kind, stream)`.
    CopyKindStream = 9,
    /// `(dst, src, size)`; the function's name says the direction ([`Api::copy_kind`]).
    Copy = 10,
    /// `(dst, src, size, stream)`; the function's name says the direction.
    CopyStream = 11,
    /// `()`: waits for the whole device or context.
    WaitDevice = 12,
    /// `(stream)`.
    WaitStream = 13,
    /// `(event)`.
    WaitEvent = 14,
    /// `(handle *out, library or module, const char *name)`; `*out` read at return.
    KernelByName = 15,
    /// `(CUfunction *out, CUkernel kernel)`; `*out` read at return.
    KernelFunction = 16,
    /// `c10::reportMemoryUsageToProfiler(void *ptr, int64_t alloc_size, size_t
    /// total_allocated, size_t total_reserved, c10::Device device)`.
    TorchReport = 17,
    /// `c10::reportOutOfMemoryToProfiler(int64_t alloc_size, size_t total_allocated,
    /// size_t total_reserved, c10::Device device)`.
    TorchOutOfMemory = 18,
    /// `(int device)`.
    SelectDevice = 19,
    /// `(const char **out, handle)`; the string at `*out` is read at return.
    KernelName = 20,
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

/// Whether a family is traced when the user names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Defaults {
    /// Traced by default.
    On = 0,
    /// Traced when asked for.
    Off = 1,
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
    /// Where its arguments are.
    pub shape: Shape,
    /// Which moments are probed.
    pub probe: Probe,
    /// Whether it is traced when the user names no family.
    pub defaults: Defaults,
    /// First CUDA version (major * 1000 + minor * 10, as in `CUDART_VERSION`) that exports
    /// it; 0 where every supported one (11.0 and later) does.
    pub since: u16,
    /// One line for `cudasnoop probes` and the docs.
    pub doc: &'static str,
}

impl Api {
    /// The direction that the name states, as a `cudaMemcpyKind`: 1 host to device,
    /// 2 device to host, 3 device to device; 4 (default, by address) for the forms that
    /// infer it, and `None` where the direction is an argument or the call is no copy.
    pub const fn copy_kind(&self) -> Option<u8> {
        if !matches!(self.shape, Shape::Copy | Shape::CopyStream) {
            return None;
        }
        // The name is `cuMemcpy` + direction: compare its ninth to twelfth byte.
        let name = self.name.as_bytes();
        if name.len() < 12 {
            return Some(4);
        }
        Some(match (name[8], name[11]) {
            (b'H', b'D') => 1,
            (b'D', b'H') => 2,
            (b'D', b'D') => 3,
            _ => 4,
        })
    }

    /// Whether a storm of this call may fill at most half of the ring, so that it
    /// cannot push out a free.
    pub const fn is_hot(&self) -> bool {
        match self.family {
            Family::Launch | Family::Copy | Family::Sync | Family::Torch => true,
            Family::Memory | Family::Graph | Family::Module => false,
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
        pub const ALL: [Self; 7] = [
            Self::Memory,
            Self::Launch,
            Self::Graph,
            Self::Copy,
            Self::Sync,
            Self::Module,
            Self::Torch,
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
            }
        }
    }
}
