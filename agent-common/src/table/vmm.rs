//! Virtual memory management: addresses, physical memory and mappings apart. Driver only.

use super::driver;
use crate::{
    api::{Api, Effect, Family, Probe},
    value::{Field, arg, behind, behind_int, int, out, out_int},
};

pub(super) const ROWS: [Api; 17] = [
    driver(
        &["cuMemAddressReserve"],
        Family::Memory,
        Effect::AddressReserve,
        &[out(0, Field::Address), arg(1, Field::Size)],
    )
    .doc("Reserves addresses; takes no memory"),
    driver(
        &["cuMemAddressFree"],
        Family::Memory,
        Effect::AddressFree,
        &[arg(0, Field::Address), arg(1, Field::Size)],
    )
    .probe(Probe::EntryAndReturn)
    .doc("Gives reserved addresses back"),
    driver(
        &["cuMemCreate"],
        Family::Memory,
        Effect::PhysicalCreate,
        &[
            out(0, Field::Handle),
            arg(1, Field::Size),
            behind_int(2, 8, Field::LocationType),
            behind_int(2, 12, Field::LocationId),
            behind_int(2, 4, Field::Option),
        ],
    )
    .core()
    .doc("Takes physical memory, on a device or on the host"),
    driver(
        &["cuMemRelease"],
        Family::Memory,
        Effect::PhysicalRelease,
        &[arg(0, Field::Handle)],
    )
    .probe(Probe::EntryAndReturn)
    .core()
    .doc("Gives up a reference to physical memory"),
    driver(
        &["cuMemRetainAllocationHandle"],
        Family::Memory,
        Effect::PhysicalRetain,
        &[out(0, Field::Handle), arg(1, Field::Address)],
    )
    .doc("Adds a reference to the physical memory at an address"),
    driver(
        &["cuMemMap"],
        Family::Memory,
        Effect::Map,
        &[
            arg(0, Field::Address),
            arg(1, Field::Size),
            arg(2, Field::Offset),
            arg(3, Field::Handle),
        ],
    )
    .core()
    .doc("Maps physical memory to reserved addresses"),
    driver(
        &["cuMemUnmap"],
        Family::Memory,
        Effect::Unmap,
        &[arg(0, Field::Address), arg(1, Field::Size)],
    )
    .probe(Probe::EntryAndReturn)
    .core()
    .doc("Unmaps physical memory"),
    driver(
        &["cuMemSetAccess"],
        Family::Memory,
        Effect::SetAccess,
        &[
            arg(0, Field::Address),
            arg(1, Field::Size),
            behind_int(2, 0, Field::LocationType),
            behind_int(2, 4, Field::LocationId),
            behind_int(2, 8, Field::Option),
            arg(3, Field::Count),
        ],
    )
    .doc("Says which devices may use mapped memory; the first of them is recorded"),
    driver(
        &["cuMemExportToShareableHandle"],
        Family::Memory,
        Effect::PhysicalExport,
        &[
            arg(1, Field::Handle),
            out_int(0, Field::Related),
            int(2, Field::Option),
        ],
    )
    .doc("Shows physical memory to other processes"),
    driver(
        &["cuMemImportFromShareableHandle"],
        Family::Memory,
        Effect::PhysicalImport,
        &[
            out(0, Field::Handle),
            arg(1, Field::Related),
            int(2, Field::Option),
        ],
    )
    .doc("Opens another process's physical memory"),
    driver(
        &["cuMulticastCreate"],
        Family::Memory,
        Effect::Multicast,
        &[
            out(0, Field::Handle),
            behind(1, 8, Field::Size),
            behind_int(1, 0, Field::Count),
        ],
    )
    .since(12010)
    .doc("Makes memory that several devices share"),
    driver(
        &["cuMulticastAddDevice"],
        Family::Memory,
        Effect::Multicast,
        &[arg(0, Field::Handle), int(1, Field::Device)],
    )
    .since(12010)
    .doc("Adds a device to shared memory"),
    driver(
        &["cuMulticastBindMem"],
        Family::Memory,
        Effect::Multicast,
        &[
            arg(0, Field::Handle),
            arg(1, Field::Offset),
            arg(2, Field::Related),
            arg(4, Field::Size),
        ],
    )
    .since(12010)
    .doc("Puts physical memory behind shared memory"),
    driver(
        &["cuMulticastBindMem_v2"],
        Family::Memory,
        Effect::Multicast,
        &[
            arg(0, Field::Handle),
            int(1, Field::Device),
            arg(2, Field::Offset),
            arg(3, Field::Related),
            arg(5, Field::Size),
        ],
    )
    .since(13010)
    .doc("Puts a device's physical memory behind shared memory"),
    driver(
        &["cuMulticastBindAddr"],
        Family::Memory,
        Effect::Multicast,
        &[
            arg(0, Field::Handle),
            arg(1, Field::Offset),
            arg(2, Field::Address),
            arg(3, Field::Size),
        ],
    )
    .since(12010)
    .doc("Puts mapped memory behind shared memory"),
    driver(
        &["cuMulticastBindAddr_v2"],
        Family::Memory,
        Effect::Multicast,
        &[
            arg(0, Field::Handle),
            int(1, Field::Device),
            arg(2, Field::Offset),
            arg(3, Field::Address),
            arg(4, Field::Size),
        ],
    )
    .since(13010)
    .doc("Puts a device's mapped memory behind shared memory"),
    driver(
        &["cuMulticastUnbind"],
        Family::Memory,
        Effect::Multicast,
        &[
            arg(0, Field::Handle),
            int(1, Field::Device),
            arg(2, Field::Offset),
            arg(3, Field::Size),
        ],
    )
    .since(12010)
    .doc("Takes memory away from behind shared memory"),
];
