//! Questions about a process's memory.

use std::collections::BTreeMap;

use crate::{AddressRange, MemoryKind, Origin, Tally, process::Process, vmm::Place};

/// Who holds memory: a module's allocations of one kind and size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Id of the module that called; `None` where it could not be read.
    pub caller: Option<u32>,
    /// What kind of memory it is.
    pub kind: MemoryKind,
    /// Sizes up to this one, and above half of it.
    pub size_class: u64,
    /// How many, and their bytes.
    pub live: Tally,
}

/// What host memory is to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostMemory {
    /// Pinned: allocated by CUDA.
    Pinned,
    /// Pinned later.
    Registered,
    /// Managed: both can use it.
    Managed,
    /// None of these: a copy goes through a buffer of the driver's.
    Pageable,
    /// Not known: the process ran before it was traced, or calls may have been missed.
    Unknown,
}

impl HostMemory {
    /// All, in discriminant order.
    pub const ALL: [Self; 5] = [
        Self::Pinned,
        Self::Registered,
        Self::Managed,
        Self::Pageable,
        Self::Unknown,
    ];

    /// The name in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Registered => "registered",
            Self::Managed => "managed",
            Self::Pageable => "pageable",
            Self::Unknown => "unknown",
        }
    }
}

impl Process {
    /// Who holds what lies on a device, the most bytes first.
    pub fn holders(&self, device: Option<i32>) -> Vec<Holder> {
        let mut groups: BTreeMap<(Option<u32>, MemoryKind, u64), Tally> = BTreeMap::new();
        let mut add = |origin: &Origin, kind: MemoryKind, size: Option<u64>| {
            let size = size.unwrap_or(0);
            let size_class = size.checked_next_power_of_two().unwrap_or(u64::MAX);
            let group = (origin.caller, kind, size_class);
            groups.entry(group).or_default().add(size);
        };
        for block in self.blocks.iter().filter(|block| block.device == device) {
            add(&block.origin, block.kind, block.size());
        }
        for array in self.arrays().filter(|array| array.device == device) {
            add(&array.origin, MemoryKind::Device, array.size);
        }
        let physical = self.vmm.physical();
        for physical in physical.filter(|physical| physical.device == device) {
            if let Some(kind) = physical.kind() {
                add(&physical.origin, kind, physical.size);
            }
        }
        let mut holders: Vec<Holder> = groups
            .into_iter()
            .map(|((caller, kind, size_class), live)| Holder {
                caller,
                kind,
                size_class,
                live,
            })
            .collect();
        holders.sort_by_key(|holder| std::cmp::Reverse((holder.live.bytes, holder.live.count)));
        holders
    }

    /// What `size` bytes of host memory at `address` are at this moment.
    pub fn host_memory(&self, address: u64, size: u64) -> HostMemory {
        let Some(range) = AddressRange::new(address, size.max(1)) else {
            return HostMemory::Unknown;
        };
        let block = self.blocks.last_in(range);
        if let Some(block) = block.filter(|block| block.range.contains(range)) {
            return match block.kind {
                MemoryKind::PinnedHost => HostMemory::Pinned,
                MemoryKind::RegisteredHost => HostMemory::Registered,
                MemoryKind::Managed => HostMemory::Managed,
                MemoryKind::Device
                | MemoryKind::Pool
                | MemoryKind::Vmm
                | MemoryKind::Graph
                | MemoryKind::Ipc => HostMemory::Unknown,
            };
        }
        if let Some(physical) = self.vmm.mapped_at(range) {
            return match physical.place {
                Place::Host => HostMemory::Pinned,
                Place::Device | Place::Imported | Place::Multicast => HostMemory::Unknown,
            };
        }
        let is_known = self.from_start() && self.knows_memory();
        let may_be_missing = !is_known || self.counters.gaps > 0 || block.is_some();
        if may_be_missing {
            HostMemory::Unknown
        } else {
            HostMemory::Pageable
        }
    }
}
