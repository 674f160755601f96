//! Kernel launches: checked, and done at once.

use std::ffi::c_void;

use fake_cuda_core::{
    Code, Outcome,
    abi::{Dim3, DriverLaunchConfig, is_launchable},
    exports,
};

use crate::{context, graph};

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

fn launch_configured(config: *const DriverLaunchConfig, function: usize) -> Outcome {
    if config.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's structure, as the real function requires.
    let config = unsafe { &*config };
    launch(function, config.grid, config.block, config.stream)
}

exports! {
    unversioned;

    /// Launches.
    fn cuLaunchKernel(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, _shared: u32, stream: usize, _parameters: *const c_void,
        _extra: *const c_void,
    ) {
        let grid = Dim3 { x: grid_x, y: grid_y, z: grid_z };
        launch(function, grid, Dim3 { x: block_x, y: block_y, z: block_z }, stream)
    }

    /// The per-thread default stream's twin of [`cuLaunchKernel`].
    fn cuLaunchKernel_ptsz(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, _shared: u32, stream: usize, _parameters: *const c_void,
        _extra: *const c_void,
    ) {
        let grid = Dim3 { x: grid_x, y: grid_y, z: grid_z };
        launch(function, grid, Dim3 { x: block_x, y: block_y, z: block_z }, stream)
    }

    /// Launches with attributes.
    fn cuLaunchKernelEx(
        config: *const DriverLaunchConfig, function: usize, _parameters: *const c_void,
        _extra: *const c_void,
    ) {
        launch_configured(config, function)
    }

    /// The per-thread default stream's twin of [`cuLaunchKernelEx`].
    fn cuLaunchKernelEx_ptsz(
        config: *const DriverLaunchConfig, function: usize, _parameters: *const c_void,
        _extra: *const c_void,
    ) {
        launch_configured(config, function)
    }

    /// Launches blocks that may wait for each other.
    fn cuLaunchCooperativeKernel(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, _shared: u32, stream: usize, _parameters: *const c_void,
    ) {
        let grid = Dim3 { x: grid_x, y: grid_y, z: grid_z };
        launch(function, grid, Dim3 { x: block_x, y: block_y, z: block_z }, stream)
    }

    /// The per-thread default stream's twin of [`cuLaunchCooperativeKernel`].
    fn cuLaunchCooperativeKernel_ptsz(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
        block_z: u32, _shared: u32, stream: usize, _parameters: *const c_void,
    ) {
        let grid = Dim3 { x: grid_x, y: grid_y, z: grid_z };
        launch(function, grid, Dim3 { x: block_x, y: block_y, z: block_z }, stream)
    }
}
