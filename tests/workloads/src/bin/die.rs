//! A thread ends inside a call: it is in `cudaDeviceSynchronize` when a signal handler ends the
//! thread alone, and the process lives on and calls further. The report names the call that
//! never returned.

use std::{env, path::PathBuf, sync::mpsc, thread, time::Duration};

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

/// A thread ends inside `cudaDeviceSynchronize`; the process lives on. Needs the fake CUDA.
#[derive(Clone, Debug, Parser)]
struct Options {
    #[command(flatten)]
    common: CommonOptions,
    /// Pairs of `cudaMalloc` and `cudaFree` before the death, and as many after it.
    #[arg(long, default_value_t = 10)]
    calls: usize,
}

/// Bytes of a block.
const SIZE: usize = 4096;
/// How often the death of the thread is looked for.
const POLL: Duration = Duration::from_millis(5);

fn main() {
    let options = Options::parse();
    options.common.wait_at(Step::Load);
    // SAFETY: the process has one thread.
    unsafe { env::set_var("FAKE_CUDA_LATENCY", "cudaDeviceSynchronize=1000h") };
    let runtime: &'static Runtime = Box::leak(Box::new(Runtime::open(&options.common.cudart)));
    assert!(runtime.is_fake(), "only the fake CUDA hangs on demand");
    options.common.wait_at(Step::Call);

    let live = Live::default();
    let mut session = RuntimeSession::new(runtime, &live);
    pairs(&mut session, options.calls);
    let thread = die_inside_a_call(runtime);
    session.tally.calls("cudaDeviceSynchronize", 1);
    pairs(&mut session, options.calls);
    Report::new(
        "die",
        true,
        &session.tally,
        &live,
        entries::of_process([runtime]),
    )
    .with("in_flight", json!({ "cudaDeviceSynchronize": 1 }))
    .with("dead_tid", thread)
    .print();
    options.common.wait_at(Step::Exit);
}

fn pairs(session: &mut RuntimeSession<'_>, count: usize) {
    for _ in 0..count {
        if let Ok(block) = session.malloc(SIZE) {
            // A failed call is in the tally; the program goes on.
            let _ = session.free(block, SIZE);
        }
    }
}

/// Starts a thread that enters the call, and ends it there: its id.
fn die_inside_a_call(runtime: &'static Runtime) -> i32 {
    // SAFETY: the handler makes one system call, which is all that a handler may do.
    unsafe {
        libc::signal(
            libc::SIGUSR1,
            end_this_thread as extern "C" fn(i32) as libc::sighandler_t,
        );
    }
    let (tell, told) = mpsc::channel();
    // Never joined: the thread ends behind the standard library's back.
    thread::spawn(move || {
        // SAFETY: no pointers.
        tell.send(unsafe { libc::gettid() })
            .expect("the main thread waits");
        // SAFETY: no pointers.
        unsafe { (runtime.functions().device_synchronize)() }
    });
    let thread = told.recv().expect("the thread says its id");
    while !entries::of_process([runtime]).contains_key("cuCtxSynchronize") {
        thread::sleep(POLL);
    }
    // SAFETY: a live thread of this process.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) };
    while PathBuf::from(format!("/proc/self/task/{thread}")).exists() {
        thread::sleep(POLL);
    }
    thread
}

extern "C" fn end_this_thread(_signal: i32) {
    // SAFETY: ends the calling thread alone, wherever it is.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}
