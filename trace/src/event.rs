//! The event model: one row of a recording.

use agent_common::{ApiId, launch::Dimensions};

/// What a row tells. The names are those of the `kind` column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    #[default]
    /// A call: finished, or probed at entry only. Each call has at most one such row.
    Call = 0,
    /// A free has begun; its `Call` row follows, from the same thread.
    Begin = 1,
    /// A call whose thread died, or jumped out, inside it. Stands in place of `Call`.
    Abandoned = 2,
    /// A call that had not returned when the recording ended. Stands in place of `Call`;
    /// `duration` is its age.
    InFlight = 3,
    /// Something that is no call: see the row's [`crate::Fact`].
    Fact = 4,
}

impl Kind {
    /// All kinds, in discriminant order.
    pub const ALL: [Self; 5] = [
        Self::Call,
        Self::Begin,
        Self::Abandoned,
        Self::InFlight,
        Self::Fact,
    ];

    /// The name in the `kind` column and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Begin => "begin",
            Self::Abandoned => "abandoned",
            Self::InFlight => "in_flight",
            Self::Fact => "fact",
        }
    }
}

/// One row. A field that does not apply to the row, or could not be read, is `None`:
/// unknown is never 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// Position in the recording, from 0, without holes; in a segment of a rolling recording it
    /// goes on from the segment before. Orders events; timestamps do not.
    pub seq: u64,
    /// When the call was entered, or the fact learnt: ns of `CLOCK_MONOTONIC`.
    pub timestamp: u64,
    /// ns from entry to return, probe cost included.
    pub duration: Option<u64>,
    /// Process id in the recorder's pid namespace.
    pub pid: u32,
    /// Thread id, likewise.
    pub tid: u32,
    /// What the row tells.
    pub kind: Kind,
    /// The function; `None` in facts. Layer and family follow from it.
    pub api: Option<ApiId>,
    /// The function inside which this call was made, where it is not the same call.
    pub parent: Option<ApiId>,
    /// `cudaError_t` or `CUresult`; 0 is success.
    pub result: Option<i32>,
    /// Device ordinal as the process counts: what PyTorch reports, what `cudaSetDevice`
    /// chose on this thread before, or 0 for runtime calls of a process traced from its start
    /// that never chose.
    pub device: Option<i32>,
    /// Device ordinal of a peer copy's source.
    pub source_device: Option<i32>,
    /// Where memory is: `CUmemLocationType`, 1 device, 2 host, 3 host NUMA node, 4 the current
    /// node.
    pub location: Option<u8>,
    /// Device ordinal or NUMA node of `location`.
    pub location_id: Option<i32>,
    /// The block, or a copy's destination.
    pub address: Option<u64>,
    /// A copy's source.
    pub source: Option<u64>,
    /// Bytes. PyTorch's reports are signed: negative for a free.
    pub size: Option<i64>,
    /// Bytes into the physical memory that is mapped, or into a device variable.
    pub offset: Option<u64>,
    /// Nodes of a graph, copies of a batch, elements of an array or of a copy to or from one.
    pub count: Option<u64>,
    /// `cudaMemcpyKind` of a copy: 0 host to host, 1 host to device, 2 device to host, 3
    /// device to device, 4 inferred from the addresses.
    pub copy_kind: Option<u8>,
    /// Stream handle; 0 is the default stream, 1 legacy, 2 per thread.
    pub stream: Option<u64>,
    /// Grid and block of a launch.
    pub dimensions: Option<Dimensions>,
    /// Dynamic shared memory of a launch, bytes.
    pub shared_memory: Option<u64>,
    /// What the call is about: host stub or driver handle of a kernel, graph exec, event, pool,
    /// physical memory, array, module; the fingerprint of an inter-process handle.
    pub handle: Option<u64>,
    /// A second such thing: the graph of an exec, the pool of an allocation, the library of a
    /// kernel, a source array.
    pub related: Option<u64>,
    /// Flags, mode, attribute or handle type, as the function has them.
    pub option: Option<u64>,
    /// Id of the launched kernel; a [`crate::fact::Kernel`] defines it, earlier or later.
    pub kernel: Option<u32>,
    /// Id of the module that called; a [`crate::fact::Caller`] defines it, earlier or later.
    pub caller: Option<u32>,
    /// Id of the call stack. Not recorded yet.
    pub stack: Option<u32>,
    /// PyTorch: bytes allocated on the device, after this event.
    pub allocated: Option<u64>,
    /// PyTorch: bytes reserved on the device, after this event.
    pub reserved: Option<u64>,
    /// Free bytes of the device, as `cudaMemGetInfo` told the program.
    pub device_free: Option<u64>,
    /// Bytes of the device in all, likewise.
    pub device_total: Option<u64>,
    /// Bits of [`agent_common::flags`].
    pub flags: u32,
    /// A [`crate::Fact`] as JSON.
    pub text: Option<String>,
}
