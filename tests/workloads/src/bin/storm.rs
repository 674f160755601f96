//! One kind of call as fast as it goes, for benches: nanoseconds a call.

use std::{
    hint, ptr,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use clap::{Parser, ValueEnum};
use fake_cuda_core::abi::Dim3;
use serde_json::json;
use workloads::{
    driver::Driver,
    driver_session::DriverSession,
    entries, kernels,
    options::{CommonOptions, Layer, Step},
    report::Report,
    runtime::Runtime,
    runtime_session::{LaunchShape, RuntimeSession},
    tally::{Code, Live, Tally},
    transfer::Direction,
};

/// Bytes of an allocation or copy.
const SIZE: usize = 4096;
/// What is copied.
static SOURCE: [u8; SIZE] = [7; SIZE];
const HOST_TO_DEVICE: i32 = Direction::HostToDevice as i32;
/// Why an allocation succeeds.
const ROOM: &str = "a device has room for one block";
/// Why a capture succeeds.
const CAPTURE: &str = "an empty graph can be captured";

/// Makes one kind of call as fast as it goes.
#[derive(Clone, Debug, Parser)]
struct Options {
    #[command(flatten)]
    common: CommonOptions,
    /// What is called.
    #[arg(long, value_enum, default_value_t = Kind::Launch)]
    kind: Kind,
    /// The interface that is called.
    #[arg(long, value_enum, default_value_t = Layer::Runtime)]
    layer: Layer,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Operations of each thread in a round.
    #[arg(long, default_value_t = 100_000)]
    calls: u32,
    /// Rounds, each measured by itself.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Begin rounds for so long instead.
    #[arg(long)]
    seconds: Option<f64>,
    /// Operations of each thread a second, evenly spaced, where the calls themselves leave the
    /// time for it; else as fast as it goes.
    #[arg(long)]
    rate: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// `cudaLaunchKernel`, `cuLaunchKernel`
    Launch,
    /// A pair of `cudaMalloc` and `cudaFree`, or of `cuMemAlloc_v2` and `cuMemFree_v2`
    Malloc,
    /// `cudaMemcpyAsync` from the host, `cuMemcpyHtoDAsync_v2`
    Copy,
    /// `cudaStreamSynchronize`, `cuStreamSynchronize`
    Sync,
    /// `cudaGraphLaunch`, `cuGraphLaunch`
    Graph,
}

/// What one thread did, and nanoseconds an operation in each of its rounds.
type Rounds = (Tally, Vec<f64>);

fn main() {
    let options = Options::parse();
    options.common.wait_at(Step::Load);
    let live = Live::default();
    let (is_fake, entries, threads) = match options.layer {
        Layer::Runtime => {
            let runtime = Runtime::open(&options.common.cudart);
            options.common.wait_at(Step::Call);
            let threads = run_threads(&options, || runtime_rounds(&options, &runtime, &live));
            (runtime.is_fake(), entries::of_process([&runtime]), threads)
        }
        Layer::Driver => {
            let driver = Driver::open(&options.common.cuda);
            options.common.wait_at(Step::Call);
            let threads = run_threads(&options, || driver_rounds(&options, &driver, &live));
            (driver.is_fake(), entries::of_process([]), threads)
        }
        Layer::Both => panic!("a storm is measured on one layer: runtime or driver"),
    };
    let mut tally = Tally::new();
    let mut nanoseconds_per_operation = Vec::new();
    for (thread, rounds) in threads {
        tally.add(&thread);
        nanoseconds_per_operation.extend(rounds);
    }
    nanoseconds_per_operation.sort_by(f64::total_cmp);
    let median = nanoseconds_per_operation[nanoseconds_per_operation.len() / 2];
    Report::new("storm", is_fake, &tally, &live, entries)
        .with(
            "ns_per_operation",
            json!({ "median": median, "rounds": nanoseconds_per_operation }),
        )
        .print();
    options.common.wait_at(Step::Exit);
}

/// Runs `work` in every thread, all starting at once.
fn run_threads(options: &Options, work: impl Fn() -> Rounds + Sync) -> Vec<Rounds> {
    let start = Barrier::new(options.threads);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..options.threads)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    work()
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker does not panic"))
            .collect()
    })
}

/// Makes rounds of `operation` as the options ask, after one to warm up: nanoseconds an
/// operation in each. `symbols` are the calls that an operation consists of.
fn measure(
    options: &Options,
    symbols: &[&'static str],
    mut operation: impl FnMut() -> Code,
) -> Rounds {
    let mut checked = || match operation() {
        0 => {}
        code => panic!("{symbols:?} failed with {code}: a failing call is not worth measuring"),
    };
    checked();
    let begun = Instant::now();
    let enough = |done: usize| match options.seconds {
        Some(seconds) => done > 0 && begun.elapsed() >= Duration::from_secs_f64(seconds),
        None => done >= options.rounds,
    };
    let pace = options.rate.map(|rate| Duration::from_secs_f64(1.0 / rate));
    let mut due = begun;
    let mut rounds = Vec::new();
    while !enough(rounds.len()) {
        let start = Instant::now();
        for _ in 0..options.calls {
            if let Some(pace) = pace {
                while Instant::now() < due {
                    hint::spin_loop();
                }
                due += pace;
            }
            checked();
        }
        let per_call = start.elapsed().as_secs_f64() * 1e9 / f64::from(options.calls.max(1));
        rounds.push(per_call);
    }
    let mut tally = Tally::new();
    for symbol in symbols {
        tally.calls(symbol, u64::from(options.calls) * rounds.len() as u64 + 1);
    }
    (tally, rounds)
}

fn runtime_rounds(options: &Options, runtime: &Runtime, live: &Live) -> Rounds {
    let functions = runtime.functions();
    let mut session = RuntimeSession::new(runtime, live);
    let LaunchShape {
        grid,
        block,
        shared,
        stream,
    } = LaunchShape::default();
    let (tally, rounds) = match options.kind {
        Kind::Launch => measure(options, &["cudaLaunchKernel"], || {
            let (kernel, none) = (kernels::DECODE.address(), ptr::null());
            // SAFETY: a kernel without arguments.
            unsafe { (functions.launch_kernel)(kernel, grid, block, none, shared as usize, stream) }
        }),
        Kind::Malloc => measure(options, &["cudaMalloc", "cudaFree"], || {
            let mut address = 0;
            // SAFETY: a pointer to a local; then only a number.
            match unsafe { (functions.malloc)(&raw mut address, SIZE) } {
                // SAFETY: a device address is only a number.
                0 => unsafe { (functions.free)(address) },
                code => code,
            }
        }),
        Kind::Copy => {
            let (to, from) = (session.malloc(SIZE).expect(ROOM), SOURCE.as_ptr() as u64);
            measure(options, &["cudaMemcpyAsync"], || {
                // SAFETY: a static host range.
                unsafe { (functions.memcpy_async)(to, from, SIZE, HOST_TO_DEVICE, stream) }
            })
        }
        Kind::Sync => measure(options, &["cudaStreamSynchronize"], || {
            // SAFETY: a stream is only a number.
            unsafe { (functions.stream_synchronize)(stream) }
        }),
        Kind::Graph => {
            let graph = session.capture(|_, _| Ok(())).expect(CAPTURE);
            measure(options, &["cudaGraphLaunch"], || {
                // SAFETY: a graph that is never destroyed.
                unsafe { (functions.graph_launch)(graph, stream) }
            })
        }
    };
    session.tally.add(&tally);
    (session.tally, rounds)
}

fn driver_rounds(options: &Options, driver: &Driver, live: &Live) -> Rounds {
    let functions = driver.functions();
    let mut session = DriverSession::start(driver, live)
        .unwrap_or_else(|code| panic!("the driver does not start: {code}"));
    let kernel = session
        .module_function(kernels::DECODE.mangled)
        .expect("a kernel is found");
    let LaunchShape {
        grid,
        block,
        shared,
        stream,
    } = LaunchShape::default();
    let (tally, rounds) = match options.kind {
        Kind::Launch => measure(options, &["cuLaunchKernel"], || {
            let (launch, none) = (functions.launch_kernel, ptr::null());
            let (
                Dim3 { x, y, z },
                Dim3 {
                    x: bx,
                    y: by,
                    z: bz,
                },
            ) = (grid, block);
            // SAFETY: a kernel without arguments.
            unsafe { launch(kernel, x, y, z, bx, by, bz, shared, stream, none, none) }
        }),
        Kind::Malloc => measure(options, &["cuMemAlloc_v2", "cuMemFree_v2"], || {
            let mut address = 0;
            // SAFETY: a pointer to a local.
            match unsafe { (functions.mem_alloc)(&raw mut address, SIZE) } {
                // SAFETY: a device address is only a number.
                0 => unsafe { (functions.mem_free)(address) },
                code => code,
            }
        }),
        Kind::Copy => {
            let (to, from) = (session.malloc(SIZE).expect(ROOM), SOURCE.as_ptr() as u64);
            measure(options, &["cuMemcpyHtoDAsync_v2"], || {
                // SAFETY: a static host range.
                unsafe { (functions.memcpy_htod_async)(to, from, SIZE, stream) }
            })
        }
        Kind::Sync => measure(options, &["cuStreamSynchronize"], || {
            // SAFETY: a stream is only a number.
            unsafe { (functions.stream_synchronize)(stream) }
        }),
        Kind::Graph => {
            let graph = session.capture(|_, _| Ok(())).expect(CAPTURE);
            measure(options, &["cuGraphLaunch"], || {
                // SAFETY: a graph that is never destroyed.
                unsafe { (functions.graph_launch)(graph, stream) }
            })
        }
    };
    session.tally.add(&tally);
    (session.tally, rounds)
}
