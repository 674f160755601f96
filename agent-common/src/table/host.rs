//! Host memory that the device can reach.

use super::{driver, runtime};
use crate::{
    api::{Api, Effect, Family, Probe},
    value::{Field, arg, int, out},
};

pub(super) const ROWS: [Api; 10] = [
    runtime(
        &["cudaMallocHost"],
        Family::Memory,
        Effect::HostAlloc,
        &[out(0, Field::Address), arg(1, Field::Size)],
    )
    .core()
    .doc("Allocates pinned host memory"),
    runtime(
        &["cudaHostAlloc"],
        Family::Memory,
        Effect::HostAlloc,
        &[
            out(0, Field::Address),
            arg(1, Field::Size),
            int(2, Field::Option),
        ],
    )
    .core()
    .doc("Allocates pinned host memory"),
    runtime(
        &["cudaFreeHost"],
        Family::Memory,
        Effect::HostFree,
        &[arg(0, Field::Address)],
    )
    .probe(Probe::EntryAndReturn)
    .core()
    .doc("Frees pinned host memory"),
    runtime(
        &["cudaHostRegister"],
        Family::Memory,
        Effect::HostRegister,
        &[
            arg(0, Field::Address),
            arg(1, Field::Size),
            int(2, Field::Option),
        ],
    )
    .doc("Pins host memory that the program has already"),
    runtime(
        &["cudaHostUnregister"],
        Family::Memory,
        Effect::HostUnregister,
        &[arg(0, Field::Address)],
    )
    .probe(Probe::EntryAndReturn)
    .doc("Ends the pinning of host memory"),
    driver(
        &["cuMemAllocHost_v2"],
        Family::Memory,
        Effect::HostAlloc,
        &[out(0, Field::Address), arg(1, Field::Size)],
    )
    .core()
    .doc("Allocates pinned host memory"),
    driver(
        &["cuMemHostAlloc"],
        Family::Memory,
        Effect::HostAlloc,
        &[
            out(0, Field::Address),
            arg(1, Field::Size),
            int(2, Field::Option),
        ],
    )
    .core()
    .doc("Allocates pinned host memory"),
    driver(
        &["cuMemFreeHost"],
        Family::Memory,
        Effect::HostFree,
        &[arg(0, Field::Address)],
    )
    .probe(Probe::EntryAndReturn)
    .core()
    .doc("Frees pinned host memory"),
    driver(
        &["cuMemHostRegister_v2"],
        Family::Memory,
        Effect::HostRegister,
        &[
            arg(0, Field::Address),
            arg(1, Field::Size),
            int(2, Field::Option),
        ],
    )
    .doc("Pins host memory that the program has already"),
    driver(
        &["cuMemHostUnregister"],
        Family::Memory,
        Effect::HostUnregister,
        &[arg(0, Field::Address)],
    )
    .probe(Probe::EntryAndReturn)
    .doc("Ends the pinning of host memory"),
];
