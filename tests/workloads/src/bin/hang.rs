//! Hangs in `cudaDeviceSynchronize` until it is killed, after a few calls that return. The
//! report comes before the hang and names the call that will not return.

use std::env;

use clap::Parser;
use serde_json::json;
use workloads::{
    entries,
    options::{CommonOptions, Step},
    report::Report,
    runtime::Runtime,
    runtime_session::RuntimeSession,
    tally::Live,
};

/// Hangs in `cudaDeviceSynchronize` until it is killed. Needs the fake CUDA.
#[derive(Clone, Debug, Parser)]
struct Options {
    #[command(flatten)]
    common: CommonOptions,
    /// Pairs of `cudaMalloc` and `cudaFree` before the hang.
    #[arg(long, default_value_t = 10)]
    calls: usize,
}

/// Bytes of a block.
const SIZE: usize = 4096;

fn main() {
    let options = Options::parse();
    options.common.wait_at(Step::Load);
    // SAFETY: the process has one thread.
    unsafe { env::set_var("FAKE_CUDA_LATENCY", "cudaDeviceSynchronize=1000h") };
    let runtime = Runtime::open(&options.common.cudart);
    assert!(runtime.is_fake(), "only the fake CUDA hangs on demand");
    options.common.wait_at(Step::Call);

    let live = Live::default();
    let mut session = RuntimeSession::new(&runtime, &live);
    for _ in 0..options.calls {
        if let Ok(block) = session.malloc(SIZE) {
            // A failed call is in the tally; the program goes on.
            let _ = session.free(block, SIZE);
        }
    }
    session.tally.calls("cudaDeviceSynchronize", 1);
    Report::new(
        "hang",
        true,
        &session.tally,
        &live,
        entries::of_process([&runtime]),
    )
    .with("in_flight", json!({ "cudaDeviceSynchronize": 1 }))
    .print();
    // SAFETY: no pointers.
    let code = unsafe { (runtime.functions().device_synchronize)() };
    panic!("cudaDeviceSynchronize returned {code} after all");
}
