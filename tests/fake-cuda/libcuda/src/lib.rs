//! A fake `libcuda.so.1`: the driver's calls, counted and answered from books, without a
//! device. See `tests/fake-cuda/README.md`.

mod array;
mod capture;
mod context;
mod copy;
mod copy_batch;
mod copy_shaped;
mod device_memory;
mod devices;
mod graph;
mod graph_memory;
mod host;
mod identity;
mod ipc;
mod kernel_handle;
mod launch;
mod memory;
mod module;
mod multicast;
mod pool;
mod pool_memory;
mod proc_address;
mod set;
mod stream;
mod vmm;

use std::ffi::{c_char, c_void};

use fake_cuda_core::{Call, Outcome, call::Visit, exports};

/// The names that this library answers for in the settings.
const OWN_PREFIX: &str = "cu";

#[inline]
fn run(call: &Call, body: impl FnOnce() -> Outcome) -> i32 {
    match call.run(body) {
        Ok(()) => 0,
        Err(code) => code.0,
    }
}

/// A handle that is unlike every other one, and never freed.
fn new_handle() -> usize {
    Box::into_raw(Box::new(0u64)) as usize
}

fn calls() -> impl Iterator<Item = &'static Call> {
    [
        array::CALLS,
        capture::CALLS,
        context::CALLS,
        copy::CALLS,
        copy_batch::CALLS,
        copy_shaped::CALLS,
        graph::CALLS,
        graph_memory::CALLS,
        host::CALLS,
        identity::CALLS,
        ipc::CALLS,
        launch::CALLS,
        memory::CALLS,
        module::CALLS,
        multicast::CALLS,
        pool::CALLS,
        proc_address::CALLS,
        set::CALLS,
        stream::CALLS,
        vmm::CALLS,
    ]
    .into_iter()
    .flatten()
    .copied()
    .flatten()
    .copied()
}

/// Runs when the library is loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;

extern "C" fn on_load() {
    let calls: Vec<&'static Call> = calls().collect();
    fake_cuda_core::settings::apply("libcuda.so.1", &calls, |name| {
        name.starts_with(OWN_PREFIX) && !name.starts_with("cuda")
    });
}

exports! {
    unversioned;

    /// Present in the fake alone: how a program tells that no device is behind it.
    @raw fn fake_cuda_marker() -> *const c_char {
        c"fake CUDA driver".as_ptr()
    }

    /// Calls `visit(context, name, length of the name, entries)` for each counted function:
    /// how often it was entered in this process.
    @raw fn fake_cuda_entries(visit: Visit, context: *mut c_void) {
        for call in calls() {
            visit(context, call.name().as_ptr(), call.name().len(), call.entries());
        }
    }
}
