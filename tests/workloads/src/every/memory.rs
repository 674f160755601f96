//! Device and managed memory, and how much is free.

use super::{
    arguments::{Arguments, Memory, int, registers},
    expected::{Expected, nothing},
    layers::Layer,
    session::Session,
};

/// Bytes of a row, rows and layers: no two products are the same.
const WIDTH: u64 = 1000;
const HEIGHT: u64 = 37;
const DEPTH: u64 = 5;

/// A device block for others to use.
pub(super) fn block(session: &mut Session, layer: Layer, size: u64) -> u64 {
    let address = Memory::out();
    session.call(
        layer.name("cudaMalloc", "cuMemAlloc_v2"),
        &registers([address.at(), size]),
        nothing().address_left(&address).size(size),
    );
    address.get()
}

/// Frees it.
pub(super) fn free(session: &mut Session, layer: Layer, address: u64) {
    session.call(
        layer.name("cudaFree", "cuMemFree_v2"),
        &registers([address]),
        nothing().address(address),
    );
}

pub(super) fn call(session: &mut Session, layer: Layer) {
    let plain = block(session, layer, 0x1_2345);
    rows(session, layer);
    managed(session, layer);
    let (free_bytes, total) = (Memory::out(), Memory::out());
    session.call(
        layer.name("cudaMemGetInfo", "cuMemGetInfo_v2"),
        &registers([free_bytes.at(), total.at()]),
        nothing()
            .device_free_left(&free_bytes)
            .device_total_left(&total),
    );
    assert!(free_bytes.get() < total.get());
    free(session, layer, plain);
    let freed_twice = layer.name("cudaFree", "cuMemFree_v2");
    session.call_for(
        freed_twice,
        1,
        &registers([plain]),
        nothing().address(plain),
    );
    let too_much = 1 << 50;
    session.call_for(
        layer.name("cudaMalloc", "cuMemAlloc_v2"),
        2,
        &registers([free_bytes.at(), too_much]),
        nothing().size(too_much),
    );
}

fn rows(session: &mut Session, layer: Layer) {
    // Address, and pitch.
    let left = Memory::of([0; 4]);
    let pitch_at = left.at() + 8;
    let sized = |layers: u64| -> Expected {
        let (pitch, address) = (left.clone(), left.clone());
        nothing().left("address", move || address.get()).size_or(
            move || pitch.word(1) * HEIGHT * layers,
            WIDTH * HEIGHT * layers,
        )
    };
    let call = |session: &mut Session, symbol: &str, arguments: Arguments, layers: u64| {
        session.call(symbol, &arguments, sized(layers));
        assert!(left.word(1) > WIDTH, "rows are padded");
        free(session, layer, left.get());
    };
    match layer {
        Layer::Runtime => {
            let arguments = registers([left.at(), pitch_at, WIDTH, HEIGHT]);
            call(session, "cudaMallocPitch", arguments, 1);
            let arguments = registers([left.at()]).stack([WIDTH, HEIGHT, DEPTH]);
            call(session, "cudaMalloc3D", arguments, DEPTH);
        }
        Layer::Driver => {
            let arguments = registers([left.at(), pitch_at, WIDTH, HEIGHT, int(8)]);
            call(session, "cuMemAllocPitch_v2", arguments, 1);
        }
    }
}

fn managed(session: &mut Session, layer: Layer) {
    let (size, address) = (0x2_3456, Memory::out());
    session.call(
        layer.name("cudaMallocManaged", "cuMemAllocManaged"),
        &registers([address.at(), size, int(2)]),
        nothing().address_left(&address).size(size).option(2),
    );
    free(session, layer, address.get());
}
