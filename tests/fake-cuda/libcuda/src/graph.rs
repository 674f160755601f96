//! Stream capture and graphs, as far as a host can see them: what a capturing stream is given
//! becomes nodes, and a graph knows how many it has.

use std::{
    collections::HashMap,
    sync::{
        LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::context;

/// Capturing streams, and the nodes that each one has collected.
static CAPTURES: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);
/// How many streams capture, for the common case of none.
static CAPTURING: AtomicUsize = AtomicUsize::new(0);

/// What a graph or executable graph handle points to.
struct Graph {
    nodes: usize,
}

fn captures() -> MutexGuard<'static, HashMap<usize, usize>> {
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes one operation in the stream's capture, if it is capturing.
#[inline]
pub(crate) fn add_node_if_capturing(stream: usize) {
    if CAPTURING.load(Relaxed) > 0
        && let Some(nodes) = captures().get_mut(&stream)
    {
        *nodes += 1;
    }
}

fn instantiate(executable: *mut *const Graph, graph: *const Graph) -> Outcome {
    context::current()?;
    if graph.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: a graph handle that this library gave out and the caller did not destroy.
    let nodes = unsafe { (*graph).nodes };
    // SAFETY: the caller's pointer, as the real functions require.
    unsafe {
        store(
            executable,
            Box::into_raw(Box::new(Graph { nodes })).cast_const(),
        )
    }
}

fn launch(executable: *const Graph, stream: usize) -> Outcome {
    context::current()?;
    if executable.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    add_node_if_capturing(stream);
    Ok(())
}

fn destroy(graph: *mut Graph) -> Outcome {
    if graph.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: a handle from `Box::into_raw` here, which the caller destroys once.
    drop(unsafe { Box::from_raw(graph) });
    Ok(())
}

fn begin_capture(stream: usize) -> Outcome {
    context::current()?;
    if captures().insert(stream, 0).is_some() {
        return Err(Code::ILLEGAL_STATE);
    }
    CAPTURING.fetch_add(1, Relaxed);
    Ok(())
}

fn end_capture(stream: usize, graph: *mut *const Graph) -> Outcome {
    let nodes = captures().remove(&stream).ok_or(Code::ILLEGAL_STATE)?;
    CAPTURING.fetch_sub(1, Relaxed);
    // SAFETY: the caller's pointer, as the real function requires.
    unsafe { store(graph, Box::into_raw(Box::new(Graph { nodes })).cast_const()) }
}

exports! {
    unversioned;

    /// Begins to collect what the stream is given.
    fn cuStreamBeginCapture_v2(stream: usize, _mode: i32) {
        begin_capture(stream)
    }

    /// The per-thread default stream's twin of [`cuStreamBeginCapture_v2`].
    fn cuStreamBeginCapture_v2_ptsz(stream: usize, _mode: i32) {
        begin_capture(stream)
    }

    /// Ends a capture: its graph.
    fn cuStreamEndCapture(stream: usize, graph: *mut *const Graph) {
        end_capture(stream, graph)
    }

    /// The per-thread default stream's twin of [`cuStreamEndCapture`].
    fn cuStreamEndCapture_ptsz(stream: usize, graph: *mut *const Graph) {
        end_capture(stream, graph)
    }

    /// 1 while the stream captures, else 0.
    fn cuStreamIsCapturing(stream: usize, status: *mut i32) {
        let capturing = CAPTURING.load(Relaxed) > 0 && captures().contains_key(&stream);
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(status, i32::from(capturing)) }
    }

    /// Any mode is as good as another; the old one is handed back as it came.
    fn cuThreadExchangeStreamCaptureMode(_mode: *mut i32) {
        Ok(())
    }

    /// How many nodes the graph has; the nodes themselves are not handed out.
    fn cuGraphGetNodes(graph: *const Graph, _nodes: *mut usize, count: *mut usize) {
        if graph.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: a graph handle that this library gave out and the caller did not destroy;
        // `count` is the caller's pointer, as the real function requires.
        unsafe { store(count, (*graph).nodes) }
    }

    /// Makes a graph executable.
    fn cuGraphInstantiateWithFlags(
        executable: *mut *const Graph,
        graph: *const Graph,
        _flags: u64,
    ) {
        instantiate(executable, graph)
    }

    /// Launches a graph: one call, whatever it has inside.
    fn cuGraphLaunch(executable: *const Graph, stream: usize) {
        launch(executable, stream)
    }

    /// The per-thread default stream's twin of [`cuGraphLaunch`].
    fn cuGraphLaunch_ptsz(executable: *const Graph, stream: usize) {
        launch(executable, stream)
    }

    /// Forgets a graph.
    fn cuGraphDestroy(graph: *mut Graph) {
        destroy(graph)
    }

    /// Forgets an executable graph.
    fn cuGraphExecDestroy(executable: *mut Graph) {
        destroy(executable)
    }
}
