//! Virtual memory, and memory that several devices share. Driver only.

use super::{
    arguments::{Memory, int, pair, registers},
    contexts::{DEVICE, OTHER},
    expected::nothing,
    session::Session,
};

const PAGE: u64 = 2 << 20;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
const DESCRIPTOR: u32 = 1;

pub(super) fn call(session: &mut Session) {
    let reserved = reserve(session, 16 * PAGE);
    // On a device, on the host, and on a NUMA node of it.
    let handles = [(1, OTHER, 3), (2, 0, 1), (3, 0, 2)]
        .map(|(location, id, pages)| create(session, location, id, pages * PAGE));
    // Nothing can be read where the properties should be.
    let nowhere = Memory::out();
    session.call_for(
        "cuMemCreate",
        1,
        &registers([nowhere.at(), PAGE, 0, 0]),
        nothing().size(PAGE).args_unread(),
    );
    let [handle, ..] = handles;
    let (address, size, offset) = (reserved + PAGE, 2 * PAGE, PAGE);
    session.call(
        "cuMemMap",
        &registers([address, size, offset, handle, 0]),
        nothing()
            .address(address)
            .size(size)
            .offset(offset)
            .handle(handle),
    );
    access(session, address, size);
    let retained = Memory::out();
    session.call(
        "cuMemRetainAllocationHandle",
        &registers([retained.at(), address + 0x1000]),
        nothing().handle_left(&retained).address(address + 0x1000),
    );
    assert_eq!(retained.get(), handle);
    let imported = share(session, handle);
    multicast(session, handle, address);
    session.call(
        "cuMemUnmap",
        &registers([address, size]),
        nothing().address(address).size(size),
    );
    for handle in [handle, imported].into_iter().chain(handles) {
        session.call(
            "cuMemRelease",
            &registers([handle]),
            nothing().handle(handle),
        );
    }
    session.call_for(
        "cuMemRelease",
        1,
        &registers([handle]),
        nothing().handle(handle),
    );
    session.call(
        "cuMemAddressFree",
        &registers([reserved, 16 * PAGE]),
        nothing().address(reserved).size(16 * PAGE),
    );
}

fn reserve(session: &mut Session, size: u64) -> u64 {
    let address = Memory::out();
    session.call(
        "cuMemAddressReserve",
        &registers([address.at(), size, PAGE, 0, 0]),
        nothing().address_left(&address).size(size),
    );
    address.get()
}

fn create(session: &mut Session, location: u32, id: u32, size: u64) -> u64 {
    // Pinned, exported as a file descriptor; location; Windows' attributes; flags.
    let properties = Memory::of([pair(1, DESCRIPTOR), pair(location, id), 0, 0]);
    let handle = Memory::out();
    session.call(
        "cuMemCreate",
        &registers([handle.at(), size, properties.at(), 0]),
        nothing()
            .handle_left(&handle)
            .size(size)
            .location(location.into())
            .location_id(id.into())
            .option(DESCRIPTOR.into()),
    );
    handle.get()
}

fn access(session: &mut Session, address: u64, size: u64) {
    // Two descriptions of 12 bytes: location, id, flags.
    let descriptions = Memory::of([pair(1, OTHER), pair(3, 1), pair(DEVICE, 1)]);
    session.call(
        "cuMemSetAccess",
        &registers([address, size, descriptions.at(), 2]),
        nothing()
            .address(address)
            .size(size)
            .location(1)
            .location_id(OTHER.into())
            .option(3)
            .count(2),
    );
}

fn share(session: &mut Session, handle: u64) -> u64 {
    // The call leaves 32 bits.
    let descriptor = Memory::of([0]);
    session.call(
        "cuMemExportToShareableHandle",
        &registers([descriptor.at(), handle, int(DESCRIPTOR), 0]),
        nothing()
            .handle(handle)
            .related_left(&descriptor)
            .option(DESCRIPTOR.into()),
    );
    let (descriptor, imported) = (descriptor.get(), Memory::out());
    session.call(
        "cuMemImportFromShareableHandle",
        &registers([imported.at(), descriptor, int(DESCRIPTOR)]),
        nothing()
            .handle_left(&imported)
            .related(descriptor)
            .option(DESCRIPTOR.into()),
    );
    imported.get()
}

fn multicast(session: &mut Session, memory: u64, address: u64) {
    let (offset, size) = (PAGE, 2 * PAGE);
    // Devices, bytes, handle types, flags.
    let properties = Memory::of([pair(2, 0xbad), 4 * PAGE, 0, 0]);
    let team = Memory::out();
    session.call(
        "cuMulticastCreate",
        &registers([team.at(), properties.at()]),
        nothing().handle_left(&team).size(4 * PAGE).count(2),
    );
    let team = team.get();
    let about = || nothing().handle(team);
    for device in [DEVICE, OTHER] {
        session.call(
            "cuMulticastAddDevice",
            &registers([team, int(device)]),
            about().device(device.into()),
        );
    }
    session.call(
        "cuMulticastBindMem",
        &registers([team, offset, memory, PAGE, size, 0]),
        about().offset(offset).related(memory).size(size),
    );
    session.call(
        "cuMulticastBindAddr",
        &registers([team, offset, address, size, 0]),
        about().offset(offset).address(address).size(size),
    );
    session.call(
        "cuMulticastBindMem_v2",
        &registers([team, int(OTHER), offset, memory, PAGE, size]).stack([0]),
        about()
            .device(OTHER.into())
            .offset(offset)
            .related(memory)
            .size(size),
    );
    session.call(
        "cuMulticastBindAddr_v2",
        &registers([team, int(OTHER), offset, address, size, 0]),
        about()
            .device(OTHER.into())
            .offset(offset)
            .address(address)
            .size(size),
    );
    session.call(
        "cuMulticastUnbind",
        &registers([team, int(OTHER), offset, size]),
        about().device(OTHER.into()).offset(offset).size(size),
    );
    session.call("cuMemRelease", &registers([team]), about());
}
