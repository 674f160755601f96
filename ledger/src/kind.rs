//! What kind of memory something is.

use serde::{Deserialize, Serialize};

/// The kinds that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// Of one device: `cudaMalloc` and its like, and arrays.
    Device,
    /// Shared by host and device; lies where it was last used.
    Managed,
    /// Host memory that CUDA allocated, and physical memory of the host (`cuMemCreate`).
    PinnedHost,
    /// Host memory of the program that it had pinned.
    RegisteredHost,
    /// Of a device's memory pool, in stream order.
    Pool,
    /// Physical memory of a device (`cuMemCreate`), mapped or not.
    Vmm,
    /// Owned by a graph: an allocation node, or an allocation of a captured stream.
    Graph,
    /// Of another process, opened here: it is counted there.
    Ipc,
}

impl MemoryKind {
    /// All kinds, in discriminant order.
    pub const ALL: [Self; 8] = [
        Self::Device,
        Self::Managed,
        Self::PinnedHost,
        Self::RegisteredHost,
        Self::Pool,
        Self::Vmm,
        Self::Graph,
        Self::Ipc,
    ];

    /// The name in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Managed => "managed",
            Self::PinnedHost => "pinned_host",
            Self::RegisteredHost => "registered_host",
            Self::Pool => "pool",
            Self::Vmm => "vmm",
            Self::Graph => "graph",
            Self::Ipc => "ipc",
        }
    }

    /// Whether a process's live bytes on a device consist of it: its own device memory.
    pub const fn is_own_device_memory(self) -> bool {
        match self {
            Self::Device | Self::Pool | Self::Vmm => true,
            Self::Managed | Self::PinnedHost | Self::RegisteredHost | Self::Graph | Self::Ipc => {
                false
            }
        }
    }
}
