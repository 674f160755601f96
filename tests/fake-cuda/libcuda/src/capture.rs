//! Stream capture: what a captured stream is given becomes nodes of a graph. Events carry a
//! capture on to other streams.

use std::{
    collections::HashMap,
    sync::{
        LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::{
    context,
    graph::{self, Node},
};

/// `cudaStreamLegacy`: what 0 stands for in functions that are no twins.
const LEGACY: usize = 1;

#[derive(Default)]
struct Capture {
    /// Where it began, and where it must end.
    origin: usize,
    nodes: Vec<Node>,
    /// The graph that the nodes go to, where the program gave one.
    graph: Option<usize>,
    is_invalid: bool,
}

#[derive(Default)]
struct Captures {
    open: HashMap<u64, Capture>,
    /// Captured streams.
    streams: HashMap<usize, u64>,
    /// Events recorded in captured streams.
    events: HashMap<usize, u64>,
    last: u64,
}

static CAPTURES: LazyLock<Mutex<Captures>> = LazyLock::new(Mutex::default);
/// How many captures are open, for the common case of none.
static OPEN: AtomicUsize = AtomicUsize::new(0);

fn captures() -> MutexGuard<'static, Captures> {
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a node to the stream's capture; `false` when it has none.
#[inline]
pub(crate) fn add(stream: usize, node: impl FnOnce() -> Node) -> bool {
    OPEN.load(Relaxed) > 0 && add_to_open(stream, node())
}

#[cold]
fn add_to_open(stream: usize, node: Node) -> bool {
    let captures = &mut *captures();
    let capture = captures
        .streams
        .get(&stream)
        .and_then(|id| captures.open.get_mut(id));
    match capture {
        Some(capture) => {
            capture.nodes.push(node);
            true
        }
        None => false,
    }
}

/// Whether the stream is captured.
pub(crate) fn is_captured(stream: usize) -> bool {
    OPEN.load(Relaxed) > 0 && captures().streams.contains_key(&stream)
}

/// An event is recorded: it belongs to the stream's capture, or to none.
pub(crate) fn record(stream: usize, event: usize) {
    if OPEN.load(Relaxed) == 0 {
        return;
    }
    let captures = &mut *captures();
    match captures.streams.get(&stream) {
        Some(id) => captures.events.insert(event, *id),
        None => captures.events.remove(&event),
    };
}

/// A stream waits for an event: it joins the event's capture.
pub(crate) fn wait(stream: usize, event: usize) -> Outcome {
    if OPEN.load(Relaxed) == 0 {
        return Ok(());
    }
    let captures = &mut *captures();
    let Some(id) = captures.events.get(&event).copied() else {
        return Ok(());
    };
    if *captures.streams.entry(stream).or_insert(id) == id {
        Ok(())
    } else {
        Err(Code::STREAM_CAPTURE_MERGE)
    }
}

/// Nobody can wait for a captured stream: the attempt makes the capture invalid.
pub(crate) fn forbid_wait(stream: usize) -> Outcome {
    if OPEN.load(Relaxed) == 0 {
        return Ok(());
    }
    let captures = &mut *captures();
    match captures
        .streams
        .get(&stream)
        .and_then(|id| captures.open.get_mut(id))
    {
        Some(capture) => {
            capture.is_invalid = true;
            Err(Code::STREAM_CAPTURE_UNSUPPORTED)
        }
        None => Ok(()),
    }
}

/// Nor for an event of a capture.
pub(crate) fn forbid_wait_for_event(event: usize) -> Outcome {
    if OPEN.load(Relaxed) > 0 && captures().events.contains_key(&event) {
        return Err(Code::CAPTURED_EVENT);
    }
    Ok(())
}

fn begin(stream: usize, mode: i32, graph: Option<usize>) -> Outcome {
    context::current()?;
    if !(0..=2).contains(&mode) {
        return Err(Code::INVALID_VALUE);
    }
    if stream == LEGACY {
        return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
    }
    if let Some(graph) = graph {
        graph::check(graph)?;
    }
    let mut captures = captures();
    if captures.streams.contains_key(&stream) {
        return Err(Code::ILLEGAL_STATE);
    }
    captures.last += 1;
    let id = captures.last;
    captures.open.insert(
        id,
        Capture {
            origin: stream,
            graph,
            ..Capture::default()
        },
    );
    captures.streams.insert(stream, id);
    OPEN.fetch_add(1, Relaxed);
    Ok(())
}

fn end(stream: usize, graph: *mut usize) -> Outcome {
    let mut captures = captures();
    let id = captures
        .streams
        .get(&stream)
        .copied()
        .ok_or(Code::ILLEGAL_STATE)?;
    if captures
        .open
        .get(&id)
        .is_some_and(|capture| capture.origin != stream)
    {
        return Err(Code::STREAM_CAPTURE_UNMATCHED);
    }
    let capture = captures.open.remove(&id).ok_or(Code::ILLEGAL_STATE)?;
    captures.streams.retain(|_, other| *other != id);
    captures.events.retain(|_, other| *other != id);
    OPEN.fetch_sub(1, Relaxed);
    drop(captures);
    let ended = if capture.is_invalid {
        Err(Code::STREAM_CAPTURE_INVALIDATED)
    } else {
        Ok(graph::complete(capture.graph, capture.nodes))
    };
    // SAFETY: the caller's pointer, as the real functions require.
    unsafe { store(graph, ended.unwrap_or(0)) }?;
    ended.map(|_| ())
}

exports! {
    unversioned;

    /// Begins to collect what the stream is given.
    fn cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz [default] (
        stream: usize, mode: i32,
    ) {
        begin(default.resolve(stream), mode, None)
    }

    /// Begins to collect what the stream is given, into a graph; dependencies mean nothing here.
    fn cuStreamBeginCaptureToGraph | cuStreamBeginCaptureToGraph_ptsz [default] (
        stream: usize, graph: usize, _dependencies: *const usize, _data: *const u64,
        _count: usize, mode: i32,
    ) {
        begin(default.resolve(stream), mode, Some(graph))
    }

    /// Ends a capture: its graph.
    fn cuStreamEndCapture | cuStreamEndCapture_ptsz [default] (
        stream: usize, graph: *mut usize,
    ) {
        end(default.resolve(stream), graph)
    }

    /// 1 while the stream is captured, else 0.
    fn cuStreamIsCapturing(stream: usize, status: *mut i32) {
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(status, i32::from(is_captured(stream))) }
    }

    /// Any mode is as good as another; the old one is handed back as it came.
    fn cuThreadExchangeStreamCaptureMode(_mode: *mut i32) {
        Ok(())
    }
}
