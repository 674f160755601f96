//! Kernel launches.

use std::ffi::c_void;

use fake_cuda_core::{
    Code, DefaultStream, Outcome,
    abi::{Dim3, DriverLaunchConfig, RuntimeLaunchConfig, is_launchable},
    exports,
};

use crate::{device::ready, kernels};

#[inline]
fn launch(
    default: DefaultStream,
    stub: usize,
    grid: Dim3,
    block: Dim3,
    arguments: *const c_void,
    shared: usize,
    stream: usize,
) -> Outcome {
    let driver = ready()?;
    let (function, shared) = check(stub, grid, block, shared)?;
    // SAFETY: the driver's function; arguments are the caller's, as the real one requires.
    Code::outcome(unsafe {
        (driver.on(default).launch_kernel)(
            function,
            grid.x,
            grid.y,
            grid.z,
            block.x,
            block.y,
            block.z,
            shared,
            stream,
            arguments,
            std::ptr::null(),
        )
    })
}

fn launch_cooperative(
    default: DefaultStream,
    stub: usize,
    grid: Dim3,
    block: Dim3,
    arguments: *const c_void,
    shared: usize,
    stream: usize,
) -> Outcome {
    let driver = ready()?;
    let (function, shared) = check(stub, grid, block, shared)?;
    // SAFETY: the driver's function; arguments are the caller's, as the real one requires.
    Code::outcome(unsafe {
        (driver.on(default).launch_cooperative_kernel)(
            function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream, arguments,
        )
    })
}

fn launch_configured(
    default: DefaultStream,
    config: *const RuntimeLaunchConfig,
    stub: usize,
    arguments: *const c_void,
) -> Outcome {
    let driver = ready()?;
    if config.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's structure, as the real function requires.
    let config = unsafe { &*config };
    let (function, shared) = check(stub, config.grid, config.block, config.shared)?;
    let config = DriverLaunchConfig {
        grid: config.grid,
        block: config.block,
        shared,
        stream: config.stream,
        attributes: config.attributes,
        attribute_count: config.attribute_count,
    };
    // SAFETY: the driver's function and a local; arguments are the caller's.
    Code::outcome(unsafe {
        (driver.on(default).launch_kernel_ex)(
            &raw const config,
            function,
            arguments,
            std::ptr::null(),
        )
    })
}

/// The driver's function and its shared memory, for a launch that a device would accept.
#[inline]
fn check(stub: usize, grid: Dim3, block: Dim3, shared: usize) -> Result<(usize, u32), Code> {
    if !is_launchable(grid, block) {
        return Err(Code::INVALID_CONFIGURATION);
    }
    let shared = u32::try_from(shared).map_err(|_| Code::INVALID_VALUE)?;
    Ok((kernels::function(stub)?, shared))
}

exports! {
    versioned;

    /// Launches.
    fn cudaLaunchKernel | cudaLaunchKernel_ptsz [default] (
        stub: usize, grid: Dim3, block: Dim3, arguments: *const c_void, shared: usize,
        stream: usize,
    ) {
        launch(default, stub, grid, block, arguments, shared, stream)
    }

    /// Launches with attributes.
    fn cudaLaunchKernelExC | cudaLaunchKernelExC_ptsz [default] (
        config: *const RuntimeLaunchConfig, stub: usize, arguments: *const c_void,
    ) {
        launch_configured(default, config, stub, arguments)
    }

    /// Launches blocks that may wait for each other.
    fn cudaLaunchCooperativeKernel | cudaLaunchCooperativeKernel_ptsz [default] (
        stub: usize, grid: Dim3, block: Dim3, arguments: *const c_void, shared: usize,
        stream: usize,
    ) {
        launch_cooperative(default, stub, grid, block, arguments, shared, stream)
    }

    /// Puts a function of the host into a stream.
    fn cudaLaunchHostFunc | cudaLaunchHostFunc_ptsz [default] (
        stream: usize, function: usize, data: *mut c_void,
    ) {
        // SAFETY: the driver's function; the caller vouches for its own.
        Code::outcome(unsafe {
            (ready()?.on(default).launch_host_function)(stream, function, data)
        })
    }
}

/// What CUDA 13.4 added.
#[cfg(cuda13)]
pub(crate) mod since_13 {
    use std::ffi::c_void;

    use fake_cuda_core::{Code, exports};

    use crate::device::ready;

    exports! {
        versioned;

        /// Puts a function of the host into a stream, with a way for the device to wait.
        fn cudaLaunchHostFunc_v2 | cudaLaunchHostFunc_v2_ptsz [default] (
            stream: usize, function: usize, data: *mut c_void, mode: u32,
        ) {
            // SAFETY: the driver's function; the caller vouches for its own.
            Code::outcome(unsafe {
                (ready()?.on(default).launch_host_function_13)(stream, function, data, mode)
            })
        }
    }
}

// nvcc's launch stubs call these two since CUDA 12; they are nothing but jumps.
#[cfg(not(cuda11))]
fake_cuda_core::jump!("__cudaLaunchKernel", "cudaLaunchKernel");
#[cfg(not(cuda11))]
fake_cuda_core::jump!("__cudaLaunchKernel_ptsz", "cudaLaunchKernel_ptsz");
