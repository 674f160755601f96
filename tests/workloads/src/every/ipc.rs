//! Blocks of other processes: this one shows a block, and plays the other one too.

use super::{
    arguments::{Memory, int, registers},
    expected::nothing,
    layers::Layer,
    memory,
    session::Session,
};

pub(super) fn call(session: &mut Session, layer: Layer) {
    let blocks = [0x5_1111, 0x55_2222].map(|size| memory::block(session, layer, size));
    let open = layer.name("cudaIpcOpenMemHandle", "cuIpcOpenMemHandle_v2");
    for block in blocks {
        let shared = Memory::of([0; 8]);
        session.call(
            layer.name("cudaIpcGetMemHandle", "cuIpcGetMemHandle"),
            &registers([shared.at(), block]),
            nothing().address(block).handle_names(&shared),
        );
        let address = Memory::out();
        let words: Vec<u64> = shared.words().collect();
        let by_value: [u64; 8] = words.try_into().expect("eight words");
        session.call(
            open,
            &registers([address.at(), int(1)]).stack(by_value),
            nothing()
                .address_left(&address)
                .handle_names(&shared)
                .option(1),
        );
        let opened = address.get();
        session.call(
            layer.name("cudaIpcCloseMemHandle", "cuIpcCloseMemHandle"),
            &registers([opened]),
            nothing().address(opened),
        );
    }
    let (address, nobodys) = (Memory::out(), Memory::of([9; 8]));
    session.call_for(
        open,
        1,
        &registers([address.at(), int(1)]).stack([9; 8]),
        nothing().handle_names(&nobodys).option(1),
    );
    for block in blocks {
        memory::free(session, layer, block);
    }
}
