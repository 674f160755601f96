//! Waits. That of a stream for an event is among the graphs' calls, too.

use super::{
    arguments::{int, registers},
    expected::nothing,
    layers::{Layer, TWINS},
    session::Session,
};

pub(super) fn call(session: &mut Session, layer: Layer) {
    session.call(
        layer.name("cudaDeviceSynchronize", "cuCtxSynchronize"),
        &registers([]),
        nothing(),
    );
    let event = 0xe001;
    session.call(
        layer.name("cudaEventSynchronize", "cuEventSynchronize"),
        &registers([event]),
        nothing().handle(event),
    );
    for twin in TWINS {
        let stream = 0xb001 + twin.extra();
        session.call(
            &twin.ptsz(layer.name("cudaStreamSynchronize", "cuStreamSynchronize")),
            &registers([stream]),
            nothing().stream(stream),
        );
        session.call(
            &twin.ptsz(layer.name("cudaStreamWaitEvent", "cuStreamWaitEvent")),
            &registers([stream, event, int(0)]),
            nothing().stream(stream).handle(event),
        );
    }
}

/// A wait for a context that is named.
pub(super) fn context(session: &mut Session, context: u64) {
    session.call(
        "cuCtxSynchronize_v2",
        &registers([context]),
        nothing().handle(context),
    );
}
