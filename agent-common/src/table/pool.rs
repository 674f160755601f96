//! Memory pools: allocation in stream order.

use super::{driver, ptsz, runtime};
use crate::{
    api::{Api, Effect, Family, Probe},
    value::{Field, arg, behind, behind_int, int, out, out_fingerprint},
};

pub(super) const ROWS: [Api; 28] = [
    runtime(
        ptsz!("cudaMallocAsync"),
        Family::Memory,
        Effect::PoolAlloc,
        &[
            out(0, Field::Address),
            arg(1, Field::Size),
            arg(2, Field::Stream),
        ],
    )
    .core()
    .doc("Allocates from the device's pool, in stream order"),
    runtime(
        ptsz!("cudaMallocFromPoolAsync"),
        Family::Memory,
        Effect::PoolAlloc,
        &[
            out(0, Field::Address),
            arg(1, Field::Size),
            arg(2, Field::Related),
            arg(3, Field::Stream),
        ],
    )
    .core()
    .doc("Allocates from a pool, in stream order"),
    runtime(
        ptsz!("cudaFreeAsync"),
        Family::Memory,
        Effect::PoolFree,
        &[arg(0, Field::Address), arg(1, Field::Stream)],
    )
    .probe(Probe::EntryAndReturn)
    .core()
    .doc("Frees memory of a pool, in stream order"),
    runtime(
        &["cudaMemPoolCreate"],
        Family::Memory,
        Effect::PoolCreate,
        &[
            out(0, Field::Handle),
            behind_int(1, 8, Field::LocationType),
            behind_int(1, 12, Field::LocationId),
        ],
    )
    .doc("Makes a memory pool"),
    runtime(
        &["cudaMemPoolDestroy"],
        Family::Memory,
        Effect::PoolDestroy,
        &[arg(0, Field::Handle)],
    )
    .probe(Probe::EntryAndReturn)
    .doc("Ends a memory pool"),
    runtime(
        &["cudaMemPoolTrimTo"],
        Family::Memory,
        Effect::PoolTrim,
        &[arg(0, Field::Handle), arg(1, Field::Size)],
    )
    .doc("Gives unused memory of a pool back, down to so many bytes"),
    runtime(
        &["cudaMemPoolSetAttribute"],
        Family::Memory,
        Effect::PoolSet,
        &[
            arg(0, Field::Handle),
            int(1, Field::Option),
            behind(2, 0, Field::PoolValue),
        ],
    )
    .doc("Sets up a pool: attribute 4 is the unused bytes that it may keep"),
    runtime(
        &["cudaMemPoolExportToShareableHandle"],
        Family::Memory,
        Effect::PoolExport,
        &[arg(1, Field::Handle), int(2, Field::Option)],
    )
    .doc("Shows a pool to other processes"),
    runtime(
        &["cudaMemPoolImportFromShareableHandle"],
        Family::Memory,
        Effect::PoolImport,
        &[out(0, Field::Handle), int(2, Field::Option)],
    )
    .doc("Opens another process's pool"),
    runtime(
        &["cudaMemPoolExportPointer"],
        Family::Memory,
        Effect::PoolPointerExport,
        &[out_fingerprint(0, Field::Handle), arg(1, Field::Address)],
    )
    .doc("Shows memory of a shared pool to other processes"),
    runtime(
        &["cudaMemPoolImportPointer"],
        Family::Memory,
        Effect::PoolPointerImport,
        &[out(0, Field::Address), arg(1, Field::Related)],
    )
    .doc("Opens another process's memory of a shared pool"),
    runtime(
        &["cudaDeviceGetDefaultMemPool"],
        Family::Memory,
        Effect::PoolLookup,
        &[out(0, Field::Handle), int(1, Field::Device)],
    )
    .doc("Asks for a device's first memory pool"),
    runtime(
        &["cudaDeviceGetMemPool"],
        Family::Memory,
        Effect::PoolLookup,
        &[out(0, Field::Handle), int(1, Field::Device)],
    )
    .doc("Asks for a device's present memory pool"),
    runtime(
        &["cudaDeviceSetMemPool"],
        Family::Memory,
        Effect::PoolLookup,
        &[arg(1, Field::Handle), int(0, Field::Device)],
    )
    .doc("Chooses a device's memory pool"),
    driver(
        ptsz!("cuMemAllocAsync"),
        Family::Memory,
        Effect::PoolAlloc,
        &[
            out(0, Field::Address),
            arg(1, Field::Size),
            arg(2, Field::Stream),
        ],
    )
    .core()
    .doc("Allocates from the device's pool, in stream order"),
    driver(
        ptsz!("cuMemAllocFromPoolAsync"),
        Family::Memory,
        Effect::PoolAlloc,
        &[
            out(0, Field::Address),
            arg(1, Field::Size),
            arg(2, Field::Related),
            arg(3, Field::Stream),
        ],
    )
    .core()
    .doc("Allocates from a pool, in stream order"),
    driver(
        ptsz!("cuMemFreeAsync"),
        Family::Memory,
        Effect::PoolFree,
        &[arg(0, Field::Address), arg(1, Field::Stream)],
    )
    .probe(Probe::EntryAndReturn)
    .core()
    .doc("Frees memory of a pool, in stream order"),
    driver(
        &["cuMemPoolCreate"],
        Family::Memory,
        Effect::PoolCreate,
        &[
            out(0, Field::Handle),
            behind_int(1, 8, Field::LocationType),
            behind_int(1, 12, Field::LocationId),
        ],
    )
    .doc("Makes a memory pool"),
    driver(
        &["cuMemPoolDestroy"],
        Family::Memory,
        Effect::PoolDestroy,
        &[arg(0, Field::Handle)],
    )
    .probe(Probe::EntryAndReturn)
    .doc("Ends a memory pool"),
    driver(
        &["cuMemPoolTrimTo"],
        Family::Memory,
        Effect::PoolTrim,
        &[arg(0, Field::Handle), arg(1, Field::Size)],
    )
    .doc("Gives unused memory of a pool back, down to so many bytes"),
    driver(
        &["cuMemPoolSetAttribute"],
        Family::Memory,
        Effect::PoolSet,
        &[
            arg(0, Field::Handle),
            int(1, Field::Option),
            behind(2, 0, Field::PoolValue),
        ],
    )
    .doc("Sets up a pool: attribute 4 is the unused bytes that it may keep"),
    driver(
        &["cuMemPoolExportToShareableHandle"],
        Family::Memory,
        Effect::PoolExport,
        &[arg(1, Field::Handle), int(2, Field::Option)],
    )
    .doc("Shows a pool to other processes"),
    driver(
        &["cuMemPoolImportFromShareableHandle"],
        Family::Memory,
        Effect::PoolImport,
        &[out(0, Field::Handle), int(2, Field::Option)],
    )
    .doc("Opens another process's pool"),
    driver(
        &["cuMemPoolExportPointer"],
        Family::Memory,
        Effect::PoolPointerExport,
        &[out_fingerprint(0, Field::Handle), arg(1, Field::Address)],
    )
    .doc("Shows memory of a shared pool to other processes"),
    driver(
        &["cuMemPoolImportPointer"],
        Family::Memory,
        Effect::PoolPointerImport,
        &[out(0, Field::Address), arg(1, Field::Related)],
    )
    .doc("Opens another process's memory of a shared pool"),
    driver(
        &["cuDeviceGetDefaultMemPool"],
        Family::Memory,
        Effect::PoolLookup,
        &[out(0, Field::Handle), int(1, Field::Device)],
    )
    .doc("Asks for a device's first memory pool"),
    driver(
        &["cuDeviceGetMemPool"],
        Family::Memory,
        Effect::PoolLookup,
        &[out(0, Field::Handle), int(1, Field::Device)],
    )
    .doc("Asks for a device's present memory pool"),
    driver(
        &["cuDeviceSetMemPool"],
        Family::Memory,
        Effect::PoolLookup,
        &[arg(1, Field::Handle), int(0, Field::Device)],
    )
    .doc("Chooses a device's memory pool"),
];
