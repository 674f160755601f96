//! The fake driver's books: every kind of memory is counted once, and given back. A program of
//! its own, for all tests look at how much of the one device is free.

use std::{
    ffi::CString,
    path::PathBuf,
    sync::{LazyLock, Mutex, PoisonError},
};

use workloads::{
    every::arguments::{Arguments, Memory, int, registers},
    library::Library,
};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 2 * MIB;

/// One test at a time: they all look at how much is free.
static ALONE: Mutex<()> = Mutex::new(());
static DRIVER: LazyLock<Library> = LazyLock::new(|| Library::open(&driver()));

/// Cargo puts the library beside this test.
fn driver() -> PathBuf {
    let test = std::env::current_exe().expect("the kernel knows our path");
    test.with_file_name("libcuda.so")
}

fn code(symbol: &str, arguments: &Arguments) -> i32 {
    let function = DRIVER.get(&CString::new(symbol).expect("no NUL"));
    // SAFETY: a function of the driver with arguments of its signature.
    unsafe { arguments.pass_to(function) }
}

fn call(symbol: &str, arguments: &Arguments) {
    assert_eq!(code(symbol, arguments), 0, "{symbol}");
}

/// Calls what leaves a word behind its first argument.
fn made<const N: usize>(symbol: &str, more: [u64; N]) -> u64 {
    let out = Memory::out();
    let mut words = [0; 6];
    words[0] = out.at();
    words[1..=N].copy_from_slice(&more);
    call(symbol, &registers(words));
    out.get()
}

fn free_bytes() -> u64 {
    let (free, total) = (Memory::out(), Memory::out());
    call("cuMemGetInfo_v2", &registers([free.at(), total.at()]));
    free.get()
}

/// Runs a test in the device's context, alone.
fn on_a_device(test: impl FnOnce()) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    call("cuInit", &registers([int(0)]));
    let context = made("cuDevicePrimaryCtxRetain", [int(0)]);
    call("cuCtxSetCurrent", &registers([context]));
    test();
}

/// Panics unless the test leaves as much as it found.
fn gives_back(test: impl FnOnce(u64)) {
    on_a_device(|| {
        let before = free_bytes();
        test(before);
        assert_eq!(free_bytes(), before);
    });
}

#[test]
fn physical_memory_lives_as_long_as_anything_refers_to_it() {
    gives_back(|before| {
        let reserved = made("cuMemAddressReserve", [8 * PAGE, 0, 0, 0]);
        assert_eq!(free_bytes(), before, "addresses take no memory");
        let on_device = Memory::of([1, 1, 0, 0]);
        let handle = made("cuMemCreate", [4 * PAGE, on_device.at(), 0]);
        assert_eq!(free_bytes(), before - 4 * PAGE);
        call("cuMemMap", &registers([reserved, 4 * PAGE, 0, handle, 0]));
        let again = registers([reserved + PAGE, PAGE, 0, handle, 0]);
        assert_eq!(code("cuMemMap", &again), 1, "something is mapped there");
        assert_eq!(
            code("cuMemAddressFree", &registers([reserved, 8 * PAGE])),
            1,
            "in use"
        );
        let retained = made("cuMemRetainAllocationHandle", [reserved + PAGE]);
        assert_eq!(retained, handle);
        call("cuMemRelease", &registers([handle]));
        call("cuMemRelease", &registers([handle]));
        assert_eq!(
            code("cuMemRelease", &registers([handle])),
            1,
            "no handle is left"
        );
        assert_eq!(free_bytes(), before - 4 * PAGE, "it is mapped");
        assert_eq!(
            code("cuMemUnmap", &registers([reserved, PAGE])),
            1,
            "half a mapping"
        );
        call("cuMemUnmap", &registers([reserved, 4 * PAGE]));
        assert_eq!(free_bytes(), before);
        call("cuMemAddressFree", &registers([reserved, 8 * PAGE]));

        let on_host = Memory::of([1, 2, 0, 0]);
        let handle = made("cuMemCreate", [PAGE, on_host.at(), 0]);
        assert_eq!(
            free_bytes(),
            before,
            "the host's memory is not the device's"
        );
        call("cuMemRelease", &registers([handle]));
        let out = Memory::out();
        let too_much = registers([out.at(), 1 << 50, on_device.at(), 0]);
        assert_eq!(code("cuMemCreate", &too_much), 2);
    });
}

#[test]
fn exported_physical_memory_is_the_same_when_it_comes_back() {
    gives_back(|before| {
        let on_device = Memory::of([1 | 1 << 32, 1, 0, 0]);
        let handle = made("cuMemCreate", [PAGE, on_device.at(), 0]);
        let descriptor = Memory::of([0]);
        call(
            "cuMemExportToShareableHandle",
            &registers([descriptor.at(), handle, int(1), 0]),
        );
        let imported = made("cuMemImportFromShareableHandle", [descriptor.get(), int(1)]);
        assert_eq!(imported, handle);
        call("cuMemRelease", &registers([handle]));
        assert_eq!(free_bytes(), before - PAGE, "the second reference is left");
        call("cuMemRelease", &registers([imported]));
    });
}

#[test]
fn a_pool_keeps_what_it_may_until_the_next_wait() {
    gives_back(|before| {
        let properties = Memory::of([1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let pool = made("cuMemPoolCreate", [properties.at()]);
        let allocate = || made("cuMemAllocFromPoolAsync", [20 * MIB, pool, 0x111]);
        let first = allocate();
        assert_eq!(free_bytes(), before - 32 * MIB, "a whole piece");
        call("cuMemFreeAsync", &registers([first, 0x111]));
        assert_eq!(free_bytes(), before - 32 * MIB, "nobody has waited");
        assert_eq!(allocate(), first, "it is used again");
        call("cuMemFreeAsync", &registers([first, 0x111]));
        call("cuStreamSynchronize", &registers([0x111]));
        assert_eq!(free_bytes(), before, "the threshold is 0 at first");

        let threshold = Memory::of([40 * MIB]);
        call(
            "cuMemPoolSetAttribute",
            &registers([pool, int(4), threshold.at()]),
        );
        let blocks = [(); 3].map(|()| allocate());
        for block in blocks {
            call("cuMemFreeAsync", &registers([block, 0x111]));
        }
        call("cuCtxSynchronize", &registers([]));
        assert_eq!(free_bytes(), before - 32 * MIB, "one piece of two may stay");
        call("cuMemPoolTrimTo", &registers([pool, 0]));
        assert_eq!(free_bytes(), before);
        call("cuMemPoolDestroy", &registers([pool]));
        assert_eq!(code("cuMemPoolDestroy", &registers([pool])), 1);
        let default = made("cuDeviceGetDefaultMemPool", [int(0)]);
        assert_eq!(
            code("cuMemPoolDestroy", &registers([default])),
            1,
            "that one stays"
        );
    });
}

#[test]
fn arrays_take_pages() {
    gives_back(|before| {
        let descriptor = Memory::of([1024, 1024, 0x20 | 4 << 32]);
        let array = made("cuArrayCreate_v2", [descriptor.at()]);
        assert_eq!(free_bytes(), before - 16 * MIB, "four floats an element");
        call("cuArrayDestroy", &registers([array]));
        assert_eq!(code("cuArrayDestroy", &registers([array])), 400);
        let layered = Memory::of([512, 512, 4, 0x01 | 1 << 32, 0]);
        let array = made("cuMipmappedArrayCreate", [layered.at(), int(2)]);
        assert_eq!(free_bytes(), before - 2 * MIB, "1 MiB, and an eighth of it");
        call("cuMipmappedArrayDestroy", &registers([array]));
    });
}

#[test]
fn managed_and_pinned_memory_is_the_hosts_and_can_be_used() {
    gives_back(|before| {
        for (allocate, more, free) in [
            ("cuMemAllocManaged", int(1), "cuMemFree_v2"),
            ("cuMemHostAlloc", int(0), "cuMemFreeHost"),
            ("cuMemAllocHost_v2", 0, "cuMemFreeHost"),
        ] {
            let block = made(allocate, [10_000, more]);
            // SAFETY: host memory of that many bytes, until it is freed.
            unsafe { (block as *mut u8).write_bytes(7, 10_000) };
            assert_eq!(free_bytes(), before, "{allocate}");
            call(free, &registers([block]));
            assert_eq!(
                code(free, &registers([block])),
                1,
                "{allocate}, freed twice"
            );
        }
        let own = Memory::of([0; 16]);
        let register = registers([own.at(), 128, int(0)]);
        call("cuMemHostRegister_v2", &register);
        assert_eq!(code("cuMemHostRegister_v2", &register), 712);
        call("cuMemHostUnregister", &registers([own.at()]));
        assert_eq!(code("cuMemHostUnregister", &registers([own.at()])), 713);
    });
}

#[test]
fn an_opened_block_is_counted_where_it_was_allocated() {
    gives_back(|before| {
        let block = made("cuMemAlloc_v2", [8 * MIB]);
        let shared = Memory::of([0; 8]);
        call("cuIpcGetMemHandle", &registers([shared.at(), block]));
        assert_eq!(
            code("cuIpcGetMemHandle", &registers([shared.at(), block + 512])),
            1
        );
        let words: Vec<u64> = shared.words().collect();
        let address = Memory::out();
        let open =
            registers([address.at(), int(1)]).stack::<8>(words.try_into().expect("eight words"));
        call("cuIpcOpenMemHandle_v2", &open);
        assert_ne!(address.get(), block);
        assert_eq!(free_bytes(), before - 8 * MIB);
        call("cuIpcCloseMemHandle", &registers([address.get()]));
        assert_eq!(code("cuIpcCloseMemHandle", &registers([address.get()])), 1);
        call("cuMemFree_v2", &registers([block]));
    });
}

#[test]
fn the_end_of_a_context_frees_what_was_allocated_in_it() {
    gives_back(|before| {
        let outside = made("cuMemAlloc_v2", [4 * MIB]);
        let context = made("cuCtxCreate_v2", [int(0), int(0)]);
        made("cuMemAlloc_v2", [6 * MIB]);
        let freed = made("cuMemAlloc_v2", [2 * MIB]);
        call("cuMemFree_v2", &registers([freed]));
        call("cuCtxDestroy_v2", &registers([context]));
        assert_eq!(code("cuCtxDestroy_v2", &registers([context])), 201);
        assert_eq!(free_bytes(), before - 4 * MIB);
        call("cuMemFree_v2", &registers([outside]));
    });
}

#[test]
fn a_capture_spreads_by_events_and_launches_nothing() {
    gives_back(|before| {
        let (origin, other, event) = (0x201, 0x202, 0xe01);
        let (block, graph) = (made("cuMemAlloc_v2", [PAGE]), Memory::out());
        let set = |stream| call("cuMemsetD8Async", &registers([block, int(0), 9, stream]));
        call("cuStreamBeginCapture_v2", &registers([origin, int(0)]));
        set(other);
        call("cuEventRecord", &registers([event, origin]));
        call("cuStreamWaitEvent", &registers([other, event, int(0)]));
        set(other);
        let allocated = made("cuMemAllocAsync", [16 * MIB, origin]);
        call("cuMemFreeAsync", &registers([allocated, other]));
        assert_eq!(code("cuEventSynchronize", &registers([event])), 907);
        assert_eq!(
            code("cuStreamEndCapture", &registers([other, graph.at()])),
            903
        );
        call("cuStreamEndCapture", &registers([origin, graph.at()]));
        let (graph, count) = (graph.get(), Memory::out());
        call("cuGraphGetNodes", &registers([graph, 0, count.at()]));
        assert_eq!(count.get(), 3, "a set, an allocation and a free");
        set(other);

        let ready = made("cuGraphInstantiateWithFlags", [graph, 0]);
        assert_eq!(free_bytes(), before - PAGE, "nothing has run");
        call("cuGraphLaunch", &registers([ready, origin]));
        call("cuGraphLaunch", &registers([ready, origin]));
        assert_eq!(free_bytes(), before - PAGE - 16 * MIB, "taken once");
        call("cuGraphExecDestroy", &registers([ready]));
        assert_eq!(
            free_bytes(),
            before - PAGE - 16 * MIB,
            "the device keeps it"
        );
        call("cuDeviceGraphMemTrim", &registers([int(0)]));
        call("cuGraphDestroy", &registers([graph]));
        call("cuMemFree_v2", &registers([block]));
    });
}

#[test]
fn waiting_for_a_captured_stream_spoils_the_capture() {
    gives_back(|_| {
        let graph = Memory::out();
        assert_eq!(
            code("cuStreamBeginCapture_v2", &registers([0, int(0)])),
            900
        );
        call("cuStreamBeginCapture_v2", &registers([0x301, int(0)]));
        assert_eq!(code("cuStreamSynchronize", &registers([0x301])), 900);
        let end = registers([0x301, graph.at()]);
        assert_eq!(code("cuStreamEndCapture", &end), 901);
        assert_eq!((graph.get(), code("cuStreamEndCapture", &end)), (0, 401));
    });
}

#[test]
fn a_reset_frees_everything() {
    on_a_device(|| {
        call("cuDevicePrimaryCtxReset_v2", &registers([int(0)]));
        let all = free_bytes();
        made("cuMemAlloc_v2", [4 * MIB]);
        made("cuMemAllocAsync", [4 * MIB, 0x111]);
        let on_device = Memory::of([1, 1, 0, 0]);
        let handle = made("cuMemCreate", [4 * MIB, on_device.at(), 0]);
        let descriptor = Memory::of([1 << 20, 0, 0x01 | 1 << 32]);
        made("cuArrayCreate_v2", [descriptor.at()]);
        // The array of 1 MiB has a page, the pool a piece.
        assert_eq!(free_bytes(), all - (4 + 32 + 4 + 2) * MIB);
        call("cuDevicePrimaryCtxReset_v2", &registers([int(0)]));
        assert_eq!(free_bytes(), all);
        assert_eq!(code("cuMemRelease", &registers([handle])), 1);
    });
}
