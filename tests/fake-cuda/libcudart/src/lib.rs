//! A fake `libcudart.so`: the runtime's calls, counted, passed on to `libcuda.so.1` as the
//! real runtime passes them on. See `tests/fake-cuda/README.md`.

mod array;
mod copy;
#[cfg(not(cuda11))]
mod copy_batch;
mod copy_shaped;
mod copy_symbol;
mod device;
mod driver;
mod error;
mod graph;
mod host;
mod identity;
mod ipc;
mod kernels;
mod launch;
#[cfg(not(cuda11))]
mod library;
mod memory;
mod pool;
mod set;
mod stream;
mod unmodelled;
mod variables;

use std::ffi::{c_char, c_void};

use fake_cuda_core::{Call, Outcome, call::Visit, exports};

/// `libcudart.so.12` and the like: the library's name, and the node of all its symbols.
const SONAME: &str = env!("SONAME");
/// The names that this library answers for in the settings.
const OWN_PREFIX: &str = "cuda";

#[inline]
fn run(call: &Call, body: impl FnOnce() -> Outcome) -> i32 {
    match call.run(body) {
        Ok(()) => 0,
        Err(code) => {
            error::remember(code);
            code.0
        }
    }
}

fn calls() -> impl Iterator<Item = &'static Call> {
    [
        array::CALLS,
        copy::CALLS,
        #[cfg(not(cuda11))]
        copy_batch::CALLS,
        #[cfg(cuda13)]
        copy_batch::since_13::CALLS,
        copy_shaped::CALLS,
        copy_symbol::CALLS,
        device::CALLS,
        #[cfg(not(cuda11))]
        driver::since_12::CALLS,
        graph::CALLS,
        #[cfg(cuda11)]
        graph::before_12::CALLS,
        #[cfg(not(cuda11))]
        graph::since_12::CALLS,
        host::CALLS,
        identity::CALLS,
        #[cfg(cuda12)]
        identity::only_12::CALLS,
        ipc::CALLS,
        kernels::CALLS,
        #[cfg(not(cuda11))]
        kernels::since_12::CALLS,
        launch::CALLS,
        #[cfg(cuda13)]
        launch::since_13::CALLS,
        #[cfg(not(cuda11))]
        library::CALLS,
        memory::CALLS,
        pool::CALLS,
        set::CALLS,
        stream::CALLS,
        unmodelled::CALLS,
        variables::CALLS,
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
    fake_cuda_core::settings::apply(SONAME, &calls, |name| name.starts_with(OWN_PREFIX));
}

exports! {
    versioned;

    /// Present in the fake alone: how a program tells that no device is behind it.
    @raw fn fake_cuda_marker() -> *const c_char {
        c"fake CUDA runtime".as_ptr()
    }

    /// Calls `visit(context, name, length of the name, entries)` for each counted function:
    /// how often it was entered in this process.
    @raw fn fake_cudart_entries(visit: Visit, context: *mut c_void) {
        for call in calls() {
            visit(context, call.name().as_ptr(), call.name().len(), call.entries());
        }
    }
}
