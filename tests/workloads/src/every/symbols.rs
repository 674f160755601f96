//! Copies to and from a variable of the device. Runtime only.

use super::{
    arguments::{Memory, int, registers},
    expected::nothing,
    layers::TWINS,
    session::{Session, VARIABLE},
};

pub(super) fn call(session: &mut Session) {
    let symbol = (&raw const VARIABLE) as u64;
    let host = Memory::of([0; 64]);
    let (size, offset) = (0x71, 0x10);
    for twin in TWINS {
        let stream = 0xd001 + twin.extra();
        let to = || {
            nothing()
                .handle(symbol)
                .source(host.at())
                .size(size)
                .offset(offset)
                .copy_kind(1)
        };
        let from = || {
            nothing()
                .related(symbol)
                .address(host.at())
                .size(size)
                .offset(offset)
                .copy_kind(2)
        };
        session.call(
            &twin.ptds("cudaMemcpyToSymbol"),
            &registers([symbol, host.at(), size, offset, int(1)]),
            to(),
        );
        session.call(
            &twin.ptsz("cudaMemcpyToSymbolAsync"),
            &registers([symbol, host.at(), size, offset, int(1), stream]),
            to().stream(stream),
        );
        session.call(
            &twin.ptds("cudaMemcpyFromSymbol"),
            &registers([host.at(), symbol, size, offset, int(2)]),
            from(),
        );
        session.call(
            &twin.ptsz("cudaMemcpyFromSymbolAsync"),
            &registers([host.at(), symbol, size, offset, int(2), stream]),
            from().stream(stream),
        );
    }
}
