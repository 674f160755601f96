//! The workload `mix`: every traced function, in both twins, a known number of times.

use std::{sync::mpsc, thread};

use clap::Parser;

use crate::{
    STREAM,
    driver::Driver,
    driver_session::DriverSession,
    entries, kernels,
    options::{CommonOptions, Layer, Step},
    process,
    report::Report,
    runtime::Runtime,
    runtime_session::{LaunchForm, LaunchShape, RuntimeSession, Twin},
    tally::{Live, Tally},
    transfer::Transfer,
};

/// Calls every traced function a known number of times.
#[derive(Clone, Debug, Parser)]
#[command(name = "mix")]
pub struct Options {
    #[command(flatten)]
    common: CommonOptions,
    /// Threads of each process.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Children, forked before CUDA is opened, that do the same as the first process.
    #[arg(long, default_value_t = 0)]
    forks: usize,
    /// Rounds of each thread.
    #[arg(long, default_value_t = 10)]
    iterations: usize,
    /// The interface that is called.
    #[arg(long, value_enum, default_value_t = Layer::Runtime)]
    layer: Layer,
    /// The device that each thread chooses for its runtime calls.
    #[arg(long, default_value_t = 0)]
    device: i32,
    /// Let one more thread free every runtime block that the others allocate.
    #[arg(long)]
    handoff: bool,
    /// Runtime blocks of 1 MiB that each thread never frees.
    #[arg(long, default_value_t = 0)]
    leak: usize,
}

/// Block sizes, one a round: shared pages, a page of its own, several pages.
const SIZES: [usize; 6] = [4096, 65_536, 1 << 20, (1 << 20) + 1, 3 << 20, 20 << 20];
/// Size of a leaked block.
const LEAK: usize = 1 << 20;
/// Bytes of a host-to-device copy; each direction has its own size.
const UP: usize = 1000;
/// Bytes of a device-to-host copy.
const DOWN: usize = 2000;
/// Bytes of a device-to-device copy.
const ACROSS: usize = 3000;
/// Bytes of a host-to-host copy.
const BESIDE: usize = 500;
/// Bytes of a copy by address.
const BY_ADDRESS: usize = 700;

const TWINS: [Twin; 2] = [Twin::Plain, Twin::PerThread];
const FORMS: [LaunchForm; 4] = [
    LaunchForm::Plain,
    LaunchForm::Stub,
    LaunchForm::Configured,
    LaunchForm::Cooperative,
];

/// Runs the workload over the runtime that `open` gives.
pub fn main(open: fn(&CommonOptions) -> Runtime) {
    let options = Options::parse();
    options.common.wait_at(Step::Load);
    let children: Vec<process::Child> = (0..options.forks)
        .map(|_| process::fork(|| one_process(&options, open)))
        .collect();
    let mut report = one_process(&options, open);
    for child in children {
        report.add(child.join());
    }
    report.print();
    options.common.wait_at(Step::Exit);
}

fn one_process(options: &Options, open: fn(&CommonOptions) -> Runtime) -> Report {
    let wants = |layer| options.layer == layer || options.layer == Layer::Both;
    let runtime = wants(Layer::Runtime).then(|| open(&options.common));
    let driver = wants(Layer::Driver).then(|| Driver::open(&options.common.cuda));
    options.common.wait_at(Step::Call);

    let (live, mut tally) = (Live::default(), Tally::new());
    if let Some(runtime) = &runtime {
        tally.add(&runtime_threads(options, runtime, &live));
    }
    if let Some(driver) = &driver {
        tally.add(&driver_threads(options, driver, &live));
    }
    let is_fake = runtime
        .as_ref()
        .map(Runtime::is_fake)
        .or(driver.as_ref().map(Driver::is_fake));
    Report::new(
        "mix",
        is_fake == Some(true),
        &tally,
        &live,
        entries::of_process(&runtime),
    )
}

/// A block for another thread to free: address and bytes.
type Handoff = (u64, usize);

fn runtime_threads(options: &Options, runtime: &Runtime, live: &Live) -> Tally {
    thread::scope(|scope| {
        let (to_consumer, handed_over) = mpsc::channel::<Handoff>();
        let mut workers: Vec<_> = (0..options.threads)
            .map(|_| {
                let to_consumer = options.handoff.then(|| to_consumer.clone());
                scope.spawn(move || {
                    let mut session = RuntimeSession::new(runtime, live);
                    runtime_rounds(&mut session, options, to_consumer.as_ref());
                    session.tally
                })
            })
            .collect();
        drop(to_consumer);
        if options.handoff {
            workers.push(scope.spawn(move || {
                let mut session = RuntimeSession::new(runtime, live);
                for (block, size) in handed_over {
                    // A failed call is in the tally; the program goes on.
                    let _ = session.free(block, size);
                }
                session.tally
            }));
        }
        merge(workers)
    })
}

fn driver_threads(options: &Options, driver: &Driver, live: &Live) -> Tally {
    thread::scope(|scope| {
        let workers = (0..options.threads)
            .map(|_| {
                scope.spawn(move || {
                    let mut session = DriverSession::start(driver, live)
                        .unwrap_or_else(|code| panic!("the driver does not start: {code}"));
                    driver_rounds(&mut session, options);
                    session.tally
                })
            })
            .collect();
        merge(workers)
    })
}

fn merge(workers: Vec<thread::ScopedJoinHandle<'_, Tally>>) -> Tally {
    let mut tally = Tally::new();
    for worker in workers {
        tally.add(&worker.join().expect("a worker does not panic"));
    }
    tally
}

/// All rounds of one thread. Failed calls are in the tally; the program goes on as far as it
/// can without what they would have given.
fn runtime_rounds(
    session: &mut RuntimeSession<'_>,
    options: &Options,
    to_consumer: Option<&mpsc::Sender<Handoff>>,
) {
    let _ = session.set_device(options.device);
    let graph = session.capture(|session, stream| {
        let shape = LaunchShape {
            stream,
            ..LaunchShape::default()
        };
        session.launch(LaunchForm::Plain, Twin::Plain, &kernels::RMS_NORM, shape)?;
        session.launch(LaunchForm::Plain, Twin::Plain, &kernels::GEMM, shape)
    });
    for _ in 0..options.leak {
        let _ = session.malloc(LEAK);
    }
    for size in SIZES.into_iter().cycle().take(options.iterations) {
        if let Ok(block) = session.malloc(size) {
            for twin in TWINS {
                for_each_transfer(block, |transfer| {
                    let _ = session.memcpy(twin, transfer);
                });
                for_each_transfer(block, |transfer| {
                    let _ = session.memcpy_async(twin, transfer, STREAM);
                });
            }
            match to_consumer {
                Some(consumer) => consumer
                    .send((block, size))
                    .expect("the consumer waits for us"),
                None => {
                    let _ = session.free(block, size);
                }
            }
        }
        for twin in TWINS {
            for form in FORMS {
                let _ = session.launch(form, twin, &kernels::DECODE, LaunchShape::default());
            }
            let _ = session.stream_synchronize(twin, STREAM);
            if let Ok(graph) = graph {
                let _ = session.graph_launch(twin, graph, STREAM);
            }
        }
        let _ = session.event_round_trip(STREAM);
        let _ = session.device_synchronize();
        let _ = session.mem_get_info();
    }
    if let Ok(graph) = graph {
        let _ = session.graph_destroy(graph);
    }
}

fn for_each_transfer(block: u64, mut copy: impl FnMut(Transfer<'_>)) {
    let (source, mut target) = ([7; UP], [0; DOWN]);
    copy(Transfer::HostToDevice {
        to: block,
        from: &source,
    });
    copy(Transfer::DeviceToHost {
        to: &mut target,
        from: block,
    });
    copy(Transfer::DeviceToDevice {
        to: block,
        from: block,
        size: ACROSS,
    });
    copy(Transfer::HostToHost {
        to: &mut target[..BESIDE],
        from: &source,
    });
    copy(Transfer::ByAddress {
        to: block,
        from: &source[..BY_ADDRESS],
    });
}

fn driver_rounds(session: &mut DriverSession<'_>, options: &Options) {
    let by_library = session.library_function(kernels::DECODE.mangled);
    let by_module = session.module_function(kernels::GEMM.mangled);
    let (Ok(decode), Ok(gemm)) = (by_library, by_module) else {
        return;
    };
    let graph = session.capture(|session, stream| {
        let shape = LaunchShape {
            stream,
            ..LaunchShape::default()
        };
        session.launch(LaunchForm::Plain, Twin::Plain, gemm, shape)
    });
    for size in SIZES.into_iter().cycle().take(options.iterations) {
        if let Ok(block) = session.malloc(size) {
            for twin in TWINS {
                for_each_transfer(block, |transfer| {
                    let _ = session.memcpy(twin, transfer);
                });
                for_each_transfer(block, |transfer| {
                    let _ = session.memcpy_async(twin, transfer, STREAM);
                });
            }
            let _ = session.free(block, size);
        }
        for twin in TWINS {
            for form in [
                LaunchForm::Plain,
                LaunchForm::Configured,
                LaunchForm::Cooperative,
            ] {
                let _ = session.launch(form, twin, decode, LaunchShape::default());
            }
            let _ = session.stream_synchronize(twin, STREAM);
            if let Ok(graph) = graph {
                let _ = session.graph_launch(twin, graph, STREAM);
            }
        }
        let _ = session.event_round_trip(STREAM);
        let _ = session.context_synchronize();
        let _ = session.mem_get_info();
    }
    if let Ok(graph) = graph {
        let _ = session.graph_destroy(graph);
    }
}
