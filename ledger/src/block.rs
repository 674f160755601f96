//! Memory that a call took and none has given back.

use agent_common::ApiId;
use serde::{Deserialize, Serialize};
use trace::Event;

use crate::{AddressRange, MemoryKind, Moment, Ranged, device::Extent, serial};

/// Who took it, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The function that took it.
    #[serde(with = "serial::api")]
    pub api: ApiId,
    /// Id of the module that called; a `caller` fact of the recording defines it.
    pub caller: Option<u32>,
    /// The thread that called.
    pub tid: u32,
    /// When that call was entered.
    pub at: Moment,
    /// When it returned, ns of `CLOCK_MONOTONIC`.
    pub returned: u64,
}

impl Origin {
    pub(crate) fn of(event: &Event) -> Option<Self> {
        Some(Self {
            api: event.api?,
            caller: event.caller,
            tid: event.tid,
            at: Moment::of(event),
            returned: event.timestamp.saturating_add(event.duration.unwrap_or(0)),
        })
    }
}

/// A block of memory at an address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    pub(crate) range: AddressRange,
    /// Whether its size is known; if not, `range` is its first byte.
    pub(crate) sized: bool,
    pub(crate) kind: MemoryKind,
    pub(crate) device: Option<i32>,
    pub(crate) segment_of: Option<i32>,
    /// The pool that it is of, where the call named one; the graph that owns it.
    #[serde(with = "serial::handle")]
    pub(crate) owner: Option<u64>,
    /// The context that the program had made and it lies in.
    #[serde(with = "serial::handle")]
    pub(crate) context: Option<u64>,
    /// How often it was opened: 1, but for another process's.
    pub(crate) opened: u32,
    /// Who took it, and when.
    pub origin: Origin,
}

impl Block {
    /// What kind of memory it is.
    pub const fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// Ordinal of the device it lies on, as the process counts; `None` where not known, and for
    /// host memory that no device was chosen for. Fixed at allocation; learnt later where
    /// PyTorch reports on memory inside it.
    pub const fn device(&self) -> Option<i32> {
        self.device
    }

    /// Whether PyTorch's caching allocator made it: the device whose allocator did.
    pub const fn segment_of(&self) -> Option<i32> {
        self.segment_of
    }

    /// The pool that it is of, where the call named one; for memory of a graph, that graph.
    pub const fn owner(&self) -> Option<u64> {
        self.owner
    }

    /// Bytes; `None` for another process's block whose size is not known.
    pub fn size(&self) -> Option<u64> {
        self.sized.then(|| self.range.size())
    }

    pub(crate) fn extent(&self) -> Extent {
        if self.sized {
            Extent::Addresses(self.range)
        } else {
            Extent::Unknown
        }
    }
}

impl Ranged for Block {
    fn range(&self) -> AddressRange {
        self.range
    }
}

/// An array: device memory of opaque layout, known by a handle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Array {
    #[serde(with = "serial::hex")]
    pub(crate) handle: u64,
    /// Bytes of its elements; `None` for one of shrinking levels.
    pub size: Option<u64>,
    pub(crate) device: Option<i32>,
    #[serde(with = "serial::handle")]
    pub(crate) context: Option<u64>,
    /// Who took it, and when.
    pub origin: Origin,
}

impl Array {
    /// Ordinal of the device it lies on; `None` where not known.
    pub const fn device(&self) -> Option<i32> {
        self.device
    }

    pub(crate) fn extent(&self) -> Extent {
        self.size.map_or(Extent::Unknown, Extent::Pages)
    }
}
