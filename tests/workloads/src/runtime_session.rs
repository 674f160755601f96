//! One thread's calls of the runtime, each one counted.

use std::{ffi::c_void, ptr};

use fake_cuda_core::abi::{Dim3, RuntimeLaunchConfig};

use crate::{
    BLOCK, GRID, SHARED, STREAM,
    kernels::Kernel,
    runtime::Runtime,
    tally::{Code, Live, Tally},
    transfer::{Parts, Transfer},
};

/// How a kernel is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchForm {
    /// `cudaLaunchKernel`
    Plain,
    /// `cudaLaunchKernelExC`
    Configured,
    /// `cudaLaunchCooperativeKernel`
    Cooperative,
    /// `__cudaGetKernel`, then `__cudaLaunchKernel`, as nvcc's stubs do since CUDA 12. A plain
    /// launch over CUDA 11, which has neither.
    Stub,
}

/// Which of a function's two symbols is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twin {
    /// The plain one.
    Plain,
    /// The per-thread default stream's one.
    PerThread,
}

/// Grid, block, shared memory and stream of a launch.
#[derive(Clone, Copy, Debug)]
pub struct LaunchShape {
    /// Blocks.
    pub grid: Dim3,
    /// Threads of a block.
    pub block: Dim3,
    /// Dynamic shared memory, bytes.
    pub shared: u32,
    /// The stream.
    pub stream: usize,
}

impl Default for LaunchShape {
    fn default() -> Self {
        Self {
            grid: GRID,
            block: BLOCK,
            shared: SHARED,
            stream: STREAM,
        }
    }
}

/// A thread's use of the runtime. Failed calls are counted and handed back as their code.
#[derive(Debug)]
pub struct RuntimeSession<'a> {
    runtime: &'a Runtime,
    live: &'a Live,
    /// What this thread did.
    pub tally: Tally,
}

impl<'a> RuntimeSession<'a> {
    /// A thread that has done nothing yet.
    pub fn new(runtime: &'a Runtime, live: &'a Live) -> Self {
        Self {
            runtime,
            live,
            tally: Tally::default(),
        }
    }

    /// `cudaMalloc`: the address.
    pub fn malloc(&mut self, size: usize) -> Result<u64, Code> {
        let mut address = 0;
        // SAFETY: a pointer to a local.
        let code = unsafe { (self.runtime.functions().malloc)(&raw mut address, size) };
        self.tally.call("cudaMalloc", code)?;
        self.tally.bytes("cudaMalloc", size as u64);
        self.live.grow(size as u64);
        Ok(address)
    }

    /// `cudaFree` of a block of `size` bytes.
    pub fn free(&mut self, address: u64, size: usize) -> Result<(), Code> {
        // SAFETY: a device address is only a number.
        let code = unsafe { (self.runtime.functions().free)(address) };
        self.tally.call("cudaFree", code)?;
        self.live.shrink(size as u64);
        Ok(())
    }

    /// `cudaMemGetInfo`: free and total bytes.
    pub fn mem_get_info(&mut self) -> Result<(usize, usize), Code> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: pointers to locals.
        let code =
            unsafe { (self.runtime.functions().mem_get_info)(&raw mut free, &raw mut total) };
        self.tally.call("cudaMemGetInfo", code)?;
        Ok((free, total))
    }

    /// `cudaSetDevice`
    pub fn set_device(&mut self, device: i32) -> Result<(), Code> {
        // SAFETY: no pointers.
        let code = unsafe { (self.runtime.functions().set_device)(device) };
        self.tally.call("cudaSetDevice", code)
    }

    /// `cudaMemcpy` or its twin.
    pub fn memcpy(&mut self, twin: Twin, transfer: Transfer<'_>) -> Result<(), Code> {
        let Parts {
            to,
            from,
            size,
            direction,
        } = transfer.parts();
        let functions = self.runtime.functions();
        let (symbol, function) = match twin {
            Twin::Plain => ("cudaMemcpy", functions.memcpy),
            Twin::PerThread => ("cudaMemcpy_ptds", functions.memcpy_ptds),
        };
        // SAFETY: host ranges are borrowed from the caller; device addresses are only numbers.
        self.tally.call(symbol, unsafe {
            function(to, from, size, direction as i32)
        })?;
        self.tally.bytes(symbol, size as u64);
        Ok(())
    }

    /// `cudaMemcpyAsync` or its twin.
    pub fn memcpy_async(
        &mut self,
        twin: Twin,
        transfer: Transfer<'_>,
        stream: usize,
    ) -> Result<(), Code> {
        let Parts {
            to,
            from,
            size,
            direction,
        } = transfer.parts();
        let functions = self.runtime.functions();
        let (symbol, function) = match twin {
            Twin::Plain => ("cudaMemcpyAsync", functions.memcpy_async),
            Twin::PerThread => ("cudaMemcpyAsync_ptsz", functions.memcpy_async_ptsz),
        };
        // SAFETY: host ranges are borrowed from the caller; device addresses are only numbers.
        self.tally.call(symbol, unsafe {
            function(to, from, size, direction as i32, stream)
        })?;
        self.tally.bytes(symbol, size as u64);
        Ok(())
    }

    /// Launches a kernel.
    pub fn launch(
        &mut self,
        form: LaunchForm,
        twin: Twin,
        kernel: &Kernel,
        shape: LaunchShape,
    ) -> Result<(), Code> {
        let functions = self.runtime.functions();
        match form {
            LaunchForm::Plain => {
                let (symbol, function) = match twin {
                    Twin::Plain => ("cudaLaunchKernel", functions.launch_kernel),
                    Twin::PerThread => ("cudaLaunchKernel_ptsz", functions.launch_kernel_ptsz),
                };
                // SAFETY: no kernel of these programs has arguments.
                let code = unsafe { by_value(function, kernel.address(), shape) };
                self.tally.call(symbol, code)
            }
            LaunchForm::Cooperative => {
                let (symbol, function) = match twin {
                    Twin::Plain => ("cudaLaunchCooperativeKernel", functions.launch_cooperative),
                    Twin::PerThread => (
                        "cudaLaunchCooperativeKernel_ptsz",
                        functions.launch_cooperative_ptsz,
                    ),
                };
                // SAFETY: no kernel of these programs has arguments.
                let code = unsafe { by_value(function, kernel.address(), shape) };
                self.tally.call(symbol, code)
            }
            LaunchForm::Configured => {
                let (symbol, function) = match twin {
                    Twin::Plain => ("cudaLaunchKernelExC", functions.launch_kernel_ex),
                    Twin::PerThread => {
                        ("cudaLaunchKernelExC_ptsz", functions.launch_kernel_ex_ptsz)
                    }
                };
                let config = RuntimeLaunchConfig {
                    grid: shape.grid,
                    block: shape.block,
                    shared: shape.shared as usize,
                    stream: shape.stream,
                    attributes: ptr::null(),
                    attribute_count: 0,
                };
                // SAFETY: a local, and a kernel without arguments.
                let code = unsafe { function(&raw const config, kernel.address(), ptr::null()) };
                self.tally.call(symbol, code)
            }
            LaunchForm::Stub => self.launch_by_stub(twin, kernel, shape),
        }
    }

    fn launch_by_stub(
        &mut self,
        twin: Twin,
        kernel: &Kernel,
        shape: LaunchShape,
    ) -> Result<(), Code> {
        let Some(functions) = self.runtime.stub_functions() else {
            return self.launch(LaunchForm::Plain, twin, kernel, shape);
        };
        let (jump, symbol, function) = match twin {
            Twin::Plain => (
                "__cudaLaunchKernel",
                "cudaLaunchKernel",
                functions.launch_kernel,
            ),
            Twin::PerThread => (
                "__cudaLaunchKernel_ptsz",
                "cudaLaunchKernel_ptsz",
                functions.launch_kernel_ptsz,
            ),
        };
        let mut handle = 0;
        // SAFETY: a pointer to a local.
        let code = unsafe { (functions.get_kernel)(&raw mut handle, kernel.address()) };
        self.tally.call("__cudaGetKernel", code)?;
        self.tally.calls(jump, 1);
        // SAFETY: no kernel of these programs has arguments.
        let code = unsafe { by_value(function, handle, shape) };
        self.tally.call(symbol, code)
    }

    /// `cudaDeviceSynchronize`
    pub fn device_synchronize(&mut self) -> Result<(), Code> {
        // SAFETY: no pointers.
        let code = unsafe { (self.runtime.functions().device_synchronize)() };
        self.tally.call("cudaDeviceSynchronize", code)
    }

    /// `cudaStreamSynchronize` or its twin.
    pub fn stream_synchronize(&mut self, twin: Twin, stream: usize) -> Result<(), Code> {
        let functions = self.runtime.functions();
        let (symbol, function) = match twin {
            Twin::Plain => ("cudaStreamSynchronize", functions.stream_synchronize),
            Twin::PerThread => (
                "cudaStreamSynchronize_ptsz",
                functions.stream_synchronize_ptsz,
            ),
        };
        // SAFETY: a stream is only a number.
        self.tally.call(symbol, unsafe { function(stream) })
    }

    /// Records an event in a stream and waits for it: `cudaEventCreate`, `cudaEventRecord`,
    /// `cudaEventSynchronize`, `cudaEventDestroy`.
    pub fn event_round_trip(&mut self, stream: usize) -> Result<(), Code> {
        let functions = self.runtime.functions();
        let event = self.event()?;
        self.event_record(event, stream)?;
        // SAFETY: an event that was just made.
        unsafe {
            self.tally
                .call("cudaEventSynchronize", (functions.event_synchronize)(event))?;
            self.tally
                .call("cudaEventDestroy", (functions.event_destroy)(event))
        }
    }

    /// A new stream: `cudaStreamCreate`.
    pub fn stream(&mut self) -> Result<usize, Code> {
        let mut stream = 0;
        // SAFETY: a pointer to a local.
        let code = unsafe { (self.runtime.functions().stream_create)(&raw mut stream) };
        self.tally.call("cudaStreamCreate", code)?;
        Ok(stream)
    }

    /// A new event: `cudaEventCreate`.
    pub fn event(&mut self) -> Result<usize, Code> {
        let mut event = 0;
        // SAFETY: a pointer to a local.
        let code = unsafe { (self.runtime.functions().event_create)(&raw mut event) };
        self.tally.call("cudaEventCreate", code)?;
        Ok(event)
    }

    /// Puts an event into a stream: `cudaEventRecord`.
    pub fn event_record(&mut self, event: usize, stream: usize) -> Result<(), Code> {
        // SAFETY: an event and a stream that were made, and have not been destroyed.
        let code = unsafe { (self.runtime.functions().event_record)(event, stream) };
        self.tally.call("cudaEventRecord", code)
    }

    /// Has a stream wait for an event: `cudaStreamWaitEvent`.
    pub fn stream_wait(&mut self, stream: usize, event: usize) -> Result<(), Code> {
        // SAFETY: as in `event_record`.
        let code = unsafe { (self.runtime.functions().stream_wait_event)(stream, event, 0) };
        self.tally.call("cudaStreamWaitEvent", code)
    }

    /// Captures what `body` does in a new stream: an executable graph.
    pub fn capture(
        &mut self,
        body: impl FnOnce(&mut Self, usize) -> Result<(), Code>,
    ) -> Result<usize, Code> {
        const GLOBAL: i32 = 0; // cudaStreamCaptureModeGlobal
        let functions = self.runtime.functions();
        let stream = self.stream()?;
        let (mut graph, mut executable) = (0, 0);
        // SAFETY: pointers to locals; then handles that were just made.
        unsafe {
            let code = (functions.begin_capture)(stream, GLOBAL);
            self.tally.call("cudaStreamBeginCapture", code)?;
            body(self, stream)?;
            let code = (functions.end_capture)(stream, &raw mut graph);
            self.tally.call("cudaStreamEndCapture", code)?;
            let code = (functions.graph_instantiate)(&raw mut executable, graph, 0);
            self.tally.call("cudaGraphInstantiateWithFlags", code)?;
            self.tally
                .call("cudaGraphDestroy", (functions.graph_destroy)(graph))?;
            self.tally
                .call("cudaStreamDestroy", (functions.stream_destroy)(stream))?;
        }
        Ok(executable)
    }

    /// `cudaGraphLaunch` or its twin, of a graph from [`RuntimeSession::capture`].
    pub fn graph_launch(
        &mut self,
        twin: Twin,
        executable: usize,
        stream: usize,
    ) -> Result<(), Code> {
        let functions = self.runtime.functions();
        let (symbol, function) = match twin {
            Twin::Plain => ("cudaGraphLaunch", functions.graph_launch),
            Twin::PerThread => ("cudaGraphLaunch_ptsz", functions.graph_launch_ptsz),
        };
        // SAFETY: a graph that was made and not destroyed.
        self.tally
            .call(symbol, unsafe { function(executable, stream) })
    }

    /// `cudaGraphExecDestroy`
    pub fn graph_destroy(&mut self, executable: usize) -> Result<(), Code> {
        // SAFETY: a graph that was made and is destroyed once.
        let code = unsafe { (self.runtime.functions().graph_exec_destroy)(executable) };
        self.tally.call("cudaGraphExecDestroy", code)
    }
}

/// Calls a launch function that takes its shape by value.
///
/// # Safety
/// `function` is such a function, and the kernel takes no arguments.
unsafe fn by_value(
    function: unsafe extern "C" fn(usize, Dim3, Dim3, *const c_void, usize, usize) -> Code,
    kernel: usize,
    shape: LaunchShape,
) -> Code {
    let LaunchShape {
        grid,
        block,
        shared,
        stream,
    } = shape;
    // SAFETY: as the caller says.
    unsafe { function(kernel, grid, block, ptr::null(), shared as usize, stream) }
}
