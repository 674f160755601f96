//! Memory pools.

use super::{
    arguments::{Memory, int, pair, registers},
    contexts::{DEVICE, OTHER},
    expected::nothing,
    layers::{Layer, TWINS, Twin},
    session::Session,
};

/// `cudaMemPoolReuseFollowEventDependencies`, `cudaMemPoolAttrReleaseThreshold`
const REUSE: u32 = 1;
const RELEASE_THRESHOLD: u32 = 4;
/// `cudaMemHandleTypePosixFileDescriptor`
const DESCRIPTOR: u32 = 1;

pub(super) fn call(session: &mut Session, layer: Layer) {
    let pool = create(session, layer);
    for twin in TWINS {
        allocations(session, layer, twin, pool);
    }
    set_up(session, layer, pool);
    share(session, layer, pool);
    devices(session, layer, pool);
    let destroy = layer.name("cudaMemPoolDestroy", "cuMemPoolDestroy");
    session.call(destroy, &registers([pool]), nothing().handle(pool));
    session.call_for(destroy, 1, &registers([pool]), nothing().handle(pool));
}

fn create(session: &mut Session, layer: Layer) -> u64 {
    // Pinned, exported as a file descriptor; on device 0; then Windows' attributes, the limit
    // and what is reserved.
    let mut properties = [0; 11];
    properties[..2].copy_from_slice(&[pair(1, DESCRIPTOR), pair(1, DEVICE)]);
    let (properties, pool) = (Memory::of(properties), Memory::out());
    session.call(
        layer.name("cudaMemPoolCreate", "cuMemPoolCreate"),
        &registers([pool.at(), properties.at()]),
        nothing()
            .handle_left(&pool)
            .location(1)
            .location_id(DEVICE.into()),
    );
    pool.get()
}

fn allocations(session: &mut Session, layer: Layer, twin: Twin, pool: u64) {
    let (address, stream) = (Memory::out(), 0x5001 + twin.extra());
    let free = twin.ptsz(layer.name("cudaFreeAsync", "cuMemFreeAsync"));
    let size = 0x4_1111 + twin.extra();
    session.call(
        &twin.ptsz(layer.name("cudaMallocAsync", "cuMemAllocAsync")),
        &registers([address.at(), size, stream]),
        nothing().address_left(&address).size(size).stream(stream),
    );
    let block = address.get();
    session.call(
        &free,
        &registers([block, stream]),
        nothing().address(block).stream(stream),
    );

    let (size, stream) = (0x4_2222 + twin.extra(), 0x5003 + twin.extra());
    session.call(
        &twin.ptsz(layer.name("cudaMallocFromPoolAsync", "cuMemAllocFromPoolAsync")),
        &registers([address.at(), size, pool, stream]),
        nothing()
            .address_left(&address)
            .size(size)
            .related(pool)
            .stream(stream),
    );
    let block = address.get();
    session.call(
        &free,
        &registers([block, stream]),
        nothing().address(block).stream(stream),
    );
}

fn set_up(session: &mut Session, layer: Layer, pool: u64) {
    let threshold = Memory::of([0x4_0000]);
    let set = layer.name("cudaMemPoolSetAttribute", "cuMemPoolSetAttribute");
    session.call(
        set,
        &registers([pool, int(RELEASE_THRESHOLD), threshold.at()]),
        nothing()
            .handle(pool)
            .option(RELEASE_THRESHOLD.into())
            .size(threshold.get()),
    );
    let yes = Memory::of([1]);
    session.call(
        set,
        &registers([pool, int(REUSE), yes.at()]),
        nothing().handle(pool).option(REUSE.into()),
    );
    session.call(
        layer.name("cudaMemPoolTrimTo", "cuMemPoolTrimTo"),
        &registers([pool, 0x2_0000]),
        nothing().handle(pool).size(0x2_0000),
    );
}

/// The pool, and a block of it, to another process; that this one plays the other changes none
/// of the calls.
fn share(session: &mut Session, layer: Layer, pool: u64) {
    let descriptor = Memory::of([0]);
    session.call(
        layer.name(
            "cudaMemPoolExportToShareableHandle",
            "cuMemPoolExportToShareableHandle",
        ),
        &registers([descriptor.at(), pool, int(DESCRIPTOR), int(0)]),
        nothing().handle(pool).option(DESCRIPTOR.into()),
    );
    let imported = Memory::out();
    session.call(
        layer.name(
            "cudaMemPoolImportFromShareableHandle",
            "cuMemPoolImportFromShareableHandle",
        ),
        &registers([imported.at(), descriptor.get(), int(DESCRIPTOR), int(0)]),
        nothing().handle_left(&imported).option(DESCRIPTOR.into()),
    );

    let (address, stream) = (Memory::out(), 0x5010);
    session.call(
        layer.name("cudaMallocFromPoolAsync", "cuMemAllocFromPoolAsync"),
        &registers([address.at(), 0x4_3333, pool, stream]),
        nothing()
            .address_left(&address)
            .size(0x4_3333)
            .related(pool)
            .stream(stream),
    );
    let (block, shared) = (address.get(), Memory::of([0; 8]));
    session.call(
        layer.name("cudaMemPoolExportPointer", "cuMemPoolExportPointer"),
        &registers([shared.at(), block]),
        nothing().address(block).handle_names(&shared),
    );
    let imported = imported.get();
    session.call(
        layer.name("cudaMemPoolImportPointer", "cuMemPoolImportPointer"),
        &registers([address.at(), imported, shared.at()]),
        nothing().address_left(&address).related(imported),
    );
    for block in [address.get(), block] {
        session.call(
            layer.name("cudaFreeAsync", "cuMemFreeAsync"),
            &registers([block, stream]),
            nothing().address(block).stream(stream),
        );
    }
}

fn devices(session: &mut Session, layer: Layer, pool: u64) {
    let found = Memory::out();
    for symbol in [
        layer.name("cudaDeviceGetDefaultMemPool", "cuDeviceGetDefaultMemPool"),
        layer.name("cudaDeviceGetMemPool", "cuDeviceGetMemPool"),
    ] {
        session.call(
            symbol,
            &registers([found.at(), int(OTHER)]),
            nothing().handle_left(&found).device(OTHER.into()),
        );
        session.call_for(
            symbol,
            101,
            &registers([found.at(), int(77)]),
            nothing().device(77),
        );
    }
    session.call(
        layer.name("cudaDeviceSetMemPool", "cuDeviceSetMemPool"),
        &registers([int(DEVICE), pool]),
        nothing().handle(pool).device(DEVICE.into()),
    );
}
