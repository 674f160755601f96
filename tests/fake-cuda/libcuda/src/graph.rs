//! Graphs: their nodes, and what is made ready to launch.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use fake_cuda_core::{Code, Outcome, abi::store, exports};

use crate::{capture, context, graph_memory, new_handle};

/// One operation of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// Takes so many bytes at an address, each time that the graph runs.
    Allocation { address: u64, bytes: u64 },
    /// Anything else.
    Other,
}

/// A graph, or one that is ready to launch.
#[derive(Clone, Debug, Default)]
struct Graph {
    /// Each node's handle, and what it does.
    nodes: Vec<(usize, Node)>,
}

static GRAPHS: LazyLock<Mutex<HashMap<usize, Graph>>> = LazyLock::new(Mutex::default);
static EXECUTABLES: LazyLock<Mutex<HashMap<usize, Graph>>> = LazyLock::new(Mutex::default);

fn lock(map: &'static Mutex<HashMap<usize, Graph>>) -> MutexGuard<'static, HashMap<usize, Graph>> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes one operation in the stream's capture; `false` when there is none.
#[inline]
pub(crate) fn add_node_if_capturing(stream: usize) -> bool {
    capture::add(stream, || Node::Other)
}

/// An allocation in a captured stream: an address for the graph's runs. `None` without capture.
pub(crate) fn allocate_if_capturing(stream: usize, bytes: u64) -> Option<Result<u64, Code>> {
    if !capture::is_captured(stream) {
        return None;
    }
    Some(graph_memory::address_for(bytes).inspect(|address| {
        capture::add(stream, || Node::Allocation {
            address: *address,
            bytes,
        });
    }))
}

/// A free of a graph's memory in a captured stream; `false` when it is none.
pub(crate) fn free_if_capturing(stream: usize, address: u64) -> bool {
    graph_memory::is_of_graph(address) && capture::add(stream, || Node::Other)
}

/// Fails for a handle that is no graph.
pub(crate) fn check(graph: usize) -> Outcome {
    if lock(&GRAPHS).contains_key(&graph) {
        Ok(())
    } else {
        Err(Code::INVALID_VALUE)
    }
}

/// Adds captured nodes to a graph, or to a new one: its handle.
pub(crate) fn complete(graph: Option<usize>, nodes: Vec<Node>) -> usize {
    let handle = graph.unwrap_or_else(new_handle);
    let mut graphs = lock(&GRAPHS);
    let graph = graphs.entry(handle).or_default();
    graph
        .nodes
        .extend(nodes.into_iter().map(|node| (new_handle(), node)));
    handle
}

/// Adds a node to a graph: the node's handle.
pub(crate) fn add(graph: usize, node: Node) -> Result<usize, Code> {
    let mut graphs = lock(&GRAPHS);
    let graph = graphs.get_mut(&graph).ok_or(Code::INVALID_VALUE)?;
    let handle = new_handle();
    graph.nodes.push((handle, node));
    Ok(handle)
}

fn instantiate(executable: *mut usize, graph: usize) -> Outcome {
    context::current()?;
    let ready = lock(&GRAPHS)
        .get(&graph)
        .cloned()
        .ok_or(Code::INVALID_VALUE)?;
    let handle = new_handle();
    // SAFETY: the caller's pointer, as the real functions require.
    unsafe { store(executable, handle) }?;
    lock(&EXECUTABLES).insert(handle, ready);
    Ok(())
}

fn launch(executable: usize, stream: usize) -> Outcome {
    let device = context::current()?;
    let bytes = {
        let executables = lock(&EXECUTABLES);
        let graph = executables.get(&executable).ok_or(Code::INVALID_VALUE)?;
        let allocated = graph.nodes.iter().map(|(_, node)| match node {
            Node::Allocation { bytes, .. } => *bytes,
            Node::Other => 0,
        });
        allocated.sum()
    };
    if add_node_if_capturing(stream) || bytes == 0 {
        return Ok(());
    }
    graph_memory::run(device, executable, bytes)
}

fn update(executable: usize, graph: usize) -> Outcome {
    let new = lock(&GRAPHS)
        .get(&graph)
        .cloned()
        .ok_or(Code::INVALID_VALUE)?;
    let mut executables = lock(&EXECUTABLES);
    let ready = executables
        .get_mut(&executable)
        .ok_or(Code::INVALID_VALUE)?;
    if ready.nodes.len() != new.nodes.len() {
        return Err(Code::GRAPH_EXEC_UPDATE_FAILURE);
    }
    *ready = new;
    Ok(())
}

exports! {
    unversioned;

    /// An empty graph.
    fn cuGraphCreate(graph: *mut usize, _flags: u32) {
        let handle = complete(None, Vec::new());
        // SAFETY: the caller's pointer, as the real function requires.
        unsafe { store(graph, handle) }
    }

    /// The nodes of a graph, as many as there is room for, and how many that are; without room,
    /// how many there are in all.
    fn cuGraphGetNodes(graph: usize, nodes: *mut usize, count: *mut usize) {
        let graphs = lock(&GRAPHS);
        let known = graphs.get(&graph).ok_or(Code::INVALID_VALUE)?;
        if count.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        if nodes.is_null() {
            // SAFETY: not null, and the caller's pointer, as the real function requires.
            return unsafe { store(count, known.nodes.len()) };
        }
        // SAFETY: not null, and the caller's array of `*count` elements.
        unsafe {
            let given = known.nodes.len().min(*count);
            for (index, (node, _)) in known.nodes.iter().take(given).enumerate() {
                nodes.add(index).write(*node);
            }
            store(count, given)
        }
    }

    /// Makes a graph ready to launch.
    fn cuGraphInstantiate_v2(
        executable: *mut usize, graph: usize, _node: *mut usize, _log: *mut u8, _length: usize,
    ) {
        instantiate(executable, graph)
    }

    /// Makes a graph ready to launch.
    fn cuGraphInstantiateWithFlags(executable: *mut usize, graph: usize, _flags: u64) {
        instantiate(executable, graph)
    }

    /// Makes a graph ready to launch; parameters mean nothing here.
    fn cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz [_default] (
        executable: *mut usize, graph: usize, parameters: *mut u64,
    ) {
        if parameters.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        instantiate(executable, graph)
    }

    /// Launches a graph: one call, whatever it has inside.
    fn cuGraphLaunch | cuGraphLaunch_ptsz [default] (executable: usize, stream: usize) {
        launch(executable, default.resolve(stream))
    }

    /// Takes the memory that a launch would take.
    fn cuGraphUpload | cuGraphUpload_ptsz [default] (executable: usize, stream: usize) {
        launch(executable, default.resolve(stream))
    }

    /// Changes what a ready graph does, if the shape is the same.
    fn cuGraphExecUpdate(executable: usize, graph: usize, _node: *mut usize, _result: *mut i32) {
        update(executable, graph)
    }

    /// Changes what a ready graph does, if the shape is the same.
    fn cuGraphExecUpdate_v2(executable: usize, graph: usize, _result: *mut u64) {
        update(executable, graph)
    }

    /// Ends a graph.
    fn cuGraphDestroy(graph: usize) {
        lock(&GRAPHS).remove(&graph).map(|_| ()).ok_or(Code::INVALID_VALUE)
    }

    /// Ends a ready graph; its memory is unused from then on.
    fn cuGraphExecDestroy(executable: usize) {
        lock(&EXECUTABLES).remove(&executable).ok_or(Code::INVALID_VALUE)?;
        graph_memory::end(executable);
        Ok(())
    }
}
