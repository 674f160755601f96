//! Copies of one range.

use super::{
    arguments::{Memory, int, registers},
    contexts::{DEVICE, OTHER},
    expected::{Expected, nothing},
    layers::{Layer, TWINS, Twin},
    memory,
    session::Session,
};

fn copy(to: u64, from: u64, size: u64, kind: u64) -> Expected {
    nothing()
        .address(to)
        .source(from)
        .size(size)
        .copy_kind(kind)
}

pub(super) fn call(session: &mut Session, layer: Layer) {
    let block = memory::block(session, layer, 0x10_0000);
    let host = Memory::from((0..1024).map(|_| 0));
    let ends = [host.at() + 8, block + 0x1000];
    for twin in TWINS {
        match layer {
            Layer::Runtime => runtime(session, twin, ends),
            Layer::Driver => driver(session, twin, ends),
        }
    }
    if layer == Layer::Runtime {
        between_devices(session, block);
    }
    memory::free(session, layer, block);
}

fn runtime(session: &mut Session, twin: Twin, [host, block]: [u64; 2]) {
    let ends = [
        (host + 0x400, host, 0),
        (block, host, 1),
        (host, block, 2),
        (block + 0x400, block, 3),
        (block, host, 4),
    ];
    for (to, from, kind) in ends {
        let (size, stream) = (0x101 + u64::from(kind), 0x7001 + u64::from(kind));
        session.call(
            &twin.ptds("cudaMemcpy"),
            &registers([to, from, size, int(kind)]),
            copy(to, from, size, kind.into()),
        );
        session.call(
            &twin.ptsz("cudaMemcpyAsync"),
            &registers([to, from, size, int(kind), stream]),
            copy(to, from, size, kind.into()).stream(stream),
        );
    }
    session.call_for(
        &twin.ptds("cudaMemcpy"),
        21,
        &registers([block, host, 9, int(7)]),
        copy(block, host, 9, 7),
    );
    let (size, stream) = (0x111, 0x7010 + twin.extra());
    session.call(
        &twin.ptsz("cudaMemcpyWithAttributesAsync"),
        &registers([block, host, size, 0, stream]),
        copy(block, host, size, 4).stream(stream),
    );
}

fn between_devices(session: &mut Session, block: u64) {
    let address = Memory::out();
    session.call(
        "cudaSetDevice",
        &registers([int(OTHER)]),
        nothing().device(OTHER.into()),
    );
    session.call(
        "cudaMalloc",
        &registers([address.at(), 0x8000]),
        nothing()
            .address_left(&address)
            .size(0x8000)
            .device(OTHER.into()),
    );
    session.call(
        "cudaSetDevice",
        &registers([int(DEVICE)]),
        nothing().device(DEVICE.into()),
    );
    let (other, size, stream) = (address.get(), 0x333, 0x7020);
    let devices = |expected: Expected| expected.device(OTHER.into()).source_device(DEVICE.into());
    session.call(
        "cudaMemcpyPeer",
        &registers([other, int(OTHER), block, int(DEVICE), size]),
        devices(copy(other, block, size, 3)),
    );
    session.call(
        "cudaMemcpyPeerAsync",
        &registers([other, int(OTHER), block, int(DEVICE), size, stream]),
        devices(copy(other, block, size, 3).stream(stream)),
    );
    for twin in TWINS {
        super::shaped_copies::between_devices(session, twin, [other, block]);
    }
    memory::free(session, Layer::Runtime, other);
}

fn driver(session: &mut Session, twin: Twin, [host, block]: [u64; 2]) {
    for (name, to, from, kind) in [
        ("cuMemcpy", block, host, 4),
        ("cuMemcpyHtoD", block, host, 1),
        ("cuMemcpyDtoH", host, block, 2),
        ("cuMemcpyDtoD", block + 0x400, block, 3),
    ] {
        let version = if name == "cuMemcpy" { "" } else { "_v2" };
        let (size, stream) = (0x101 + kind, 0x7001 + kind);
        session.call(
            &twin.ptds(&format!("{name}{version}")),
            &registers([to, from, size]),
            copy(to, from, size, kind),
        );
        session.call(
            &twin.ptsz(&format!("{name}Async{version}")),
            &registers([to, from, size, stream]),
            copy(to, from, size, kind).stream(stream),
        );
    }
    session.call_for(
        &twin.ptds("cuMemcpyHtoD_v2"),
        1,
        &registers([host, block, 9]),
        copy(host, block, 9, 1),
    );
    let (size, stream) = (0x111, 0x7010 + twin.extra());
    session.call(
        &twin.ptsz("cuMemcpyWithAttributesAsync"),
        &registers([block, host, size, 0, stream]),
        copy(block, host, size, 4).stream(stream),
    );
}

/// The driver's peer copies say which contexts, not which devices.
pub(super) fn between_contexts(session: &mut Session, contexts: [u64; 2]) {
    let [context, other_context] = contexts;
    let block = memory::block(session, Layer::Driver, 0x8000);
    session.call(
        "cuCtxSetCurrent",
        &registers([other_context]),
        nothing().handle(other_context),
    );
    let other = memory::block(session, Layer::Driver, 0x9000);
    session.call(
        "cuCtxSetCurrent",
        &registers([context]),
        nothing().handle(context),
    );
    for twin in TWINS {
        let (size, stream) = (0x333 + twin.extra(), 0x7020 + twin.extra());
        let between = |expected: Expected| {
            expected
                .handle(other_context)
                .related(context)
                .device(OTHER.into())
                .source_device(DEVICE.into())
        };
        session.call(
            &twin.ptds("cuMemcpyPeer"),
            &registers([other, other_context, block, context, size]),
            between(copy(other, block, size, 3)),
        );
        session.call(
            &twin.ptsz("cuMemcpyPeerAsync"),
            &registers([other, other_context, block, context, size, stream]),
            between(copy(other, block, size, 3).stream(stream)),
        );
        super::shaped_copies::between_contexts(
            session,
            twin,
            [other, block],
            [other_context, context],
        );
    }
    memory::free(session, Layer::Driver, other);
    memory::free(session, Layer::Driver, block);
}
