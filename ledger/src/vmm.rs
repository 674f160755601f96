//! Virtual memory management: addresses, physical memory and mappings are three things.
//!
//! Physical memory lives as long as a handle or a mapping refers to it. A reservation is address
//! space and no memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{AddressRange, MemoryKind, Moment, Origin, RangeMap, Ranged, device::Extent, serial};

/// Where physical memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// On a device.
    Device,
    /// On the host.
    Host,
    /// Elsewhere: another process made it, and it counts there.
    Imported,
    /// Nowhere: a team of devices, to which memory is bound.
    Multicast,
}

/// Physical memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Physical {
    pub(crate) id: u64,
    /// The handle it was made with.
    #[serde(with = "serial::hex")]
    pub handle: u64,
    /// Bytes; `None` for another process's that was not mapped yet.
    pub size: Option<u64>,
    /// Where it is.
    pub place: Place,
    pub(crate) device: Option<i32>,
    /// References by handles: made or opened, and retained, less released.
    pub references: u64,
    /// Places that it is mapped at.
    pub mapped: u64,
    /// Who took it, and when.
    pub origin: Origin,
}

impl Physical {
    /// Ordinal of the device it is on; `None` for memory of the host, or where not known.
    pub const fn device(&self) -> Option<i32> {
        self.device
    }

    /// What it counts as; `None` for a team of devices, which has no memory.
    pub const fn kind(&self) -> Option<MemoryKind> {
        match self.place {
            Place::Device => Some(MemoryKind::Vmm),
            Place::Host => Some(MemoryKind::PinnedHost),
            Place::Imported => Some(MemoryKind::Ipc),
            Place::Multicast => None,
        }
    }

    pub(crate) fn extent(&self) -> Extent {
        self.size.map_or(Extent::Unknown, Extent::Pages)
    }

    pub(crate) const fn is_unused(&self) -> bool {
        self.references == 0 && self.mapped == 0
    }
}

/// Reserved addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reservation {
    pub(crate) range: AddressRange,
    /// When they were reserved.
    pub at: Moment,
}

impl Ranged for Reservation {
    fn range(&self) -> AddressRange {
        self.range
    }
}

/// Physical memory at addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mapping {
    pub(crate) range: AddressRange,
    /// What is mapped; `None` for memory made before tracing began.
    pub(crate) physical: Option<u64>,
    /// When it was mapped.
    pub at: Moment,
    /// The thread that mapped it.
    pub tid: u32,
}

impl Ranged for Mapping {
    fn range(&self) -> AddressRange {
        self.range
    }
}

/// Neighbouring mappings without a hole, within one reservation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) range: AddressRange,
    /// Of the oldest mapping.
    pub(crate) at: Moment,
    pub(crate) tid: u32,
}

/// A process's reservations, physical memory and mappings.
#[derive(Clone, Debug, Default)]
pub struct Vmm {
    pub(crate) reservations: RangeMap<Reservation>,
    pub(crate) physical: BTreeMap<u64, Physical>,
    pub(crate) mappings: RangeMap<Mapping>,
    /// What handles refer to. A handle stays while its memory does.
    pub(crate) by_handle: BTreeMap<u64, u64>,
    pub(crate) next_id: u64,
}

impl Vmm {
    /// Reserved addresses.
    pub const fn reservations(&self) -> &RangeMap<Reservation> {
        &self.reservations
    }

    /// Live physical memory, oldest first.
    pub fn physical(&self) -> impl ExactSizeIterator<Item = &Physical> {
        self.physical.values()
    }

    /// What is mapped where.
    pub const fn mappings(&self) -> &RangeMap<Mapping> {
        &self.mappings
    }

    /// Bytes of reserved addresses: no memory.
    pub fn reserved_address_bytes(&self) -> u64 {
        let sizes = self.reservations.iter().map(|held| held.range.size());
        sizes.fold(0, u64::saturating_add)
    }

    /// How many things it keeps.
    pub(crate) fn len(&self) -> usize {
        self.reservations.len() + self.physical.len() + self.mappings.len()
    }

    /// What is mapped where all of `range` lies.
    pub fn mapped_at(&self, range: AddressRange) -> Option<&Physical> {
        let mapping = self.mappings.containing(range)?;
        self.physical.get(&mapping.physical?)
    }

    /// The mappings around `range` that touch one another, as far as their reservation goes.
    pub(crate) fn run_around(&self, range: AddressRange) -> Option<Run> {
        let first_byte = AddressRange::new(range.start(), 1)?;
        let seed = self.mappings.containing(first_byte)?;
        let (lowest, highest) = self
            .reservations
            .containing(first_byte)
            .map_or((0, u64::MAX), |held| (held.range.start(), held.range.end()));
        let (mut start, mut end, mut oldest) = (seed.range.start(), seed.range.end(), seed);
        while start > lowest
            && let Some(before) = AddressRange::new(start - 1, 1)
            && let Some(mapping) = self.mappings.containing(before)
        {
            start = mapping.range.start();
            oldest = earlier(oldest, mapping);
        }
        while end < highest
            && let Some(mapping) = self.mappings.get(end)
        {
            end = mapping.range.end();
            oldest = earlier(oldest, mapping);
        }
        let run = AddressRange::new(start, end - start)?;
        run.contains(range).then_some(Run {
            range: run,
            at: oldest.at,
            tid: oldest.tid,
        })
    }

    pub(crate) fn is_known(&self, handle: u64) -> bool {
        self.by_handle.contains_key(&handle)
    }

    pub(crate) fn by_handle_mut(&mut self, handle: u64) -> Option<&mut Physical> {
        self.physical.get_mut(self.by_handle.get(&handle)?)
    }

    /// Adds memory that was made or opened as `handle`.
    pub(crate) fn insert(&mut self, new: Physical) {
        self.by_handle.insert(new.handle, new.id);
        self.next_id = self.next_id.max(new.id + 1);
        self.physical.insert(new.id, new);
    }

    /// Forgets memory, and all handles to it.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Physical> {
        let physical = self.physical.remove(&id)?;
        if self.by_handle.get(&physical.handle) == Some(&id) {
            self.by_handle.remove(&physical.handle);
        }
        // Other handles to it, which only a retain that yields another number makes.
        if self.by_handle.len() > self.physical.len() {
            self.by_handle.retain(|_, known| *known != id);
        }
        Some(physical)
    }
}

fn earlier<'a>(one: &'a Mapping, other: &'a Mapping) -> &'a Mapping {
    if other.at.seq < one.at.seq {
        other
    } else {
        one
    }
}
