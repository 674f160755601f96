//! Arrays.

use super::{
    arguments::{Arguments, Memory, int, pair, registers},
    expected::{Expected, nothing},
    layers::Layer,
    session::Session,
};

/// Elements of a row, rows and layers.
const WIDTH: u64 = 33;
const HEIGHT: u64 = 21;
const DEPTH: u64 = 7;
/// Bytes of an element: two channels of 16 bits.
pub(super) const ELEMENT: u64 = 4;

/// `cudaChannelFormatDesc`: bits of x, y, z and w; unsigned.
fn channels() -> Memory {
    Memory::of([pair(16, 16), pair(0, 0), pair(1, 0)])
}

/// `CU_AD_FORMAT_UNSIGNED_INT16`, two channels.
const FORMAT: u64 = pair(0x02, 2);

/// An array for others to use, of a kilobyte and more in a row.
pub(super) fn array(session: &mut Session, layer: Layer) -> u64 {
    let handle = Memory::out();
    let (symbol, arguments, _described) = two_dimensions(layer, &handle, 2048, 64);
    session.call(
        symbol,
        &arguments,
        nothing()
            .handle_left(&handle)
            .count(2048 * 64)
            .size(2048 * 64 * ELEMENT),
    );
    handle.get()
}

/// Gives it back.
pub(super) fn free(session: &mut Session, layer: Layer, array: u64) {
    session.call(
        layer.name("cudaFreeArray", "cuArrayDestroy"),
        &registers([array]),
        nothing().handle(array),
    );
}

fn two_dimensions(
    layer: Layer,
    handle: &Memory,
    width: u64,
    height: u64,
) -> (&'static str, Arguments, Memory) {
    match layer {
        Layer::Runtime => {
            let format = channels();
            let arguments = registers([handle.at(), format.at(), width, height, int(0)]);
            ("cudaMallocArray", arguments, format)
        }
        Layer::Driver => {
            let descriptor = Memory::of([width, height, FORMAT]);
            (
                "cuArrayCreate_v2",
                registers([handle.at(), descriptor.at()]),
                descriptor,
            )
        }
    }
}

pub(super) fn call(session: &mut Session, layer: Layer) {
    let handle = Memory::out();
    let sized = |elements: u64| -> Expected {
        nothing()
            .handle_left(&handle)
            .count(elements)
            .size(elements * ELEMENT)
    };
    for (width, height, elements) in [(WIDTH, HEIGHT, WIDTH * HEIGHT), (WIDTH, 0, WIDTH)] {
        let (symbol, arguments, _described) = two_dimensions(layer, &handle, width, height);
        session.call(symbol, &arguments, sized(elements));
        free(session, layer, handle.get());
    }

    let (format, descriptor) = (
        channels(),
        Memory::of([WIDTH, HEIGHT, DEPTH, FORMAT, pair(0, 0)]),
    );
    let (symbol, arguments) = match layer {
        Layer::Runtime => (
            "cudaMalloc3DArray",
            registers([handle.at(), format.at(), int(0)]).stack([WIDTH, HEIGHT, DEPTH]),
        ),
        Layer::Driver => (
            "cuArray3DCreate_v2",
            registers([handle.at(), descriptor.at()]),
        ),
    };
    session.call(symbol, &arguments, sized(WIDTH * HEIGHT * DEPTH));
    free(session, layer, handle.get());

    let levels = int(3);
    let (symbol, arguments) = match layer {
        Layer::Runtime => (
            "cudaMallocMipmappedArray",
            registers([handle.at(), format.at(), levels, int(0)]).stack([WIDTH, HEIGHT, DEPTH]),
        ),
        Layer::Driver => (
            "cuMipmappedArrayCreate",
            registers([handle.at(), descriptor.at(), levels]),
        ),
    };
    session.call(symbol, &arguments, nothing().handle_left(&handle).count(3));
    let destroy = layer.name("cudaFreeMipmappedArray", "cuMipmappedArrayDestroy");
    let array = handle.get();
    session.call(destroy, &registers([array]), nothing().handle(array));
    session.call_for(destroy, 400, &registers([array]), nothing().handle(array));
}
