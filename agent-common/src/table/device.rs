//! Contexts, which device is which, and what their errors mean.

use super::{driver, runtime};
use crate::{
    api::{Api, Effect, Family, Probe},
    value::{Field, arg, int, out, out_at},
};

pub(super) const ROWS: [Api; 26] = [
    runtime(
        &["cudaSetDevice"],
        Family::Device,
        Effect::SelectDevice,
        &[int(0, Field::Device)],
    )
    .core()
    .doc("Chooses the device of the calling thread"),
    runtime(
        &["cudaDeviceReset"],
        Family::Device,
        Effect::ContextReset,
        &[],
    )
    .probe(Probe::EntryAndReturn)
    .doc("Ends the device's primary context and frees all its memory"),
    runtime(
        &["cudaDeviceGraphMemTrim"],
        Family::Device,
        Effect::GraphMemoryTrim,
        &[int(0, Field::Device)],
    )
    .doc("Gives unused memory of graphs back to the device"),
    runtime(
        &["cudaGetDeviceProperties"],
        Family::Device,
        Effect::DeviceIdentity,
        &[
            int(1, Field::Device),
            out_at(0, 256, Field::UuidLow),
            out_at(0, 264, Field::UuidHigh),
        ],
    )
    .doc("Asks for a device's properties, its UUID among them"),
    runtime(
        &["cudaGetDeviceProperties_v2"],
        Family::Device,
        Effect::DeviceIdentity,
        &[
            int(1, Field::Device),
            out_at(0, 256, Field::UuidLow),
            out_at(0, 264, Field::UuidHigh),
        ],
    )
    .since(12000)
    .doc("Asks for a device's properties, its UUID among them; in CUDA 12 only"),
    runtime(
        &["cudaDeviceGetPCIBusId"],
        Family::Device,
        Effect::DeviceIdentity,
        &[
            int(2, Field::Device),
            out_at(0, 0, Field::PciLow),
            out_at(0, 8, Field::PciHigh),
        ],
    )
    .doc("Asks for a device's PCI bus id"),
    driver(
        &["cuCtxSetCurrent"],
        Family::Device,
        Effect::SelectDevice,
        &[arg(0, Field::Context)],
    )
    .core()
    .doc("Chooses the context of the calling thread"),
    driver(
        &["cuCtxPushCurrent_v2"],
        Family::Device,
        Effect::ContextPush,
        &[arg(0, Field::Context)],
    )
    .doc("Puts a context on the calling thread's stack"),
    driver(
        &["cuCtxPopCurrent_v2"],
        Family::Device,
        Effect::ContextPop,
        &[out(0, Field::Context)],
    )
    .doc("Takes a context off the calling thread's stack"),
    driver(
        &["cuDevicePrimaryCtxRetain"],
        Family::Device,
        Effect::ContextRetain,
        &[out(0, Field::Context), int(1, Field::Device)],
    )
    .doc("Takes a reference to a device's primary context; the first one makes it"),
    driver(
        &["cuDevicePrimaryCtxRelease_v2"],
        Family::Device,
        Effect::ContextRelease,
        &[int(0, Field::Device)],
    )
    .probe(Probe::EntryAndReturn)
    .core()
    .doc("Gives up a reference to a device's primary context; the last one ends it"),
    driver(
        &["cuDevicePrimaryCtxReset_v2"],
        Family::Device,
        Effect::ContextReset,
        &[int(0, Field::Device)],
    )
    .probe(Probe::EntryAndReturn)
    .core()
    .doc("Ends a device's primary context and frees all its memory"),
    driver(
        &["cuDevicePrimaryCtxRelease"],
        Family::Device,
        Effect::ContextRelease,
        &[int(0, Field::Device)],
    )
    .probe(Probe::EntryAndReturn)
    .core()
    .doc("As cuDevicePrimaryCtxRelease_v2, before CUDA 11"),
    driver(
        &["cuDevicePrimaryCtxReset"],
        Family::Device,
        Effect::ContextReset,
        &[int(0, Field::Device)],
    )
    .probe(Probe::EntryAndReturn)
    .core()
    .doc("As cuDevicePrimaryCtxReset_v2, before CUDA 11; runtimes still call this one"),
    driver(
        &["cuCtxCreate_v2"],
        Family::Device,
        Effect::ContextCreate,
        &[out(0, Field::Context), int(2, Field::Device)],
    )
    .doc("Makes a context"),
    driver(
        &["cuCtxCreate_v3"],
        Family::Device,
        Effect::ContextCreate,
        &[out(0, Field::Context), int(4, Field::Device)],
    )
    .since(11040)
    .doc("Makes a context"),
    driver(
        &["cuCtxCreate_v4"],
        Family::Device,
        Effect::ContextCreate,
        &[out(0, Field::Context), int(3, Field::Device)],
    )
    .since(12050)
    .doc("Makes a context"),
    driver(
        &["cuCtxDestroy_v2"],
        Family::Device,
        Effect::ContextDestroy,
        &[arg(0, Field::Context)],
    )
    .probe(Probe::EntryAndReturn)
    .core()
    .doc("Ends a context and frees all its memory"),
    driver(
        &["cuDeviceGraphMemTrim"],
        Family::Device,
        Effect::GraphMemoryTrim,
        &[int(0, Field::Device)],
    )
    .doc("Gives unused memory of graphs back to the device"),
    driver(
        &["cuDeviceGetUuid"],
        Family::Device,
        Effect::DeviceIdentity,
        &[
            int(1, Field::Device),
            out_at(0, 0, Field::UuidLow),
            out_at(0, 8, Field::UuidHigh),
        ],
    )
    .doc("Asks for a device's UUID"),
    driver(
        &["cuDeviceGetUuid_v2"],
        Family::Device,
        Effect::DeviceIdentity,
        &[
            int(1, Field::Device),
            out_at(0, 0, Field::UuidLow),
            out_at(0, 8, Field::UuidHigh),
        ],
    )
    .since(11040)
    .doc("Asks for a device's UUID, or that of the part of it that is ours (MIG)"),
    driver(
        &["cuDeviceGetPCIBusId"],
        Family::Device,
        Effect::DeviceIdentity,
        &[
            int(2, Field::Device),
            out_at(0, 0, Field::PciLow),
            out_at(0, 8, Field::PciHigh),
        ],
    )
    .doc("Asks for a device's PCI bus id"),
    // Launches are probed at entry alone, and `cudaGetLastError` follows each of them: what either
    // returns is told by what the program says of it.
    runtime(
        &["cudaGetErrorString"],
        Family::Device,
        Effect::ErrorText,
        &[int(0, Field::Option)],
    )
    .probe(Probe::Entry)
    .doc("Asks what an error means: programs do when they have got it"),
    runtime(
        &["cudaGetErrorName"],
        Family::Device,
        Effect::ErrorText,
        &[int(0, Field::Option)],
    )
    .probe(Probe::Entry)
    .doc("Asks what an error is called: programs do when they have got it"),
    driver(
        &["cuGetErrorString"],
        Family::Device,
        Effect::ErrorText,
        &[int(0, Field::Option)],
    )
    .probe(Probe::Entry)
    .doc("Asks what an error means: programs do when they have got it"),
    driver(
        &["cuGetErrorName"],
        Family::Device,
        Effect::ErrorText,
        &[int(0, Field::Option)],
    )
    .probe(Probe::Entry)
    .doc("Asks what an error is called: programs do when they have got it"),
];
