//! What a call does to memory, by its effect. A call counts once, whichever layer it was made
//! through: the recorder folds the driver's half into the runtime's.

use agent_common::Effect;

use crate::MemoryKind;

/// What a call does to the ledger's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Memory at an address is taken.
    Allocate(MemoryKind),
    /// An array is made.
    ArrayAllocate,
    /// Something is given back. Such a call has two rows: at its entry and at its return.
    GiveBack(GiveBack),
    /// A pool is made, or another process's is opened.
    PoolOpen,
    /// A pool is ended.
    PoolDestroy,
    /// An attribute of a pool is set.
    PoolSet,
    /// Which device a pool is of.
    PoolLookup,
    /// A pool gives memory back.
    PoolTrim,
    /// A block is shown to other processes.
    Export,
    /// A block of another process is opened.
    Open,
    /// Addresses are reserved.
    Reserve,
    /// Physical memory is taken.
    Create,
    /// A reference to what is mapped at an address is taken.
    Retain,
    /// Physical memory of another process is opened.
    Import,
    /// A handle of several devices is made: no memory of its own.
    Multicast,
    /// Physical memory is mapped.
    Map,
    /// The device's free memory is asked for.
    MemoryInfo,
    /// The thread's context is replaced.
    ContextSelect,
    /// A context is put on the thread's stack.
    ContextPush,
    /// It is taken off.
    ContextPop,
    /// A reference to a primary context is taken.
    ContextRetain,
    /// It is given up.
    ContextRelease,
    /// A context is made.
    ContextCreate,
    /// It is ended.
    ContextDestroy,
    /// A primary context is ended.
    ContextReset,
    /// A capture is complete.
    CaptureEnd,
    /// A graph is made ready.
    GraphInstantiate,
    /// A graph is ended.
    GraphDestroy,
    /// A ready graph is ended.
    GraphExecDestroy,
    /// PyTorch's allocator reports.
    TorchReport,
}

/// What is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GiveBack {
    /// A block, by address.
    Block,
    /// An array.
    Array,
    /// A reference to physical memory.
    Reference,
    /// Mappings.
    Mapping,
    /// Reserved addresses.
    Reservation,
}

impl Operation {
    /// The operation; `None` for calls that change nothing here.
    pub(crate) const fn of(effect: Effect) -> Option<Self> {
        Some(match effect {
            Effect::DeviceAlloc => Self::Allocate(MemoryKind::Device),
            Effect::ManagedAlloc => Self::Allocate(MemoryKind::Managed),
            Effect::HostAlloc => Self::Allocate(MemoryKind::PinnedHost),
            Effect::HostRegister => Self::Allocate(MemoryKind::RegisteredHost),
            Effect::PoolAlloc => Self::Allocate(MemoryKind::Pool),
            Effect::GraphAlloc => Self::Allocate(MemoryKind::Graph),
            Effect::DeviceFree
            | Effect::HostFree
            | Effect::HostUnregister
            | Effect::PoolFree
            | Effect::IpcClose => Self::GiveBack(GiveBack::Block),
            Effect::ArrayAlloc => Self::ArrayAllocate,
            Effect::ArrayFree => Self::GiveBack(GiveBack::Array),
            Effect::PoolCreate | Effect::PoolImport => Self::PoolOpen,
            Effect::PoolDestroy => Self::PoolDestroy,
            Effect::PoolSet => Self::PoolSet,
            Effect::PoolLookup => Self::PoolLookup,
            Effect::PoolTrim => Self::PoolTrim,
            Effect::IpcExport | Effect::PoolPointerExport => Self::Export,
            Effect::IpcOpen | Effect::PoolPointerImport => Self::Open,
            Effect::AddressReserve => Self::Reserve,
            Effect::AddressFree => Self::GiveBack(GiveBack::Reservation),
            Effect::PhysicalCreate => Self::Create,
            Effect::PhysicalRelease => Self::GiveBack(GiveBack::Reference),
            Effect::PhysicalRetain => Self::Retain,
            Effect::PhysicalImport => Self::Import,
            Effect::Multicast => Self::Multicast,
            Effect::Map => Self::Map,
            Effect::Unmap => Self::GiveBack(GiveBack::Mapping),
            Effect::MemoryInfo => Self::MemoryInfo,
            Effect::SelectDevice => Self::ContextSelect,
            Effect::ContextPush => Self::ContextPush,
            Effect::ContextPop => Self::ContextPop,
            Effect::ContextRetain => Self::ContextRetain,
            Effect::ContextRelease => Self::ContextRelease,
            Effect::ContextCreate => Self::ContextCreate,
            Effect::ContextDestroy => Self::ContextDestroy,
            Effect::ContextReset => Self::ContextReset,
            Effect::CaptureEnd => Self::CaptureEnd,
            Effect::GraphInstantiate => Self::GraphInstantiate,
            Effect::GraphDestroy => Self::GraphDestroy,
            Effect::GraphExecDestroy => Self::GraphExecDestroy,
            Effect::TorchReport => Self::TorchReport,
            // Neither memory nor who holds it. A free that is part of a graph happens when that
            // runs; how much graphs keep is not told.
            Effect::PoolExport
            | Effect::GraphFree
            | Effect::GraphMemoryTrim
            | Effect::SetAccess
            | Effect::PhysicalExport
            | Effect::DeviceIdentity
            | Effect::ErrorText
            | Effect::Launch
            | Effect::HostFunction
            | Effect::CaptureBegin
            | Effect::EventRecord
            | Effect::StreamWait
            | Effect::GraphLaunch
            | Effect::GraphUpload
            | Effect::GraphUpdate
            | Effect::GraphNodes
            | Effect::Copy
            | Effect::Set
            | Effect::Wait
            | Effect::KernelLookup
            | Effect::ModuleLoad
            | Effect::ModuleUnload
            | Effect::Registration => return None,
        })
    }
}

/// Whether calls of this effect change what [`crate::Ledger`] knows: the others need not be
/// given to it.
pub const fn concerns_memory(effect: Effect) -> bool {
    Operation::of(effect).is_some()
}

/// The kind of memory that calls of this effect take; `None` for those that take none. What is
/// taken in stream order may turn out to be another kind: [`crate::Block::kind`] says.
pub const fn kind_taken(effect: Effect) -> Option<MemoryKind> {
    let operation = Operation::of(effect);
    if let Some(Operation::Allocate(kind)) = operation {
        Some(kind)
    } else if matches!(operation, Some(Operation::ArrayAllocate)) {
        Some(MemoryKind::Device)
    } else if matches!(operation, Some(Operation::Create)) {
        Some(MemoryKind::Vmm)
    } else {
        None
    }
}
