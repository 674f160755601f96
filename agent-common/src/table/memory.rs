//! Device, managed and array memory, and how much is free.

use super::{driver, runtime};
use crate::{
    api::{Api, Effect, Family, Probe},
    value::{Field, arg, behind, int, out, out_at, stack},
};

pub(super) const ROWS: [Api; 21] = [
    runtime(
        &["cudaMalloc"],
        Family::Memory,
        Effect::DeviceAlloc,
        &[out(0, Field::Address), arg(1, Field::Size)],
    )
    .core()
    .doc("Allocates device memory"),
    runtime(
        &["cudaMallocPitch"],
        Family::Memory,
        Effect::DeviceAlloc,
        &[
            out(0, Field::Address),
            out(1, Field::Pitch),
            arg(2, Field::Width),
            arg(3, Field::Height),
        ],
    )
    .doc("Allocates device memory in rows, padded as the device likes it"),
    runtime(
        &["cudaMalloc3D"],
        Family::Memory,
        Effect::DeviceAlloc,
        &[
            out(0, Field::Address),
            out_at(0, 8, Field::Pitch),
            stack(0, Field::Width),
            stack(1, Field::Height),
            stack(2, Field::Depth),
        ],
    )
    .doc("Allocates device memory in rows and layers, padded as the device likes it"),
    runtime(
        &["cudaMallocManaged"],
        Family::Memory,
        Effect::ManagedAlloc,
        &[
            out(0, Field::Address),
            arg(1, Field::Size),
            int(2, Field::Option),
        ],
    )
    .core()
    .doc("Allocates memory that host and device share"),
    runtime(
        &["cudaMallocArray"],
        Family::Memory,
        Effect::ArrayAlloc,
        &[
            out(0, Field::Handle),
            behind(1, 0, Field::ChannelBits),
            behind(1, 8, Field::ChannelBits),
            arg(2, Field::Width),
            arg(3, Field::Height),
        ],
    )
    .doc("Allocates an array; the bytes are those of its elements"),
    runtime(
        &["cudaMalloc3DArray"],
        Family::Memory,
        Effect::ArrayAlloc,
        &[
            out(0, Field::Handle),
            behind(1, 0, Field::ChannelBits),
            behind(1, 8, Field::ChannelBits),
            stack(0, Field::Width),
            stack(1, Field::Height),
            stack(2, Field::Depth),
        ],
    )
    .doc("Allocates a 3D or layered array; the bytes are those of its elements"),
    runtime(
        &["cudaMallocMipmappedArray"],
        Family::Memory,
        Effect::ArrayAlloc,
        &[out(0, Field::Handle), int(2, Field::Count)],
    )
    .doc("Allocates an array of shrinking levels; how many bytes is not known"),
    runtime(
        &["cudaFree"],
        Family::Memory,
        Effect::DeviceFree,
        &[arg(0, Field::Address)],
    )
    .probe(Probe::EntryAndReturn)
    .core()
    .doc("Frees device memory"),
    runtime(
        &["cudaFreeArray"],
        Family::Memory,
        Effect::ArrayFree,
        &[arg(0, Field::Handle)],
    )
    .probe(Probe::EntryAndReturn)
    .doc("Frees an array"),
    runtime(
        &["cudaFreeMipmappedArray"],
        Family::Memory,
        Effect::ArrayFree,
        &[arg(0, Field::Handle)],
    )
    .probe(Probe::EntryAndReturn)
    .doc("Frees an array of shrinking levels"),
    runtime(
        &["cudaMemGetInfo"],
        Family::Memory,
        Effect::MemoryInfo,
        &[out(0, Field::DeviceFree), out(1, Field::DeviceTotal)],
    )
    .core()
    .doc("Asks how much device memory is free"),
    driver(
        &["cuMemAlloc_v2"],
        Family::Memory,
        Effect::DeviceAlloc,
        &[out(0, Field::Address), arg(1, Field::Size)],
    )
    .core()
    .doc("Allocates device memory"),
    driver(
        &["cuMemAllocPitch_v2"],
        Family::Memory,
        Effect::DeviceAlloc,
        &[
            out(0, Field::Address),
            out(1, Field::Pitch),
            arg(2, Field::Width),
            arg(3, Field::Height),
        ],
    )
    .doc("Allocates device memory in rows, padded as the device likes it"),
    driver(
        &["cuMemAllocManaged"],
        Family::Memory,
        Effect::ManagedAlloc,
        &[
            out(0, Field::Address),
            arg(1, Field::Size),
            int(2, Field::Option),
        ],
    )
    .core()
    .doc("Allocates memory that host and device share"),
    driver(
        &["cuArrayCreate_v2"],
        Family::Memory,
        Effect::ArrayAlloc,
        &[
            out(0, Field::Handle),
            behind(1, 16, Field::ArrayFormat),
            behind(1, 0, Field::Width),
            behind(1, 8, Field::Height),
        ],
    )
    .doc("Allocates an array; the bytes are those of its elements"),
    driver(
        &["cuArray3DCreate_v2"],
        Family::Memory,
        Effect::ArrayAlloc,
        &[
            out(0, Field::Handle),
            behind(1, 24, Field::ArrayFormat),
            behind(1, 0, Field::Width),
            behind(1, 8, Field::Height),
            behind(1, 16, Field::Depth),
        ],
    )
    .doc("Allocates a 3D or layered array; the bytes are those of its elements"),
    driver(
        &["cuMipmappedArrayCreate"],
        Family::Memory,
        Effect::ArrayAlloc,
        &[out(0, Field::Handle), int(2, Field::Count)],
    )
    .doc("Allocates an array of shrinking levels; how many bytes is not known"),
    driver(
        &["cuMemFree_v2"],
        Family::Memory,
        Effect::DeviceFree,
        &[arg(0, Field::Address)],
    )
    .probe(Probe::EntryAndReturn)
    .core()
    .doc("Frees device memory"),
    driver(
        &["cuArrayDestroy"],
        Family::Memory,
        Effect::ArrayFree,
        &[arg(0, Field::Handle)],
    )
    .probe(Probe::EntryAndReturn)
    .doc("Frees an array"),
    driver(
        &["cuMipmappedArrayDestroy"],
        Family::Memory,
        Effect::ArrayFree,
        &[arg(0, Field::Handle)],
    )
    .probe(Probe::EntryAndReturn)
    .doc("Frees an array of shrinking levels"),
    driver(
        &["cuMemGetInfo_v2"],
        Family::Memory,
        Effect::MemoryInfo,
        &[out(0, Field::DeviceFree), out(1, Field::DeviceTotal)],
    )
    .core()
    .doc("Asks how much device memory is free"),
];
