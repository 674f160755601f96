//! Kernel launches: checked, and done at once.

use std::ffi::c_void;

use fake_cuda_core::{
    Code, DefaultStream, Outcome,
    abi::{Dim3, DriverLaunchConfig, is_launchable},
    exports,
};

use crate::{context, graph};

/// `CUhostFn`
type HostFunction = extern "C" fn(*mut c_void);

#[inline]
fn launch(function: usize, grid: Dim3, block: Dim3, stream: usize) -> Outcome {
    context::current()?;
    if function == 0 {
        return Err(Code::INVALID_HANDLE);
    }
    if !is_launchable(grid, block) {
        return Err(Code::INVALID_VALUE);
    }
    graph::add_node_if_capturing(stream);
    Ok(())
}

fn run_host_function(stream: usize, function: Option<HostFunction>, data: *mut c_void) -> Outcome {
    context::current()?;
    let function = function.ok_or(Code::INVALID_VALUE)?;
    if !graph::add_node_if_capturing(stream) {
        function(data);
    }
    Ok(())
}

fn launch_configured(
    default: DefaultStream,
    config: *const DriverLaunchConfig,
    function: usize,
) -> Outcome {
    if config.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's structure, as the real function requires.
    let config = unsafe { &*config };
    launch(
        function,
        config.grid,
        config.block,
        default.resolve(config.stream),
    )
}

exports! {
    unversioned;

    /// Launches.
    fn cuLaunchKernel | cuLaunchKernel_ptsz [default] (
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, _shared: u32, stream: usize, _parameters: *const c_void,
        _extra: *const c_void,
    ) {
        let grid = Dim3 { x: grid_x, y: grid_y, z: grid_z };
        launch(function, grid, Dim3 { x: block_x, y: block_y, z: block_z }, default.resolve(stream))
    }

    /// Launches with attributes.
    fn cuLaunchKernelEx | cuLaunchKernelEx_ptsz [default] (
        config: *const DriverLaunchConfig, function: usize, _parameters: *const c_void,
        _extra: *const c_void,
    ) {
        launch_configured(default, config, function)
    }

    /// Launches blocks that may wait for each other.
    fn cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz [default] (
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, _shared: u32, stream: usize, _parameters: *const c_void,
    ) {
        let grid = Dim3 { x: grid_x, y: grid_y, z: grid_z };
        launch(function, grid, Dim3 { x: block_x, y: block_y, z: block_z }, default.resolve(stream))
    }

    /// The function runs at once; in a capture it never does.
    fn cuLaunchHostFunc | cuLaunchHostFunc_ptsz [default] (
        stream: usize, function: Option<HostFunction>, data: *mut c_void,
    ) {
        run_host_function(default.resolve(stream), function, data)
    }

    /// As [`cuLaunchHostFunc`]; how the device waits means nothing here.
    fn cuLaunchHostFunc_v2 | cuLaunchHostFunc_v2_ptsz [default] (
        stream: usize, function: Option<HostFunction>, data: *mut c_void, _mode: u32,
    ) {
        run_host_function(default.resolve(stream), function, data)
    }
}
