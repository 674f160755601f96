//! Stream capture and graphs.

use fake_cuda_core::{Code, Outcome, exports};

use crate::{
    device::ready,
    driver::DefaultStream::{self, Legacy, PerThread},
};

fn begin_capture(default: DefaultStream, stream: usize, mode: i32) -> Outcome {
    // SAFETY: the driver's function; the handle is only a number to it.
    Code::outcome(unsafe { (ready()?.on(default).begin_capture)(stream, mode) })
}

fn end_capture(default: DefaultStream, stream: usize, graph: *mut usize) -> Outcome {
    // SAFETY: the driver's function and the caller's pointer, as the real one requires.
    Code::outcome(unsafe { (ready()?.on(default).end_capture)(stream, graph) })
}

fn instantiate(executable: *mut usize, graph: usize, flags: u64) -> Outcome {
    // SAFETY: the driver's function, the caller's pointer, and a graph of the caller.
    Code::outcome(unsafe { (ready()?.functions.graph_instantiate)(executable, graph, flags) })
}

fn launch(default: DefaultStream, executable: usize, stream: usize) -> Outcome {
    // SAFETY: the driver's function, and an executable graph of the caller.
    Code::outcome(unsafe { (ready()?.on(default).graph_launch)(executable, stream) })
}

exports! {
    versioned;

    /// Begins to collect what the stream is given.
    fn cudaStreamBeginCapture(stream: usize, mode: i32) {
        begin_capture(Legacy, stream, mode)
    }

    /// The per-thread default stream's twin of [`cudaStreamBeginCapture`].
    fn cudaStreamBeginCapture_ptsz(stream: usize, mode: i32) {
        begin_capture(PerThread, stream, mode)
    }

    /// Ends a capture: its graph.
    fn cudaStreamEndCapture(stream: usize, graph: *mut usize) {
        end_capture(Legacy, stream, graph)
    }

    /// The per-thread default stream's twin of [`cudaStreamEndCapture`].
    fn cudaStreamEndCapture_ptsz(stream: usize, graph: *mut usize) {
        end_capture(PerThread, stream, graph)
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

    /// Makes a graph executable. CUDA 11 has other arguments after these two, which nothing
    /// here reads.
    fn cudaGraphInstantiate(executable: *mut usize, graph: usize) {
        instantiate(executable, graph, 0)
    }

    /// Makes a graph executable.
    fn cudaGraphInstantiateWithFlags(executable: *mut usize, graph: usize, flags: u64) {
        instantiate(executable, graph, flags)
    }

    /// Launches a graph.
    fn cudaGraphLaunch(executable: usize, stream: usize) {
        launch(Legacy, executable, stream)
    }

    /// The per-thread default stream's twin of [`cudaGraphLaunch`].
    fn cudaGraphLaunch_ptsz(executable: usize, stream: usize) {
        launch(PerThread, executable, stream)
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
