//! A story for newcomers: a tiny model server. It loads weights, makes a KV cache, answers a
//! request with 100 decode steps, and forgets to free a scratch buffer now and then.
//!
//! No device is needed and nothing is computed; the calls are those of a real server.

use std::{thread, time::Duration};

use clap::Parser;
use fake_cuda_core::abi::Dim3;
use workloads::{
    entries,
    kernels::{self, Kernel},
    options::{CommonOptions, Step},
    report::Report,
    runtime::Runtime,
    runtime_session::{LaunchForm, LaunchShape, RuntimeSession, Twin},
    tally::{Code, Live},
    transfer::Transfer,
};

/// A tiny model server, for about three seconds.
#[derive(Clone, Debug, Parser)]
struct Options {
    #[command(flatten)]
    common: CommonOptions,
    /// Decode steps.
    #[arg(long, default_value_t = 100)]
    steps: usize,
    /// Milliseconds of a decode step.
    #[arg(long, default_value_t = 25)]
    step_ms: u64,
    /// Each so many steps a scratch buffer is forgotten; 0: never.
    #[arg(long, default_value_t = 10)]
    forget: usize,
}

const LAYERS: usize = 8;
/// Bytes of one layer's weights.
const LAYER_WEIGHTS: usize = 48 << 20;
/// Bytes of the KV cache.
const KV_CACHE: usize = 1 << 30;
/// Bytes of the activations of one step.
const ACTIVATIONS: usize = 3 << 20;
/// Bytes of the scratch buffer that is forgotten now and then.
const SCRATCH: usize = 512 << 10;
/// Bytes that go to the host after each step: the logits.
const LOGITS: usize = 128 << 10;
/// Bytes of a chunk of weights on its way to the device.
const CHUNK: usize = 4 << 20;

/// The kernels of one layer, in order.
const LAYER: [&Kernel; 6] = [
    &kernels::RMS_NORM,
    &kernels::GEMM,
    &kernels::ROTARY,
    &kernels::CACHE,
    &kernels::ATTENTION,
    &kernels::SILU_MUL,
];

fn main() {
    let options = Options::parse();
    options.common.wait_at(Step::Load);
    let runtime = Runtime::open(&options.common.cudart);
    options.common.wait_at(Step::Call);
    if runtime.is_fake() {
        eprintln!("demo: a tiny model server on a fake CUDA device; nothing is computed");
    }
    let live = Live::default();
    let mut session = RuntimeSession::new(&runtime, &live);
    if let Err(code) = serve(&mut session, &options) {
        eprintln!("demo: CUDA call failed with {code}");
    }
    let tally = session.tally;
    Report::new(
        "demo",
        runtime.is_fake(),
        &tally,
        &live,
        entries::of_process([&runtime]),
    )
    .print();
    options.common.wait_at(Step::Exit);
}

fn serve(session: &mut RuntimeSession<'_>, options: &Options) -> Result<(), Code> {
    session.set_device(0)?;
    let weights = load_weights(session)?;
    session.mem_get_info()?;
    let cache = session.malloc(KV_CACHE)?;
    for step in 0..options.steps {
        let is_forgotten = options.forget > 0 && (step + 1).is_multiple_of(options.forget);
        decode(session, is_forgotten)?;
        thread::sleep(Duration::from_millis(options.step_ms));
    }
    session.device_synchronize()?;
    session.free(cache, KV_CACHE)?;
    for layer in weights {
        session.free(layer, LAYER_WEIGHTS)?;
    }
    Ok(())
}

fn load_weights(session: &mut RuntimeSession<'_>) -> Result<Vec<u64>, Code> {
    let chunk = vec![0; CHUNK];
    let mut layers = Vec::new();
    for _ in 0..LAYERS {
        let layer = session.malloc(LAYER_WEIGHTS)?;
        for offset in (0..LAYER_WEIGHTS).step_by(CHUNK) {
            let to = layer + offset as u64;
            session.memcpy(Twin::Plain, Transfer::HostToDevice { to, from: &chunk })?;
        }
        layers.push(layer);
    }
    Ok(layers)
}

fn decode(session: &mut RuntimeSession<'_>, is_forgotten: bool) -> Result<(), Code> {
    let activations = session.malloc(ACTIVATIONS)?;
    let scratch = session.malloc(SCRATCH)?;
    launch(session, &kernels::EMBED, 16, 128)?;
    for _ in 0..LAYERS {
        for kernel in LAYER {
            launch(session, kernel, 64, 256)?;
        }
    }
    launch(session, &kernels::SAMPLE, 1, 1024)?;
    let mut logits = vec![0; LOGITS];
    let transfer = Transfer::DeviceToHost {
        to: &mut logits,
        from: activations,
    };
    session.memcpy_async(Twin::Plain, transfer, 0)?;
    session.stream_synchronize(Twin::Plain, 0)?;
    if !is_forgotten {
        session.free(scratch, SCRATCH)?;
    }
    session.free(activations, ACTIVATIONS)
}

fn launch(
    session: &mut RuntimeSession<'_>,
    kernel: &Kernel,
    blocks: u32,
    threads: u32,
) -> Result<(), Code> {
    let shape = LaunchShape {
        grid: Dim3 {
            x: blocks,
            y: 1,
            z: 1,
        },
        block: Dim3 {
            x: threads,
            y: 1,
            z: 1,
        },
        shared: 0,
        stream: 0,
    };
    session.launch(LaunchForm::Stub, Twin::Plain, kernel, shape)
}
