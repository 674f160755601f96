//! Copies of rows and layers, and those to and from arrays.

use super::{
    arguments::{Memory, int, pair, registers},
    arrays,
    contexts::{DEVICE, OTHER},
    expected::{Expected, nothing},
    layers::{Layer, TWINS, Twin},
    memory,
    session::Session,
};

/// Bytes of a row, rows and layers: no two products are the same.
const WIDTH: u64 = 97;
const HEIGHT: u64 = 13;
const DEPTH: u64 = 3;
const PITCHES: [u64; 2] = [0x200, 0x400];

/// What the copies are between.
#[derive(Clone, Copy)]
struct Ends {
    host: u64,
    block: u64,
    arrays: [u64; 2],
}

pub(super) fn call(session: &mut Session, layer: Layer) {
    let host = Memory::from((0..4096).map(|_| 0));
    let block = memory::block(session, layer, 0x20_0000);
    let arrays = [(); 2].map(|()| arrays::array(session, layer));
    let ends = Ends {
        host: host.at(),
        block,
        arrays,
    };
    for twin in TWINS {
        match layer {
            Layer::Runtime => {
                rows(session, twin, ends);
                rows_of_arrays(session, twin, ends);
                runs_of_arrays(session, twin, ends);
                layers(session, twin, ends);
            }
            Layer::Driver => {
                driver_arrays(session, twin, ends);
                driver_rows(session, twin, ends);
                driver_layers(session, twin, ends);
            }
        }
        with_attributes(session, layer, twin, ends);
    }
    for array in arrays {
        arrays::free(session, layer, array);
    }
    memory::free(session, layer, block);
}

fn stream(twin: Twin) -> u64 {
    0x8001 + twin.extra()
}

fn rows(session: &mut Session, twin: Twin, Ends { host, block, .. }: Ends) {
    let [to_pitch, from_pitch] = PITCHES;
    let copy = |to, from, kind| {
        nothing()
            .address(to)
            .source(from)
            .size(WIDTH * HEIGHT)
            .copy_kind(kind)
    };
    session.call(
        &twin.ptds("cudaMemcpy2D"),
        &registers([block, to_pitch, host, from_pitch, WIDTH, HEIGHT]).stack([int(1)]),
        copy(block, host, 1),
    );
    session.call(
        &twin.ptsz("cudaMemcpy2DAsync"),
        &registers([host, to_pitch, block, from_pitch, WIDTH, HEIGHT])
            .stack([int(2), stream(twin)]),
        copy(host, block, 2).stream(stream(twin)),
    );
}

fn rows_of_arrays(session: &mut Session, twin: Twin, ends: Ends) {
    let Ends {
        host,
        block,
        arrays: [array, other],
    } = ends;
    let ([x, y], stream) = ([4, 2], stream(twin));
    let copied = |kind| nothing().size(WIDTH * HEIGHT).copy_kind(kind);
    session.call(
        &twin.ptds("cudaMemcpy2DToArray"),
        &registers([array, x, y, host, PITCHES[0], WIDTH]).stack([HEIGHT, int(1)]),
        copied(1).handle(array).source(host),
    );
    session.call(
        &twin.ptsz("cudaMemcpy2DToArrayAsync"),
        &registers([array, x, y, block, PITCHES[0], WIDTH]).stack([HEIGHT, int(3), stream]),
        copied(3).handle(array).source(block).stream(stream),
    );
    session.call(
        &twin.ptds("cudaMemcpy2DFromArray"),
        &registers([host, PITCHES[0], array, x, y, WIDTH]).stack([HEIGHT, int(2)]),
        copied(2).address(host).related(array),
    );
    session.call(
        &twin.ptsz("cudaMemcpy2DFromArrayAsync"),
        &registers([block, PITCHES[0], array, x, y, WIDTH]).stack([HEIGHT, int(3), stream]),
        copied(3).address(block).related(array).stream(stream),
    );
    session.call(
        &twin.ptds("cudaMemcpy2DArrayToArray"),
        &registers([array, x, y, other, x + 4, y + 4]).stack([WIDTH, HEIGHT, int(3)]),
        copied(3).handle(array).related(other),
    );
}

fn runs_of_arrays(session: &mut Session, twin: Twin, ends: Ends) {
    let Ends {
        host,
        block,
        arrays: [array, other],
    } = ends;
    let ([x, y], size, stream) = ([4, 2], 0x1f0, stream(twin));
    let copied = |kind| nothing().size(size).copy_kind(kind);
    session.call(
        &twin.ptds("cudaMemcpyToArray"),
        &registers([array, x, y, host, size, int(1)]),
        copied(1).handle(array).source(host),
    );
    session.call(
        &twin.ptsz("cudaMemcpyToArrayAsync"),
        &registers([array, x, y, block, size, int(3)]).stack([stream]),
        copied(3).handle(array).source(block).stream(stream),
    );
    session.call(
        &twin.ptds("cudaMemcpyFromArray"),
        &registers([host, array, x, y, size, int(2)]),
        copied(2).address(host).related(array),
    );
    session.call(
        &twin.ptsz("cudaMemcpyFromArrayAsync"),
        &registers([block, array, x, y, size, int(3)]).stack([stream]),
        copied(3).address(block).related(array).stream(stream),
    );
    session.call(
        &twin.ptds("cudaMemcpyArrayToArray"),
        &registers([array, x, y, other, x + 4, y + 4]).stack([size, int(3)]),
        copied(3).handle(array).related(other),
    );
}

/// One end of the runtime's 3D copies: array, position, then pointer, pitch, row and rows.
fn end(array: u64, pointer: u64) -> [u64; 8] {
    [array, 8, 1, 0, pointer, PITCHES[1], 0x100, 0x10]
}

fn joined<const N: usize>(parts: &[&[u64]]) -> [u64; N] {
    parts.concat().try_into().expect("the structure's length")
}

const EXTENT: [u64; 3] = [WIDTH, HEIGHT, DEPTH];
const VOLUME: u64 = WIDTH * HEIGHT * DEPTH;

fn layers(session: &mut Session, twin: Twin, ends: Ends) {
    let Ends {
        host,
        block,
        arrays: [array, other],
    } = ends;
    let stream = stream(twin);
    // Source, destination, kind; with an array the extent counts elements.
    let forms = [
        (end(0, host), end(0, block), 1),
        (end(0, host), end(array, 0), 1),
        (end(array, 0), end(0, host), 2),
        (end(other, 0), end(array, 0), 3),
    ];
    for (source, destination, kind) in forms {
        let [from_array, .., from, _, _, _] = source;
        let [to_array, .., to, _, _, _] = destination;
        let expected = || {
            let expected = nothing().copy_kind(kind.into());
            let expected = match to_array {
                0 => expected.address(to),
                array => expected.handle(array),
            };
            let expected = match from_array {
                0 => expected.source(from),
                array => expected.related(array),
            };
            if to_array == 0 && from_array == 0 {
                expected.size(VOLUME)
            } else {
                expected.count(VOLUME).size(VOLUME * arrays::ELEMENT)
            }
        };
        let parameters: [u64; 20] = joined(&[&source, &destination, &EXTENT, &[pair(kind, 0xbad)]]);
        let parameters = Memory::of(parameters);
        session.call(
            &twin.ptds("cudaMemcpy3D"),
            &registers([parameters.at()]),
            expected(),
        );
        session.call(
            &twin.ptsz("cudaMemcpy3DAsync"),
            &registers([parameters.at(), stream]),
            expected().stream(stream),
        );
    }
}

/// The runtime's peer copies of layers, between blocks of two devices.
pub(super) fn between_devices(session: &mut Session, twin: Twin, [to, from]: [u64; 2]) {
    let parameters: [u64; 21] = joined(&[
        &end(0, from),
        &[pair(DEVICE, 0xbad)],
        &end(0, to),
        &[pair(OTHER, 0xbad)],
        &EXTENT,
    ]);
    let parameters = Memory::of(parameters);
    let stream = stream(twin);
    let expected = || {
        nothing()
            .address(to)
            .source(from)
            .size(VOLUME)
            .device(OTHER.into())
            .source_device(DEVICE.into())
    };
    session.call(
        &twin.ptds("cudaMemcpy3DPeer"),
        &registers([parameters.at()]),
        expected(),
    );
    session.call(
        &twin.ptsz("cudaMemcpy3DPeerAsync"),
        &registers([parameters.at(), stream]),
        expected().stream(stream),
    );
}

fn driver_arrays(session: &mut Session, twin: Twin, ends: Ends) {
    let Ends {
        host,
        block,
        arrays: [array, other],
    } = ends;
    let (offset, size, stream) = (0x40, 0x1f1, stream(twin));
    let copied = |kind| nothing().size(size).copy_kind(kind);
    session.call(
        &twin.ptds("cuMemcpyDtoA_v2"),
        &registers([array, offset, block, size]),
        copied(3).handle(array).source(block),
    );
    session.call(
        &twin.ptds("cuMemcpyAtoD_v2"),
        &registers([block, array, offset, size]),
        copied(3).address(block).related(array),
    );
    session.call(
        &twin.ptds("cuMemcpyHtoA_v2"),
        &registers([array, offset, host, size]),
        copied(1).handle(array).source(host),
    );
    session.call(
        &twin.ptsz("cuMemcpyHtoAAsync_v2"),
        &registers([array, offset, host, size, stream]),
        copied(1).handle(array).source(host).stream(stream),
    );
    session.call(
        &twin.ptds("cuMemcpyAtoH_v2"),
        &registers([host, array, offset, size]),
        copied(2).address(host).related(array),
    );
    session.call(
        &twin.ptsz("cuMemcpyAtoHAsync_v2"),
        &registers([host, array, offset, size, stream]),
        copied(2).address(host).related(array).stream(stream),
    );
    session.call(
        &twin.ptds("cuMemcpyAtoA_v2"),
        &registers([array, offset, other, offset + 8, size]),
        copied(3).handle(array).related(other),
    );
}

/// What an end of a driver's copy is: its `CUmemorytype` and the address or array. The other
/// two fields hold what must not be read.
#[derive(Clone, Copy)]
struct DriverEnd(u32, u64);

const HOST: u32 = 1;
const BLOCK: u32 = 2;
const ARRAY: u32 = 3;
const UNIFIED: u32 = 4;

impl DriverEnd {
    /// Memory type, host pointer, device pointer, array.
    fn fields(self) -> [u64; 4] {
        let Self(memory, which) = self;
        let mut fields = [pair(memory, 0xbad), 0xbad1, 0xbad2, 0xbad3];
        let at = match memory {
            HOST => 1,
            ARRAY => 3,
            _ => 2,
        };
        fields[at] = which;
        fields
    }
}

fn driver_forms(
    Ends {
        host,
        block,
        arrays,
    }: Ends,
) -> [(DriverEnd, DriverEnd, u64); 6] {
    let [array, other] = arrays;
    [
        (DriverEnd(HOST, host), DriverEnd(BLOCK, block), 1),
        (DriverEnd(BLOCK, block), DriverEnd(HOST, host), 2),
        (DriverEnd(BLOCK, block), DriverEnd(BLOCK, block + 0x4000), 3),
        (DriverEnd(UNIFIED, block), DriverEnd(UNIFIED, host), 4),
        (DriverEnd(HOST, host), DriverEnd(ARRAY, array), 1),
        (DriverEnd(ARRAY, other), DriverEnd(BLOCK, block), 3),
    ]
}

fn between(source: DriverEnd, destination: DriverEnd, kind: u64) -> Expected {
    let expected = nothing().copy_kind(kind);
    let expected = match source {
        DriverEnd(ARRAY, array) => expected.related(array),
        DriverEnd(_, address) => expected.source(address),
    };
    match destination {
        DriverEnd(ARRAY, array) => expected.handle(array),
        DriverEnd(_, address) => expected.address(address),
    }
}

fn driver_rows(session: &mut Session, twin: Twin, ends: Ends) {
    let stream = stream(twin);
    for (source, destination, kind) in driver_forms(ends) {
        let parameters: [u64; 16] = joined(&[
            &[8, 1],
            &source.fields(),
            &[PITCHES[0]],
            &[16, 2],
            &destination.fields(),
            &[PITCHES[1]],
            &[WIDTH, HEIGHT],
        ]);
        let parameters = Memory::of(parameters);
        let expected = || between(source, destination, kind).size(WIDTH * HEIGHT);
        for symbol in ["cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2"] {
            session.call(
                &twin.ptds(symbol),
                &registers([parameters.at()]),
                expected(),
            );
        }
        session.call(
            &twin.ptsz("cuMemcpy2DAsync_v2"),
            &registers([parameters.at(), stream]),
            expected().stream(stream),
        );
    }
}

/// `CUDA_MEMCPY3D` or, with contexts, `CUDA_MEMCPY3D_PEER`.
fn driver_parameters(
    source: DriverEnd,
    destination: DriverEnd,
    [to_context, from_context]: [u64; 2],
) -> Memory {
    let parameters: [u64; 25] = joined(&[
        &[8, 1, 0, 0],
        &source.fields(),
        &[from_context, PITCHES[0], 0x20],
        &[16, 2, 1, 0],
        &destination.fields(),
        &[to_context, PITCHES[1], 0x40],
        &EXTENT,
    ]);
    Memory::of(parameters)
}

fn driver_layers(session: &mut Session, twin: Twin, ends: Ends) {
    let stream = stream(twin);
    for (source, destination, kind) in driver_forms(ends) {
        let parameters = driver_parameters(source, destination, [0, 0]);
        let expected = || between(source, destination, kind).size(VOLUME);
        session.call(
            &twin.ptds("cuMemcpy3D_v2"),
            &registers([parameters.at()]),
            expected(),
        );
        session.call(
            &twin.ptsz("cuMemcpy3DAsync_v2"),
            &registers([parameters.at(), stream]),
            expected().stream(stream),
        );
    }
}

/// The driver's peer copies of layers: destination first.
pub(super) fn between_contexts(
    session: &mut Session,
    twin: Twin,
    [to, from]: [u64; 2],
    contexts: [u64; 2],
) {
    let (source, destination) = (DriverEnd(BLOCK, from), DriverEnd(BLOCK, to));
    let parameters = driver_parameters(source, destination, contexts);
    let stream = stream(twin);
    let expected = || {
        between(source, destination, 3)
            .size(VOLUME)
            .handle(contexts[0])
            .related(contexts[1])
            .device(OTHER.into())
            .source_device(DEVICE.into())
    };
    session.call(
        &twin.ptds("cuMemcpy3DPeer"),
        &registers([parameters.at()]),
        expected(),
    );
    session.call(
        &twin.ptsz("cuMemcpy3DPeerAsync"),
        &registers([parameters.at(), stream]),
        expected().stream(stream),
    );
}

/// One copy of a batch's form: the ends are not recorded.
fn with_attributes(session: &mut Session, layer: Layer, twin: Twin, ends: Ends) {
    let copied = super::batches::layers(ends.block, ends.host, EXTENT);
    let (copied, stream) = (Memory::from(copied), stream(twin));
    let symbol = layer.name(
        "cudaMemcpy3DWithAttributesAsync",
        "cuMemcpy3DWithAttributesAsync",
    );
    session.call(
        &twin.ptsz(symbol),
        &registers([copied.at(), 0, stream]),
        nothing().size(VOLUME).copy_kind(4).stream(stream),
    );
}
