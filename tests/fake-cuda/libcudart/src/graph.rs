//! Stream capture and graphs.

#[cfg(cuda11)]
use std::ffi::c_char;
#[cfg(not(cuda11))]
use std::ffi::c_void;

use fake_cuda_core::{Code, exports, layout::AllocationNode};

use crate::device::ready;

exports! {
    versioned;

    /// Begins to collect what the stream is given.
    fn cudaStreamBeginCapture | cudaStreamBeginCapture_ptsz [default] (stream: usize, mode: i32) {
        // SAFETY: the driver's function; the handle is only a number to it.
        Code::outcome(unsafe { (ready()?.on(default).begin_capture)(stream, mode) })
    }

    /// Ends a capture: its graph.
    fn cudaStreamEndCapture | cudaStreamEndCapture_ptsz [default] (
        stream: usize, graph: *mut usize,
    ) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (ready()?.on(default).end_capture)(stream, graph) })
    }

    /// 1 while the stream captures, else 0.
    fn cudaStreamIsCapturing(stream: usize, status: *mut i32) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.stream_is_capturing)(stream, status) })
    }

    /// 1 while the stream captures, else 0, and the capture's number. Later majors have more
    /// arguments, which are left alone.
    fn cudaStreamGetCaptureInfo(stream: usize, status: *mut i32, id: *mut u64) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.stream_is_capturing)(stream, status) })?;
        if !id.is_null() {
            // SAFETY: not null, and the caller's pointer, as the real function requires.
            unsafe { id.write(stream as u64) };
        }
        Ok(())
    }

    /// Changes how strict captures of other threads are.
    fn cudaThreadExchangeStreamCaptureMode(mode: *mut i32) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.exchange_capture_mode)(mode) })
    }

    /// How many nodes a graph has.
    fn cudaGraphGetNodes(graph: usize, nodes: *mut usize, count: *mut usize) {
        // SAFETY: the driver's function, a graph of the caller, and its pointers.
        Code::outcome(unsafe { (ready()?.functions.graph_get_nodes)(graph, nodes, count) })
    }

    /// Makes a graph ready to launch.
    fn cudaGraphInstantiateWithFlags(executable: *mut usize, graph: usize, flags: u64) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.graph_instantiate)(executable, graph, flags) })
    }

    /// Launches a graph.
    fn cudaGraphLaunch | cudaGraphLaunch_ptsz [default] (executable: usize, stream: usize) {
        // SAFETY: the driver's function; the handles are only numbers to it.
        Code::outcome(unsafe { (ready()?.on(default).graph_launch)(executable, stream) })
    }

    /// Moves a graph to the device.
    fn cudaGraphUpload | cudaGraphUpload_ptsz [default] (executable: usize, stream: usize) {
        // SAFETY: the driver's function; the handles are only numbers to it.
        Code::outcome(unsafe { (ready()?.on(default).graph_upload)(executable, stream) })
    }

    /// An empty graph.
    fn cudaGraphCreate(graph: *mut usize, flags: u32) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe { (ready()?.functions.graph_create)(graph, flags) })
    }

    /// Makes an allocation part of a graph.
    fn cudaGraphAddMemAllocNode(
        node: *mut usize, graph: usize, dependencies: *const usize, count: usize,
        parameters: *mut AllocationNode,
    ) {
        // SAFETY: the driver's function and the caller's pointers, as the real one requires.
        Code::outcome(unsafe {
            (ready()?.functions.graph_add_allocation)(node, graph, dependencies, count, parameters)
        })
    }

    /// Makes a free part of a graph.
    fn cudaGraphAddMemFreeNode(
        node: *mut usize, graph: usize, dependencies: *const usize, count: usize, address: u64,
    ) {
        // SAFETY: the driver's function and the caller's pointers, as the real one requires.
        Code::outcome(unsafe {
            (ready()?.functions.graph_add_free)(node, graph, dependencies, count, address)
        })
    }

    /// Gives the device back what ended graphs left.
    fn cudaDeviceGraphMemTrim(device: i32) {
        // SAFETY: the driver's function; it takes no pointers.
        Code::outcome(unsafe { (ready()?.functions.device_graph_mem_trim)(device) })
    }

    /// Forgets a graph.
    fn cudaGraphDestroy(graph: usize) {
        // SAFETY: the driver's function, and a graph that the caller destroys once.
        Code::outcome(unsafe { (ready()?.functions.graph_destroy)(graph) })
    }

    /// Forgets an executable graph.
    fn cudaGraphExecDestroy(executable: usize) {
        // SAFETY: the driver's function, and a graph that the caller destroys once.
        Code::outcome(unsafe { (ready()?.functions.graph_exec_destroy)(executable) })
    }
}

/// What CUDA 12 changed.
#[cfg(cuda11)]
pub(crate) mod before_12 {
    use super::{Code, c_char, exports, ready};

    exports! {
        versioned;

        /// Makes a graph ready to launch.
        fn cudaGraphInstantiate(
            executable: *mut usize, graph: usize, node: *mut usize, log: *mut c_char,
            length: usize,
        ) {
            // SAFETY: the driver's function and the caller's pointers, as the real one requires.
            Code::outcome(unsafe {
                (ready()?.functions.graph_instantiate_11)(executable, graph, node, log, length)
            })
        }

        /// Changes a ready graph.
        fn cudaGraphExecUpdate(
            executable: usize, graph: usize, node: *mut usize, result: *mut i32,
        ) {
            // SAFETY: the driver's function and the caller's pointers, as the real one requires.
            Code::outcome(unsafe {
                (ready()?.functions.graph_exec_update_11)(executable, graph, node, result)
            })
        }
    }
}

/// What CUDA 12 changed or added.
#[cfg(not(cuda11))]
pub(crate) mod since_12 {
    use super::{Code, c_void, exports, ready};

    exports! {
        versioned;

        /// Makes a graph ready to launch.
        fn cudaGraphInstantiate(executable: *mut usize, graph: usize, flags: u64) {
            // SAFETY: the driver's function and the caller's pointer, as the real one requires.
            Code::outcome(unsafe {
                (ready()?.functions.graph_instantiate)(executable, graph, flags)
            })
        }

        /// Makes a graph ready to launch.
        fn cudaGraphInstantiateWithParams | cudaGraphInstantiateWithParams_ptsz [default] (
            executable: *mut usize, graph: usize, parameters: *mut c_void,
        ) {
            // SAFETY: the driver's function and the caller's pointers, as the real one requires.
            Code::outcome(unsafe {
                (ready()?.on(default).graph_instantiate_with_params)(executable, graph, parameters)
            })
        }

        /// Changes a ready graph.
        fn cudaGraphExecUpdate(executable: usize, graph: usize, result: *mut c_void) {
            // SAFETY: the driver's function and the caller's pointer, as the real one requires.
            Code::outcome(unsafe {
                (ready()?.functions.graph_exec_update)(executable, graph, result)
            })
        }

        /// Begins to collect what the stream is given, into a graph.
        fn cudaStreamBeginCaptureToGraph | cudaStreamBeginCaptureToGraph_ptsz [default] (
            stream: usize, graph: usize, dependencies: *const usize, data: *const c_void,
            count: usize, mode: i32,
        ) {
            let begin = ready()?.on(default).begin_capture_to_graph;
            // SAFETY: the driver's function and the caller's pointers, as the real one requires.
            Code::outcome(unsafe { begin(stream, graph, dependencies, data, count, mode) })
        }
    }
}
