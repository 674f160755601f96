//! Host memory that the device can reach.

use super::{
    arguments::{Memory, int, registers},
    expected::nothing,
    layers::Layer,
    session::Session,
};

pub(super) fn call(session: &mut Session, layer: Layer) {
    let address = Memory::out();
    for (symbol, size, flags) in [
        (
            layer.name("cudaMallocHost", "cuMemAllocHost_v2"),
            0x3_1111,
            None,
        ),
        (
            layer.name("cudaHostAlloc", "cuMemHostAlloc"),
            0x3_2222,
            Some(3),
        ),
    ] {
        let (arguments, expected) = match flags {
            None => (registers([address.at(), size]), nothing()),
            Some(flags) => (
                registers([address.at(), size, int(flags)]),
                nothing().option(flags.into()),
            ),
        };
        session.call(
            symbol,
            &arguments,
            expected.address_left(&address).size(size),
        );
        let block = address.get();
        session.call(
            layer.name("cudaFreeHost", "cuMemFreeHost"),
            &registers([block]),
            nothing().address(block),
        );
    }

    let own = Memory::of([0; 32]);
    let size = 8 * 31;
    session.call(
        layer.name("cudaHostRegister", "cuMemHostRegister_v2"),
        &registers([own.at(), size, int(1)]),
        nothing().address(own.at()).size(size).option(1),
    );
    let unregister = layer.name("cudaHostUnregister", "cuMemHostUnregister");
    session.call(
        unregister,
        &registers([own.at()]),
        nothing().address(own.at()),
    );
    session.call_for(
        unregister,
        713,
        &registers([own.at()]),
        nothing().address(own.at()),
    );
}
