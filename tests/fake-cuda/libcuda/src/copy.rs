//! Copies. Bytes move only from host to host; a device address is checked for belonging to a
//! device and never dereferenced.

use std::{ffi::c_void, ptr};

use fake_cuda_core::{Code, Outcome, exports};

use crate::{context, devices, graph};

/// The stream of the forms without one.
const DEFAULT_STREAM: usize = 0;

/// What a direction demands of its two addresses.
#[derive(Clone, Copy)]
enum Direction {
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    ByAddress,
}

fn copy(direction: Direction, to: u64, from: u64, size: usize, stream: usize) -> Outcome {
    context::current()?;
    let to_device = devices::owner(to).is_some();
    let from_device = devices::owner(from).is_some();
    let possible = match direction {
        Direction::HostToDevice => to_device && !from_device,
        Direction::DeviceToHost => from_device && !to_device,
        Direction::DeviceToDevice => to_device && from_device,
        Direction::ByAddress => true,
    };
    if !possible {
        return Err(Code::INVALID_VALUE);
    }
    graph::add_node_if_capturing(stream);
    if !to_device && !from_device && size > 0 {
        // SAFETY: two host ranges, which the caller vouches for as to the real function.
        unsafe { ptr::copy(from as *const u8, to as *mut u8, size) };
    }
    Ok(())
}

exports! {
    unversioned;

    /// Copies, direction by address.
    fn cuMemcpy(to: u64, from: u64, size: usize) {
        copy(Direction::ByAddress, to, from, size, DEFAULT_STREAM)
    }

    /// The per-thread default stream's twin of [`cuMemcpy`].
    fn cuMemcpy_ptds(to: u64, from: u64, size: usize) {
        copy(Direction::ByAddress, to, from, size, DEFAULT_STREAM)
    }

    /// Copies in a stream, direction by address.
    fn cuMemcpyAsync(to: u64, from: u64, size: usize, stream: usize) {
        copy(Direction::ByAddress, to, from, size, stream)
    }

    /// The per-thread default stream's twin of [`cuMemcpyAsync`].
    fn cuMemcpyAsync_ptsz(to: u64, from: u64, size: usize, stream: usize) {
        copy(Direction::ByAddress, to, from, size, stream)
    }

    /// Copies from host to device.
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, size: usize) {
        copy(Direction::HostToDevice, to, from as u64, size, DEFAULT_STREAM)
    }

    /// The per-thread default stream's twin of [`cuMemcpyHtoD_v2`].
    fn cuMemcpyHtoD_v2_ptds(to: u64, from: *const c_void, size: usize) {
        copy(Direction::HostToDevice, to, from as u64, size, DEFAULT_STREAM)
    }

    /// Copies from device to host.
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, size: usize) {
        copy(Direction::DeviceToHost, to as u64, from, size, DEFAULT_STREAM)
    }

    /// The per-thread default stream's twin of [`cuMemcpyDtoH_v2`].
    fn cuMemcpyDtoH_v2_ptds(to: *mut c_void, from: u64, size: usize) {
        copy(Direction::DeviceToHost, to as u64, from, size, DEFAULT_STREAM)
    }

    /// Copies from device to device.
    fn cuMemcpyDtoD_v2(to: u64, from: u64, size: usize) {
        copy(Direction::DeviceToDevice, to, from, size, DEFAULT_STREAM)
    }

    /// The per-thread default stream's twin of [`cuMemcpyDtoD_v2`].
    fn cuMemcpyDtoD_v2_ptds(to: u64, from: u64, size: usize) {
        copy(Direction::DeviceToDevice, to, from, size, DEFAULT_STREAM)
    }

    /// Copies from host to device in a stream.
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, size: usize, stream: usize) {
        copy(Direction::HostToDevice, to, from as u64, size, stream)
    }

    /// The per-thread default stream's twin of [`cuMemcpyHtoDAsync_v2`].
    fn cuMemcpyHtoDAsync_v2_ptsz(to: u64, from: *const c_void, size: usize, stream: usize) {
        copy(Direction::HostToDevice, to, from as u64, size, stream)
    }

    /// Copies from device to host in a stream.
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, size: usize, stream: usize) {
        copy(Direction::DeviceToHost, to as u64, from, size, stream)
    }

    /// The per-thread default stream's twin of [`cuMemcpyDtoHAsync_v2`].
    fn cuMemcpyDtoHAsync_v2_ptsz(to: *mut c_void, from: u64, size: usize, stream: usize) {
        copy(Direction::DeviceToHost, to as u64, from, size, stream)
    }

    /// Copies from device to device in a stream.
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, size: usize, stream: usize) {
        copy(Direction::DeviceToDevice, to, from, size, stream)
    }

    /// The per-thread default stream's twin of [`cuMemcpyDtoDAsync_v2`].
    fn cuMemcpyDtoDAsync_v2_ptsz(to: u64, from: u64, size: usize, stream: usize) {
        copy(Direction::DeviceToDevice, to, from, size, stream)
    }
}
