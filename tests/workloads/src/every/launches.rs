//! Launches, and functions of the host.

use std::ffi::c_void;

use super::{
    arguments::{Memory, int, pair, registers},
    expected::nothing,
    layers::{Layer, TWINS, Twin},
    modules,
    session::Session,
};
use crate::kernels;

const GRID: [u32; 3] = [3, 5, 7];
const BLOCK: [u32; 3] = [11, 13, 2];
const SHARED: u32 = 0x1357;

extern "C" fn on_the_host(_: *mut c_void) {}

pub(super) fn call(session: &mut Session, layer: Layer) {
    let kernel = match layer {
        Layer::Runtime => kernels::ATTENTION.address() as u64,
        Layer::Driver => modules::function(session),
    };
    for twin in TWINS {
        launch(session, layer, twin, kernel, 0xa001 + twin.extra());
        host_functions(session, layer, twin);
    }
}

/// Every way to launch, into a stream.
fn launch(session: &mut Session, layer: Layer, twin: Twin, kernel: u64, stream: u64) {
    let expected = || {
        nothing()
            .handle(kernel)
            .launch(GRID, BLOCK, SHARED.into())
            .stream(stream)
    };
    let [gx, gy, gz] = GRID;
    let [bx, by, bz] = BLOCK;
    let none = Memory::of([0; 2]);
    let plain =
        match layer {
            Layer::Runtime => registers([
                kernel,
                pair(gx, gy),
                int(gz),
                pair(bx, by),
                int(bz),
                none.at(),
            ])
            .stack([SHARED.into(), stream]),
            Layer::Driver => registers([kernel, int(gx), int(gy), int(gz), int(bx), int(by)])
                .stack([int(bz), int(SHARED), stream, none.at(), 0]),
        };
    for symbol in [
        layer.name("cudaLaunchKernel", "cuLaunchKernel"),
        layer.name("cudaLaunchCooperativeKernel", "cuLaunchCooperativeKernel"),
    ] {
        session.call(&twin.ptsz(symbol), &plain, expected());
    }
    // `cudaLaunchConfig_t` has a `size_t` of shared memory, `CUlaunchConfig` an `unsigned int`.
    let shared = layer_shared(layer);
    let config = Memory::of([
        pair(gx, gy),
        pair(gz, bx),
        pair(by, bz),
        shared,
        stream,
        0,
        pair(0, 0xbad),
    ]);
    let arguments = match layer {
        Layer::Runtime => registers([config.at(), kernel, none.at()]),
        Layer::Driver => registers([config.at(), kernel, none.at(), 0]),
    };
    let symbol = layer.name("cudaLaunchKernelExC", "cuLaunchKernelEx");
    session.call(&twin.ptsz(symbol), &arguments, expected());
}

fn layer_shared(layer: Layer) -> u64 {
    match layer {
        Layer::Runtime => SHARED.into(),
        Layer::Driver => pair(SHARED, 0xbad),
    }
}

/// One launch in a captured stream.
pub(super) fn captured(session: &mut Session, layer: Layer, twin: Twin, stream: u64) {
    let one = int(1);
    let (symbol, kernel, arguments) = match layer {
        Layer::Runtime => {
            let kernel = kernels::SAMPLE.address() as u64;
            let shape = pair(1, 1);
            let arguments = registers([kernel, shape, one, shape, one, 0]).stack([0, stream]);
            ("cudaLaunchKernel", kernel, arguments)
        }
        Layer::Driver => {
            let kernel = modules::function(session);
            let arguments =
                registers([kernel, one, one, one, one, one]).stack([one, int(0), stream, 0, 0]);
            ("cuLaunchKernel", kernel, arguments)
        }
    };
    let expected = nothing()
        .handle(kernel)
        .launch([1; 3], [1; 3], 0)
        .stream(stream);
    session.call(&twin.ptsz(symbol), &arguments, expected.captured());
}

fn host_functions(session: &mut Session, layer: Layer, twin: Twin) {
    let (stream, data) = (0xa011 + twin.extra(), 0x7777);
    let function = on_the_host as extern "C" fn(*mut c_void) as usize as u64;
    let expected = || nothing().stream(stream).handle(function);
    session.call(
        &twin.ptsz(layer.name("cudaLaunchHostFunc", "cuLaunchHostFunc")),
        &registers([stream, function, data]),
        expected(),
    );
    session.call(
        &twin.ptsz(layer.name("cudaLaunchHostFunc_v2", "cuLaunchHostFunc_v2")),
        &registers([stream, function, data, int(1)]),
        expected().option(1),
    );
}
