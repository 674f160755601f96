//! Sets.

use super::{
    arguments::{int, registers},
    expected::nothing,
    layers::{Layer, TWINS, Twin},
    memory,
    session::Session,
};

const VALUE: u64 = int(0x7a);
const PITCH: u64 = 0x1000;

pub(super) fn call(session: &mut Session, layer: Layer) {
    let block = memory::block(session, layer, 0x40_0000);
    for twin in TWINS {
        match layer {
            Layer::Runtime => runtime(session, twin, block),
            Layer::Driver => driver(session, twin, block),
        }
    }
    memory::free(session, layer, block);
}

fn runtime(session: &mut Session, twin: Twin, block: u64) {
    let (to, stream) = (block + 0x200, 0x6001 + twin.extra());
    let set = |size| nothing().address(to).size(size);
    let in_stream = |size| set(size).stream(stream);
    session.call(
        &twin.ptds("cudaMemset"),
        &registers([to, VALUE, 0x123]),
        set(0x123),
    );
    session.call(
        &twin.ptsz("cudaMemsetAsync"),
        &registers([to, VALUE, 0x124, stream]),
        in_stream(0x124),
    );
    let (width, height, depth) = (0x321, 11, 3);
    session.call(
        &twin.ptds("cudaMemset2D"),
        &registers([to, PITCH, VALUE, width, height]),
        set(width * height),
    );
    session.call(
        &twin.ptsz("cudaMemset2DAsync"),
        &registers([to, PITCH, VALUE, width, height, stream]),
        in_stream(width * height),
    );
    let by_value = [to, PITCH, 0x400, 0x20, width, height, depth];
    session.call(
        &twin.ptds("cudaMemset3D"),
        &registers([VALUE]).stack(by_value),
        set(width * height * depth),
    );
    session.call(
        &twin.ptsz("cudaMemset3DAsync"),
        &registers([VALUE, stream]).stack(by_value),
        in_stream(width * height * depth),
    );
    session.call_for(
        &twin.ptds("cudaMemset"),
        1,
        &registers([0x77, VALUE, 0x123]),
        nothing().address(0x77).size(0x123),
    );
}

fn driver(session: &mut Session, twin: Twin, block: u64) {
    for (bits, bytes) in [(8, 1), (16, 2), (32, 4)] {
        let (to, stream) = (block + 0x200 * bits, 0x6100 + bits + twin.extra());
        let set = |units: u64| nothing().address(to).size(units * bytes);
        let in_stream = |units| set(units).stream(stream);
        session.call(
            &twin.ptds(&format!("cuMemsetD{bits}_v2")),
            &registers([to, VALUE, 0x123]),
            set(0x123),
        );
        session.call(
            &twin.ptsz(&format!("cuMemsetD{bits}Async")),
            &registers([to, VALUE, 0x124, stream]),
            in_stream(0x124),
        );
        let (width, height) = (0x321, 11);
        session.call(
            &twin.ptds(&format!("cuMemsetD2D{bits}_v2")),
            &registers([to, PITCH, VALUE, width, height]),
            set(width * height),
        );
        session.call(
            &twin.ptsz(&format!("cuMemsetD2D{bits}Async")),
            &registers([to, PITCH, VALUE, width, height, stream]),
            in_stream(width * height),
        );
    }
}
