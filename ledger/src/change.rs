//! What an event did to the memory of a process.

use crate::{Array, Block, MemoryKind, Origin, vmm::Physical};

/// Memory that came or went with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Ordinal of the device it lies on; `None` where not known.
    pub device: Option<i32>,
    /// What kind of memory it is.
    pub kind: MemoryKind,
    /// Id of the module that took it; `None` where it could not be read.
    pub caller: Option<u32>,
    /// Whether PyTorch's caching allocator made it, as far as was known then.
    pub is_segment: bool,
    /// Bytes; 0 where they are not known.
    pub size: u64,
    /// Whether it went.
    pub is_gone: bool,
}

impl Change {
    pub(crate) fn of_block(block: &Block, is_gone: bool) -> Self {
        let is_segment = block.segment_of.is_some();
        let size = block.size().unwrap_or(0);
        Self {
            is_segment,
            ..Self::of(&block.origin, block.kind, block.device, size, is_gone)
        }
    }

    pub(crate) fn of_array(array: &Array, is_gone: bool) -> Self {
        let size = array.size.unwrap_or(0);
        Self::of(
            &array.origin,
            MemoryKind::Device,
            array.device,
            size,
            is_gone,
        )
    }

    /// `None` for what has no memory.
    pub(crate) fn of_physical(physical: &Physical, is_gone: bool) -> Option<Self> {
        let (kind, size) = (physical.kind()?, physical.size.unwrap_or(0));
        Some(Self::of(
            &physical.origin,
            kind,
            physical.device,
            size,
            is_gone,
        ))
    }

    fn of(
        origin: &Origin,
        kind: MemoryKind,
        device: Option<i32>,
        size: u64,
        is_gone: bool,
    ) -> Self {
        Self {
            device,
            kind,
            caller: origin.caller,
            is_segment: false,
            size,
            is_gone,
        }
    }
}
