//! The fakes' answers, call by call, in this process.

use std::{
    ffi::{CString, c_char, c_void},
    ptr,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use fake_cuda_core::abi::Dim3;
use workloads::{
    driver::Driver,
    driver_session::DriverSession,
    kernels,
    library::Library,
    runtime::Runtime,
    runtime_session::{RuntimeSession, Twin},
    tally::Live,
    transfer::Transfer,
};

use crate::fake_cuda::artefacts;

/// The driver under its soname, so that the runtime finds the same one.
static DRIVER: LazyLock<Driver> = LazyLock::new(|| Driver::open(&artefacts().join("libcuda.so")));
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    LazyLock::force(&DRIVER);
    Runtime::open(&artefacts().join("libcudart_12.so"))
});

/// Held by tests that allocate: one that frees a block twice must not free another one's.
static DEVICE_MEMORY: Mutex<()> = Mutex::new(());

fn alone_with_device_memory() -> MutexGuard<'static, ()> {
    DEVICE_MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn host_bytes_move_and_device_addresses_are_never_touched() {
    let _alone = alone_with_device_memory();
    let live = Live::default();
    let mut session = RuntimeSession::new(&RUNTIME, &live);
    let (source, mut target) = (*b"from the host", [0; 13]);
    for twin in [Twin::Plain, Twin::PerThread] {
        target.fill(0);
        let transfer = Transfer::HostToHost {
            to: &mut target,
            from: &source,
        };
        session.memcpy(twin, transfer).expect("a plain copy");
        assert_eq!(target, source);
        target.fill(0);
        let transfer = Transfer::HostToHost {
            to: &mut target,
            from: &source,
        };
        session
            .memcpy_async(twin, transfer, 0xabc)
            .expect("a plain copy");
        assert_eq!(target, source);
    }
    // Nothing can be read at a device address: these would crash if they tried.
    let block = session.malloc(1 << 20).expect("fits");
    let transfer = Transfer::HostToDevice {
        to: block,
        from: &source,
    };
    session
        .memcpy(Twin::Plain, transfer)
        .expect("to the device");
    let transfer = Transfer::DeviceToHost {
        to: &mut target,
        from: block,
    };
    session
        .memcpy(Twin::Plain, transfer)
        .expect("from the device");
    let transfer = Transfer::DeviceToDevice {
        to: block,
        from: block + 512,
        size: 512,
    };
    session
        .memcpy(Twin::Plain, transfer)
        .expect("on the device");
    assert_eq!(target, source);
    session.free(block, 1 << 20).expect("live");
}

#[test]
fn directions_must_fit_their_addresses() {
    let live = Live::default();
    let mut session = RuntimeSession::new(&RUNTIME, &live);
    let source = [1; 8];
    let host = source.as_ptr() as u64;
    let transfer = Transfer::HostToDevice {
        to: host,
        from: &source,
    };
    assert_eq!(session.memcpy(Twin::Plain, transfer), Err(1));
    // SAFETY: a direction that does not exist is refused before anything is touched.
    let code = unsafe { (RUNTIME.functions().memcpy)(host, host, 8, 5) };
    assert_eq!(code, 21);
}

#[test]
fn allocations_answer_as_the_real_ones() {
    let _alone = alone_with_device_memory();
    let functions = RUNTIME.functions();
    let untouched = 0xdead_beef;
    let mut address = untouched;
    // SAFETY: pointers to locals; device addresses are only numbers.
    unsafe {
        assert_eq!(
            (functions.malloc)(&raw mut address, 1 << 50),
            2,
            "no device has so much"
        );
        assert_eq!(address, untouched, "a failed call leaves the pointer alone");
        assert_eq!((functions.malloc)(&raw mut address, 0), 0);
        assert_eq!(address, 0, "no bytes, no block");
        assert_eq!((functions.free)(0), 0, "null is fine");
        assert_eq!((functions.free)(0x1234_5000), 1, "never allocated");
        assert_eq!((functions.malloc)(&raw mut address, 4096), 0);
        assert_eq!(address % 512, 0);
        assert_eq!(address >> 44, 7, "{address:#x} lies among the mappings");
        assert_eq!((functions.free)(address), 0);
        assert_eq!((functions.free)(address), 1, "freed twice");
        assert_eq!((functions.malloc)(ptr::null_mut(), 4096), 1);
    }
}

#[test]
fn pinned_memory_can_be_used_and_freed_once() {
    let functions = RUNTIME.functions();
    let mut address = 0;
    // SAFETY: a pointer to a local; then host memory of that many bytes, until it is freed.
    unsafe {
        assert_eq!((functions.malloc_host)(&raw mut address, 10_000), 0);
        (address as *mut u8).write_bytes(7, 10_000);
        assert_eq!((functions.free_host)(address), 0);
        assert_eq!((functions.free_host)(address), 1);
    }
}

#[test]
fn blocks_of_a_stream_are_device_blocks() {
    type MallocAsync = unsafe extern "C" fn(*mut u64, usize, usize) -> i32;
    type FreeAsync = unsafe extern "C" fn(u64, usize) -> i32;
    let _alone = alone_with_device_memory();
    let library = RUNTIME.library();
    for (malloc, free) in [
        (c"cudaMallocAsync", c"cudaFreeAsync"),
        (c"cudaMallocAsync_ptsz", c"cudaFreeAsync_ptsz"),
    ] {
        let mut address = 0;
        // SAFETY: the library's functions of these names have these signatures; a pointer to a
        // local; device addresses are only numbers.
        unsafe {
            let malloc = std::mem::transmute::<*const c_void, MallocAsync>(library.get(malloc));
            let free = std::mem::transmute::<*const c_void, FreeAsync>(library.get(free));
            assert_eq!(malloc(&raw mut address, 4096, 0xabc), 0);
            assert_eq!(free(address, 0xabc), 0);
            assert_eq!((RUNTIME.functions().free)(address), 1, "it is gone");
        }
    }
}

#[test]
fn launches_are_checked() {
    let launch = RUNTIME.functions().launch_kernel;
    let kernel = kernels::DECODE.address();
    let one = Dim3 { x: 1, y: 1, z: 1 };
    // SAFETY: kernels without arguments.
    let code = |kernel, grid, block| unsafe { launch(kernel, grid, block, ptr::null(), 0, 0) };
    assert_eq!(code(kernel, one, one), 0);
    assert_eq!(code(kernel, Dim3 { x: 0, ..one }, one), 9);
    assert_eq!(code(kernel, one, Dim3 { x: 1024, ..one }), 0);
    assert_eq!(code(kernel, one, Dim3 { x: 1025, ..one }), 9);
    assert_eq!(
        code(launches_are_checked as fn() as usize, one, one),
        98,
        "never registered"
    );
}

#[test]
fn the_last_error_is_kept_until_it_is_asked_for() {
    type Get = unsafe extern "C" fn() -> i32;
    type Text = unsafe extern "C" fn(i32) -> *const c_char;
    let library = RUNTIME.library();
    // SAFETY: the library's functions of these names have these signatures.
    let (peek, get, text) = unsafe {
        (
            std::mem::transmute::<*const c_void, Get>(library.get(c"cudaPeekAtLastError")),
            std::mem::transmute::<*const c_void, Get>(library.get(c"cudaGetLastError")),
            std::mem::transmute::<*const c_void, Text>(library.get(c"cudaGetErrorString")),
        )
    };
    // SAFETY: a device address is only a number; texts are constants.
    unsafe {
        get();
        assert_eq!((RUNTIME.functions().free)(0x5000), 1);
        assert_eq!((peek(), peek(), get(), get()), (1, 1, 1, 0));
        let text = std::ffi::CStr::from_ptr(text(2)).to_str().expect("ASCII");
        assert!(text.contains("fake"), "{text}");
    }
}

#[test]
fn a_capture_makes_a_graph_of_what_the_stream_was_given() {
    type GetNodes = unsafe extern "C" fn(usize, *mut usize, *mut usize) -> i32;
    let live = Live::default();
    let mut session = DriverSession::start(&DRIVER, &live).expect("the driver starts");
    let functions = DRIVER.functions();
    let function = session.module_function(c"kernel").expect("found");
    let (mut graph, mut nodes) = (0, 0usize);
    let library = Library::loaded(c"libcuda.so.1").expect("loaded above");
    // SAFETY: the driver's functions with their signatures, pointers to locals, handles that
    // were just made.
    unsafe {
        let get_nodes =
            std::mem::transmute::<*const c_void, GetNodes>(library.get(c"cuGraphGetNodes"));
        let launch = |stream| {
            (functions.launch_kernel)(
                function,
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                stream,
                ptr::null(),
                ptr::null(),
            )
        };
        assert_eq!((functions.begin_capture)(0x111, 0), 0);
        assert_eq!(
            (functions.begin_capture)(0x111, 0),
            401,
            "it captures already"
        );
        assert_eq!((launch(0x111), launch(0x222), launch(0x111)), (0, 0, 0));
        assert_eq!((functions.end_capture)(0x111, &raw mut graph), 0);
        assert_eq!(
            (functions.end_capture)(0x111, &raw mut graph),
            401,
            "it captures no more"
        );
        assert_eq!(get_nodes(graph, ptr::null_mut(), &raw mut nodes), 0);
        assert_eq!((functions.graph_destroy)(graph), 0);
    }
    assert_eq!(nodes, 2);
}

#[test]
fn the_driver_demands_a_context() {
    let functions = DRIVER.functions();
    std::thread::spawn(|| {
        let mut address = 0;
        // SAFETY: a pointer to a local.
        unsafe {
            assert_eq!((functions.init)(0), 0);
            assert_eq!((functions.mem_alloc)(&raw mut address, 4096), 201);
        }
    })
    .join()
    .expect("no failed assertion");
}

/// As the real driver answered for all 46 names that were asked on an H100.
#[test]
fn entry_points_are_the_exported_symbols() {
    type GetProcAddress =
        unsafe extern "C" fn(*const c_char, *mut *const c_void, i32, u64, *mut i32) -> i32;
    LazyLock::force(&DRIVER);
    let library = Library::loaded(c"libcuda.so.1").expect("loaded above");
    // SAFETY: the driver's function of this name has this signature.
    let get = unsafe {
        std::mem::transmute::<*const c_void, GetProcAddress>(library.get(c"cuGetProcAddress_v2"))
    };
    let ask = |name: &str, version, flags| {
        let (name, mut found, mut status) = (CString::new(name).expect("no NUL"), ptr::null(), -1);
        // SAFETY: a string and pointers to locals.
        let code = unsafe {
            get(
                name.as_ptr(),
                &raw mut found,
                version,
                flags,
                &raw mut status,
            )
        };
        (code, found, status)
    };
    for (name, version, flags, symbol) in [
        ("cuMemAlloc", 3020, 0, c"cuMemAlloc_v2"),
        ("cuMemFree", 3020, 0, c"cuMemFree_v2"),
        ("cuMemGetInfo", 3020, 0, c"cuMemGetInfo_v2"),
        ("cuLaunchKernel", 4000, 0, c"cuLaunchKernel"),
        ("cuLaunchKernel", 7000, 2, c"cuLaunchKernel_ptsz"),
        ("cuLaunchKernelEx", 11060, 2, c"cuLaunchKernelEx_ptsz"),
        ("cuMemcpy", 7000, 2, c"cuMemcpy_ptds"),
        ("cuMemcpyHtoD", 3020, 0, c"cuMemcpyHtoD_v2"),
        ("cuMemcpyHtoD", 7000, 2, c"cuMemcpyHtoD_v2_ptds"),
        ("cuMemcpyHtoDAsync", 7000, 2, c"cuMemcpyHtoDAsync_v2_ptsz"),
        ("cuGraphLaunch", 10000, 2, c"cuGraphLaunch_ptsz"),
        ("cuCtxSynchronize", 2000, 0, c"cuCtxSynchronize"),
        ("cuCtxSynchronize", 13000, 0, c"cuCtxSynchronize_v2"),
        ("cuModuleGetFunction", 2000, 2, c"cuModuleGetFunction"),
    ] {
        let (code, found, status) = ask(name, version, flags);
        assert_eq!((code, status), (0, 0), "{name} {version} {flags}");
        assert_eq!(found, library.get(symbol), "{name} {version} {flags}");
    }
    for (name, version) in [("cuMemAlloc", 2000), ("cuNoSuchFunction", 13000)] {
        let (code, found, status) = ask(name, version, 0);
        assert_eq!(
            (code, found, status),
            (0, ptr::null(), 1),
            "{name} {version}"
        );
    }
}
