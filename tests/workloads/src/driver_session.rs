//! One thread's own calls of the driver, each one counted.

use std::{
    ffi::{CStr, c_void},
    ptr,
};

use fake_cuda_core::abi::DriverLaunchConfig;

use crate::{
    driver::Driver,
    kernels,
    runtime_session::{LaunchForm, LaunchShape, Twin},
    tally::{Code, Live, Tally},
    transfer::{
        Direction::{Default, DeviceToDevice, DeviceToHost, HostToDevice, HostToHost},
        Parts, Transfer,
    },
};

/// A thread's use of the driver. Failed calls are counted and handed back as their code.
#[derive(Debug)]
pub struct DriverSession<'a> {
    driver: &'a Driver,
    live: &'a Live,
    /// What this thread did.
    pub tally: Tally,
}

impl<'a> DriverSession<'a> {
    /// A thread with the primary context of device 0, as a static runtime would make it.
    pub fn start(driver: &'a Driver, live: &'a Live) -> Result<Self, Code> {
        let mut session = Self {
            driver,
            live,
            tally: Tally::new(),
        };
        let functions = driver.functions();
        let (mut device, mut context) = (0, 0);
        let tally = &mut session.tally;
        // SAFETY: pointers to locals; then handles that were just made.
        unsafe {
            tally.call("cuInit", (functions.init)(0))?;
            tally.call("cuDeviceGet", (functions.device_get)(&raw mut device, 0))?;
            let code = (functions.primary_ctx_retain)(&raw mut context, device);
            tally.call("cuDevicePrimaryCtxRetain", code)?;
            tally.call("cuCtxSetCurrent", (functions.ctx_set_current)(context))?;
        }
        Ok(session)
    }

    /// Loads a module and looks a kernel up in it: the function.
    pub fn module_function(&mut self, name: &CStr) -> Result<usize, Code> {
        let functions = self.driver.functions();
        let module = self.load_module()?;
        let mut function = 0;
        // SAFETY: pointers to locals, a string.
        unsafe {
            let code = (functions.module_get_function)(&raw mut function, module, name.as_ptr());
            self.tally.call("cuModuleGetFunction", code)?;
            let mut known = ptr::null();
            let code = (functions.func_get_name)(&raw mut known, function);
            self.tally.call("cuFuncGetName", code)?;
            assert_eq!(CStr::from_ptr(known), name);
        }
        Ok(function)
    }

    /// `cuModuleLoadData`: the module.
    pub fn load_module(&mut self) -> Result<usize, Code> {
        let mut module = 0;
        // SAFETY: a pointer to a local, and an image that the fake does not read.
        let code = unsafe {
            (self.driver.functions().module_load_data)(&raw mut module, kernels::fat_binary())
        };
        self.tally.call("cuModuleLoadData", code)?;
        Ok(module)
    }

    /// `cuModuleUnload`
    pub fn unload_module(&mut self, module: usize) -> Result<(), Code> {
        // SAFETY: a handle is only a number.
        let code = unsafe { (self.driver.functions().module_unload)(module) };
        self.tally.call("cuModuleUnload", code)
    }

    /// Loads a library and looks a kernel up in it: the function of the current context.
    pub fn library_function(&mut self, name: &CStr) -> Result<usize, Code> {
        let functions = self.driver.functions();
        let (mut library, mut kernel, mut function) = (0, 0, 0);
        let none = ptr::null::<c_void>();
        // SAFETY: pointers to locals, an image that the fake does not read, a string.
        unsafe {
            let code = (functions.library_load_data)(
                &raw mut library,
                kernels::fat_binary(),
                none,
                none,
                0,
                none,
                none,
                0,
            );
            self.tally.call("cuLibraryLoadData", code)?;
            let code = (functions.library_get_kernel)(&raw mut kernel, library, name.as_ptr());
            self.tally.call("cuLibraryGetKernel", code)?;
            let mut known = ptr::null();
            let code = (functions.kernel_get_name)(&raw mut known, kernel);
            self.tally.call("cuKernelGetName", code)?;
            assert_eq!(CStr::from_ptr(known), name);
            let code = (functions.kernel_get_function)(&raw mut function, kernel);
            self.tally.call("cuKernelGetFunction", code)?;
        }
        Ok(function)
    }

    /// `cuMemAlloc_v2`: the address.
    pub fn malloc(&mut self, size: usize) -> Result<u64, Code> {
        let mut address = 0;
        // SAFETY: a pointer to a local.
        let code = unsafe { (self.driver.functions().mem_alloc)(&raw mut address, size) };
        self.tally.call("cuMemAlloc_v2", code)?;
        self.tally.bytes("cuMemAlloc_v2", size as u64);
        self.live.grow(size as u64);
        Ok(address)
    }

    /// `cuMemFree_v2` of a block of `size` bytes.
    pub fn free(&mut self, address: u64, size: usize) -> Result<(), Code> {
        // SAFETY: a device address is only a number.
        let code = unsafe { (self.driver.functions().mem_free)(address) };
        self.tally.call("cuMemFree_v2", code)?;
        self.live.shrink(size as u64);
        Ok(())
    }

    /// `cuMemGetInfo_v2`: free and total bytes.
    pub fn mem_get_info(&mut self) -> Result<(usize, usize), Code> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: pointers to locals.
        let code = unsafe { (self.driver.functions().mem_get_info)(&raw mut free, &raw mut total) };
        self.tally.call("cuMemGetInfo_v2", code)?;
        Ok((free, total))
    }

    /// The copy function for the transfer's direction.
    pub fn memcpy(&mut self, twin: Twin, transfer: Transfer<'_>) -> Result<(), Code> {
        let Parts {
            to,
            from,
            size,
            direction,
        } = transfer.parts();
        let functions = self.driver.functions();
        let (symbol, function) = match (direction, twin) {
            (HostToHost | Default, Twin::Plain) => ("cuMemcpy", functions.memcpy),
            (HostToHost | Default, Twin::PerThread) => ("cuMemcpy_ptds", functions.memcpy_ptds),
            (HostToDevice, Twin::Plain) => ("cuMemcpyHtoD_v2", functions.memcpy_htod),
            (HostToDevice, Twin::PerThread) => ("cuMemcpyHtoD_v2_ptds", functions.memcpy_htod_ptds),
            (DeviceToHost, Twin::Plain) => ("cuMemcpyDtoH_v2", functions.memcpy_dtoh),
            (DeviceToHost, Twin::PerThread) => ("cuMemcpyDtoH_v2_ptds", functions.memcpy_dtoh_ptds),
            (DeviceToDevice, Twin::Plain) => ("cuMemcpyDtoD_v2", functions.memcpy_dtod),
            (DeviceToDevice, Twin::PerThread) => {
                ("cuMemcpyDtoD_v2_ptds", functions.memcpy_dtod_ptds)
            }
        };
        // SAFETY: host ranges are borrowed from the caller; device addresses are only numbers.
        let code = unsafe { function(to, from, size) };
        self.tally.call(symbol, code)?;
        self.tally.bytes(symbol, size as u64);
        Ok(())
    }

    /// The asynchronous copy function for the transfer's direction.
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
        let functions = self.driver.functions();
        let (symbol, function) = match (direction, twin) {
            (HostToHost | Default, Twin::Plain) => ("cuMemcpyAsync", functions.memcpy_async),
            (HostToHost | Default, Twin::PerThread) => {
                ("cuMemcpyAsync_ptsz", functions.memcpy_async_ptsz)
            }
            (HostToDevice, Twin::Plain) => ("cuMemcpyHtoDAsync_v2", functions.memcpy_htod_async),
            (HostToDevice, Twin::PerThread) => (
                "cuMemcpyHtoDAsync_v2_ptsz",
                functions.memcpy_htod_async_ptsz,
            ),
            (DeviceToHost, Twin::Plain) => ("cuMemcpyDtoHAsync_v2", functions.memcpy_dtoh_async),
            (DeviceToHost, Twin::PerThread) => (
                "cuMemcpyDtoHAsync_v2_ptsz",
                functions.memcpy_dtoh_async_ptsz,
            ),
            (DeviceToDevice, Twin::Plain) => ("cuMemcpyDtoDAsync_v2", functions.memcpy_dtod_async),
            (DeviceToDevice, Twin::PerThread) => (
                "cuMemcpyDtoDAsync_v2_ptsz",
                functions.memcpy_dtod_async_ptsz,
            ),
        };
        // SAFETY: host ranges are borrowed from the caller; device addresses are only numbers.
        let code = unsafe { function(to, from, size, stream) };
        self.tally.call(symbol, code)?;
        self.tally.bytes(symbol, size as u64);
        Ok(())
    }

    /// Launches a function. The driver has no stub form: that one is a plain launch.
    pub fn launch(
        &mut self,
        form: LaunchForm,
        twin: Twin,
        function: usize,
        shape: LaunchShape,
    ) -> Result<(), Code> {
        let functions = self.driver.functions();
        let LaunchShape {
            grid,
            block,
            shared,
            stream,
        } = shape;
        let none = ptr::null();
        // SAFETY: the function takes no arguments; the configuration is a local.
        let (symbol, code) = unsafe {
            match form {
                LaunchForm::Plain | LaunchForm::Stub => {
                    let (symbol, launch) = match twin {
                        Twin::Plain => ("cuLaunchKernel", functions.launch_kernel),
                        Twin::PerThread => ("cuLaunchKernel_ptsz", functions.launch_kernel_ptsz),
                    };
                    let code = launch(
                        function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared,
                        stream, none, none,
                    );
                    (symbol, code)
                }
                LaunchForm::Cooperative => {
                    let (symbol, launch) = match twin {
                        Twin::Plain => ("cuLaunchCooperativeKernel", functions.launch_cooperative),
                        Twin::PerThread => (
                            "cuLaunchCooperativeKernel_ptsz",
                            functions.launch_cooperative_ptsz,
                        ),
                    };
                    let code = launch(
                        function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared,
                        stream, none,
                    );
                    (symbol, code)
                }
                LaunchForm::Configured => {
                    let (symbol, launch) = match twin {
                        Twin::Plain => ("cuLaunchKernelEx", functions.launch_kernel_ex),
                        Twin::PerThread => {
                            ("cuLaunchKernelEx_ptsz", functions.launch_kernel_ex_ptsz)
                        }
                    };
                    let config = DriverLaunchConfig {
                        grid,
                        block,
                        shared,
                        stream,
                        attributes: none,
                        attribute_count: 0,
                    };
                    (symbol, launch(&raw const config, function, none, none))
                }
            }
        };
        self.tally.call(symbol, code)
    }

    /// `cuCtxSynchronize`
    pub fn context_synchronize(&mut self) -> Result<(), Code> {
        // SAFETY: no pointers.
        let code = unsafe { (self.driver.functions().ctx_synchronize)() };
        self.tally.call("cuCtxSynchronize", code)
    }

    /// `cuStreamSynchronize` or its twin.
    pub fn stream_synchronize(&mut self, twin: Twin, stream: usize) -> Result<(), Code> {
        let functions = self.driver.functions();
        let (symbol, function) = match twin {
            Twin::Plain => ("cuStreamSynchronize", functions.stream_synchronize),
            Twin::PerThread => (
                "cuStreamSynchronize_ptsz",
                functions.stream_synchronize_ptsz,
            ),
        };
        // SAFETY: a stream is only a number.
        self.tally.call(symbol, unsafe { function(stream) })
    }

    /// Records an event in a stream and waits for it: `cuEventCreate`, `cuEventRecord`,
    /// `cuEventSynchronize`, `cuEventDestroy_v2`.
    pub fn event_round_trip(&mut self, stream: usize) -> Result<(), Code> {
        let functions = self.driver.functions();
        let mut event = 0;
        // SAFETY: a pointer to a local; then an event that was just made.
        unsafe {
            self.tally
                .call("cuEventCreate", (functions.event_create)(&raw mut event, 0))?;
            self.tally
                .call("cuEventRecord", (functions.event_record)(event, stream))?;
            self.tally
                .call("cuEventSynchronize", (functions.event_synchronize)(event))?;
            self.tally
                .call("cuEventDestroy_v2", (functions.event_destroy)(event))
        }
    }

    /// Captures what `body` does in a new stream: an executable graph.
    pub fn capture(
        &mut self,
        body: impl FnOnce(&mut Self, usize) -> Result<(), Code>,
    ) -> Result<usize, Code> {
        const GLOBAL: i32 = 0; // CU_STREAM_CAPTURE_MODE_GLOBAL
        let functions = self.driver.functions();
        let (mut stream, mut graph, mut executable) = (0, 0, 0);
        // SAFETY: pointers to locals; then handles that were just made.
        unsafe {
            self.tally.call(
                "cuStreamCreate",
                (functions.stream_create)(&raw mut stream, 0),
            )?;
            let code = (functions.begin_capture)(stream, GLOBAL);
            self.tally.call("cuStreamBeginCapture_v2", code)?;
            body(self, stream)?;
            let code = (functions.end_capture)(stream, &raw mut graph);
            self.tally.call("cuStreamEndCapture", code)?;
            let code = (functions.graph_instantiate)(&raw mut executable, graph, 0);
            self.tally.call("cuGraphInstantiateWithFlags", code)?;
            self.tally
                .call("cuGraphDestroy", (functions.graph_destroy)(graph))?;
            self.tally
                .call("cuStreamDestroy_v2", (functions.stream_destroy)(stream))?;
        }
        Ok(executable)
    }

    /// `cuGraphLaunch` or its twin, of a graph from [`DriverSession::capture`].
    pub fn graph_launch(
        &mut self,
        twin: Twin,
        executable: usize,
        stream: usize,
    ) -> Result<(), Code> {
        let functions = self.driver.functions();
        let (symbol, function) = match twin {
            Twin::Plain => ("cuGraphLaunch", functions.graph_launch),
            Twin::PerThread => ("cuGraphLaunch_ptsz", functions.graph_launch_ptsz),
        };
        // SAFETY: a graph that was made and not destroyed.
        self.tally
            .call(symbol, unsafe { function(executable, stream) })
    }

    /// `cuGraphExecDestroy`
    pub fn graph_destroy(&mut self, executable: usize) -> Result<(), Code> {
        // SAFETY: a graph that was made and is destroyed once.
        let code = unsafe { (self.driver.functions().graph_exec_destroy)(executable) };
        self.tally.call("cuGraphExecDestroy", code)
    }
}
