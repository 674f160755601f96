//! Waits.

use super::{driver, ptsz, runtime};
use crate::{
    api::{Api, Effect, Family},
    value::{Field, arg},
};

pub(super) const ROWS: [Api; 9] = [
    runtime(&["cudaDeviceSynchronize"], Family::Sync, Effect::Wait, &[])
        .core()
        .doc("Waits until the device is idle"),
    runtime(
        ptsz!("cudaStreamSynchronize"),
        Family::Sync,
        Effect::Wait,
        &[arg(0, Field::Stream)],
    )
    .core()
    .doc("Waits until a stream is idle"),
    runtime(
        &["cudaEventSynchronize"],
        Family::Sync,
        Effect::Wait,
        &[arg(0, Field::Handle)],
    )
    .core()
    .doc("Waits for an event"),
    runtime(
        ptsz!("cudaStreamWaitEvent"),
        Family::Sync,
        Effect::StreamWait,
        &[arg(0, Field::Stream), arg(1, Field::Handle)],
    )
    .doc("Makes a stream wait for an event; the host goes on"),
    driver(&["cuCtxSynchronize"], Family::Sync, Effect::Wait, &[])
        .core()
        .doc("Waits until the current context is idle"),
    driver(
        &["cuCtxSynchronize_v2"],
        Family::Sync,
        Effect::Wait,
        &[arg(0, Field::Context)],
    )
    .since(13000)
    .core()
    .doc("Waits until a context is idle"),
    driver(
        ptsz!("cuStreamSynchronize"),
        Family::Sync,
        Effect::Wait,
        &[arg(0, Field::Stream)],
    )
    .core()
    .doc("Waits until a stream is idle"),
    driver(
        &["cuEventSynchronize"],
        Family::Sync,
        Effect::Wait,
        &[arg(0, Field::Handle)],
    )
    .core()
    .doc("Waits for an event"),
    driver(
        ptsz!("cuStreamWaitEvent"),
        Family::Sync,
        Effect::StreamWait,
        &[arg(0, Field::Stream), arg(1, Field::Handle)],
    )
    .doc("Makes a stream wait for an event; the host goes on"),
];
