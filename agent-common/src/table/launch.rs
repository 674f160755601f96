//! Kernel launches, probed at entry only.

use super::{driver, ptsz, runtime};
use crate::{
    api::{Api, Effect, Family, Probe, Shape},
    value::{Field, arg, int},
};

pub(super) const ROWS: [Api; 10] = [
    // `__cudaLaunchKernel` jumps to `cudaLaunchKernel`: probing it too would count twice.
    runtime(
        ptsz!("cudaLaunchKernel"),
        Family::Launch,
        Effect::Launch,
        &[],
    )
    .shape(Shape::LaunchRuntime)
    .probe(Probe::Entry)
    .core()
    .doc("Launches a kernel"),
    runtime(
        ptsz!("cudaLaunchKernelExC"),
        Family::Launch,
        Effect::Launch,
        &[],
    )
    .shape(Shape::LaunchRuntimeEx)
    .probe(Probe::Entry)
    .since(11080)
    .core()
    .doc("Launches a kernel with attributes, such as clusters"),
    runtime(
        ptsz!("cudaLaunchCooperativeKernel"),
        Family::Launch,
        Effect::Launch,
        &[],
    )
    .shape(Shape::LaunchRuntime)
    .probe(Probe::Entry)
    .core()
    .doc("Launches a kernel whose blocks may wait for each other"),
    runtime(
        ptsz!("cudaLaunchHostFunc"),
        Family::Launch,
        Effect::HostFunction,
        &[arg(0, Field::Stream), arg(1, Field::Handle)],
    )
    .doc("Puts a function of the host into a stream"),
    runtime(
        ptsz!("cudaLaunchHostFunc_v2"),
        Family::Launch,
        Effect::HostFunction,
        &[
            arg(0, Field::Stream),
            arg(1, Field::Handle),
            int(3, Field::Option),
        ],
    )
    .since(13040)
    .doc("Puts a function of the host into a stream"),
    driver(ptsz!("cuLaunchKernel"), Family::Launch, Effect::Launch, &[])
        .shape(Shape::LaunchDriver)
        .probe(Probe::Entry)
        .core()
        .doc("Launches a kernel"),
    driver(
        ptsz!("cuLaunchKernelEx"),
        Family::Launch,
        Effect::Launch,
        &[],
    )
    .shape(Shape::LaunchDriverEx)
    .probe(Probe::Entry)
    .since(11060)
    .core()
    .doc("Launches a kernel with attributes; Triton and cuBLAS use it"),
    driver(
        ptsz!("cuLaunchCooperativeKernel"),
        Family::Launch,
        Effect::Launch,
        &[],
    )
    .shape(Shape::LaunchDriver)
    .probe(Probe::Entry)
    .core()
    .doc("Launches a kernel whose blocks may wait for each other"),
    driver(
        ptsz!("cuLaunchHostFunc"),
        Family::Launch,
        Effect::HostFunction,
        &[arg(0, Field::Stream), arg(1, Field::Handle)],
    )
    .doc("Puts a function of the host into a stream"),
    driver(
        ptsz!("cuLaunchHostFunc_v2"),
        Family::Launch,
        Effect::HostFunction,
        &[
            arg(0, Field::Stream),
            arg(1, Field::Handle),
            int(3, Field::Option),
        ],
    )
    .since(13010)
    .doc("Puts a function of the host into a stream"),
];
