//! Graphs, and the capture of streams.

use super::{
    arguments::{Memory, int, pair, registers},
    contexts::DEVICE,
    expected::nothing,
    launches,
    layers::{Layer, TWINS, Twin},
    memory,
    session::Session,
};

/// `cudaStreamCaptureModeThreadLocal`, `cudaStreamCaptureModeRelaxed`
const THREAD_LOCAL: u32 = 1;
const RELAXED: u32 = 2;

pub(super) fn call(session: &mut Session, layer: Layer) {
    for twin in TWINS {
        let graph = capture(session, layer, twin);
        records_outside(session, layer, twin);
        nodes(session, layer, graph);
        allocations(session, layer, twin);
        ready(session, layer, twin, graph);
        capture_into(session, layer, twin, graph);
        let destroy = layer.name("cudaGraphDestroy", "cuGraphDestroy");
        session.call(destroy, &registers([graph]), nothing().handle(graph));
        session.call_for(destroy, 1, &registers([graph]), nothing().handle(graph));
    }
}

/// Three nodes from two streams.
fn capture(session: &mut Session, layer: Layer, twin: Twin) -> u64 {
    let (stream, joined, [event, flagged]) = (
        0xc001 + twin.extra(),
        0xc011 + twin.extra(),
        [0xe011, 0xe012],
    );
    let begin = twin.ptsz(layer.name("cudaStreamBeginCapture", "cuStreamBeginCapture_v2"));
    let begun = || {
        nothing()
            .stream(stream)
            .option(THREAD_LOCAL.into())
            .about_capture()
    };
    let block = memory::block(session, layer, 0x1000);
    session.call(&begin, &registers([stream, int(THREAD_LOCAL)]), begun());
    session.call_for(
        &begin,
        401,
        &registers([stream, int(THREAD_LOCAL)]),
        begun(),
    );
    session.call(
        &twin.ptsz(layer.name("cudaEventRecord", "cuEventRecord")),
        &registers([event, stream]),
        nothing().handle(event).stream(stream).about_capture(),
    );
    session.call(
        &twin.ptsz(layer.name("cudaEventRecordWithFlags", "cuEventRecordWithFlags")),
        &registers([flagged, stream, int(1)]),
        nothing()
            .handle(flagged)
            .stream(stream)
            .option(1)
            .about_capture(),
    );
    launches::captured(session, layer, twin, stream);
    session.call(
        &twin.ptsz(layer.name("cudaStreamWaitEvent", "cuStreamWaitEvent")),
        &registers([joined, event, int(0)]),
        nothing().stream(joined).handle(event).about_capture(),
    );
    launches::captured(session, layer, twin, joined);
    set(session, layer, twin, block, joined, true);
    // A stream that never heard of the event.
    set(session, layer, twin, block, 0xc0ff, false);

    let end = twin.ptsz(layer.name("cudaStreamEndCapture", "cuStreamEndCapture"));
    let graph = Memory::out();
    session.call(
        &end,
        &registers([stream, graph.at()]),
        nothing().stream(stream).handle_left(&graph).about_capture(),
    );
    let captured = graph.get();
    session.call_for(
        &end,
        401,
        &registers([stream, graph.at()]),
        nothing().stream(stream).about_capture(),
    );
    set(session, layer, twin, block, joined, false);
    memory::free(session, layer, block);
    captured
}

fn set(session: &mut Session, layer: Layer, twin: Twin, block: u64, stream: u64, captured: bool) {
    let expected = nothing().address(block).size(0x99).stream(stream);
    session.call(
        &twin.ptsz(layer.name("cudaMemsetAsync", "cuMemsetD8Async")),
        &registers([block, int(1), 0x99, stream]),
        if captured {
            expected.captured()
        } else {
            expected
        },
    );
}

/// Events are recorded only while a capture is open, for there are very many of them.
fn records_outside(session: &mut Session, layer: Layer, twin: Twin) {
    let stream = 0xc021 + twin.extra();
    session.call(
        &twin.ptsz(layer.name("cudaEventRecord", "cuEventRecord")),
        &registers([0xe021, stream]),
        nothing().silent(),
    );
    session.call(
        &twin.ptsz(layer.name("cudaEventRecordWithFlags", "cuEventRecordWithFlags")),
        &registers([0xe022, stream, int(1)]),
        nothing().silent(),
    );
}

fn nodes(session: &mut Session, layer: Layer, graph: u64) {
    let (room, count) = (Memory::of([0; 8]), Memory::out());
    let symbol = layer.name("cudaGraphGetNodes", "cuGraphGetNodes");
    session.call(
        symbol,
        &registers([graph, 0, count.at()]),
        nothing().handle(graph).count_left(&count),
    );
    assert_eq!(count.get(), 3, "two launches and a set");
    let count = Memory::of([8]);
    session.call(
        symbol,
        &registers([graph, room.at(), count.at()]),
        nothing().handle(graph).count_left(&count),
    );
    assert_eq!(count.get(), 3);
    session.call_for(
        symbol,
        1,
        &registers([0x77, 0, count.at()]),
        nothing().handle(0x77),
    );
}

fn allocations(session: &mut Session, layer: Layer, twin: Twin) {
    let graph = Memory::out();
    let create = layer.name("cudaGraphCreate", "cuGraphCreate");
    session.set_up(create, &registers([graph.at(), int(0)]));
    let (graph, node, size) = (graph.get(), Memory::out(), 0x6_1111 + twin.extra());
    // Pool properties (11 words), access descriptions and their number, bytes, address.
    let mut parameters = [0; 15];
    parameters[..2].copy_from_slice(&[pair(1, 0), pair(1, DEVICE)]);
    parameters[13] = size;
    let parameters = Memory::of(parameters);
    let left = parameters.clone();
    session.call(
        layer.name("cudaGraphAddMemAllocNode", "cuGraphAddMemAllocNode"),
        &registers([node.at(), graph, 0, 0, parameters.at()]),
        nothing()
            .left("address", move || left.word(14))
            .size(size)
            .related(graph),
    );
    let address = parameters.word(14);
    session.call(
        layer.name("cudaGraphAddMemFreeNode", "cuGraphAddMemFreeNode"),
        &registers([node.at(), graph, 0, 0, address]),
        nothing().address(address).related(graph),
    );
    session.call(
        layer.name("cudaGraphDestroy", "cuGraphDestroy"),
        &registers([graph]),
        nothing().handle(graph),
    );
}

fn ready(session: &mut Session, layer: Layer, twin: Twin, graph: u64) {
    let (executable, parameters) = (Memory::out(), Memory::of([0; 4]));
    let (out, flags) = (executable.at(), 1);
    let made = || nothing().handle_left(&executable).related(graph);
    let plain = match layer {
        Layer::Runtime if session.major() > 11 => registers([out, graph, 0]),
        Layer::Runtime | Layer::Driver => registers([out, graph, 0, 0, 0]),
    };
    let with_params = layer.name(
        "cudaGraphInstantiateWithParams",
        "cuGraphInstantiateWithParams",
    );
    for (symbol, arguments, expected) in [
        (
            layer
                .name("cudaGraphInstantiate", "cuGraphInstantiate_v2")
                .to_owned(),
            plain,
            made(),
        ),
        (
            twin.ptsz(with_params),
            registers([out, graph, parameters.at()]),
            made(),
        ),
        (
            layer
                .name(
                    "cudaGraphInstantiateWithFlags",
                    "cuGraphInstantiateWithFlags",
                )
                .to_owned(),
            registers([out, graph, flags]),
            made().option(flags),
        ),
    ] {
        if session.call(&symbol, &arguments, expected) {
            launch(session, layer, twin, executable.get(), graph);
        }
    }
}

fn launch(session: &mut Session, layer: Layer, twin: Twin, executable: u64, graph: u64) {
    let stream = 0xc031 + twin.extra();
    let launched = || nothing().handle(executable).stream(stream);
    session.call(
        &twin.ptsz(layer.name("cudaGraphUpload", "cuGraphUpload")),
        &registers([executable, stream]),
        launched(),
    );
    session.call(
        &twin.ptsz(layer.name("cudaGraphLaunch", "cuGraphLaunch")),
        &registers([executable, stream]),
        launched(),
    );
    let result = Memory::of([0; 4]);
    let updated = || nothing().handle(executable).related(graph);
    let update_11 = registers([executable, graph, result.at(), result.at()]);
    let update = registers([executable, graph, result.at()]);
    match layer {
        Layer::Runtime if session.major() == 11 => {
            session.call("cudaGraphExecUpdate", &update_11, updated());
        }
        Layer::Runtime => {
            session.call("cudaGraphExecUpdate", &update, updated());
        }
        Layer::Driver => {
            session.call("cuGraphExecUpdate", &update_11, updated());
            session.call("cuGraphExecUpdate_v2", &update, updated());
        }
    }
    session.call(
        layer.name("cudaGraphExecDestroy", "cuGraphExecDestroy"),
        &registers([executable]),
        nothing().handle(executable),
    );
}

/// A capture that goes on with a graph.
fn capture_into(session: &mut Session, layer: Layer, twin: Twin, graph: u64) {
    let stream = 0xc041 + twin.extra();
    let begun = session.call(
        &twin.ptsz(layer.name(
            "cudaStreamBeginCaptureToGraph",
            "cuStreamBeginCaptureToGraph",
        )),
        &registers([stream, graph, 0, 0, 0, int(RELAXED)]),
        nothing()
            .stream(stream)
            .related(graph)
            .option(RELAXED.into())
            .about_capture(),
    );
    if !begun {
        return;
    }
    launches::captured(session, layer, twin, stream);
    let ended = Memory::out();
    session.call(
        &twin.ptsz(layer.name("cudaStreamEndCapture", "cuStreamEndCapture")),
        &registers([stream, ended.at()]),
        nothing().stream(stream).handle_left(&ended).about_capture(),
    );
    assert_eq!(ended.get(), graph);
}
