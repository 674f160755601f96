//! Copies. Bytes move only from host to host; a device address is checked for belonging to a
//! device and never dereferenced.

use std::{ffi::c_void, ptr};

use fake_cuda_core::{Code, Outcome, exports};

use crate::{context, devices, graph};

/// The stream of the forms without one.
const DEFAULT_STREAM: usize = 0;

/// What a direction demands of its two addresses.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
    ByAddress,
}

pub(crate) fn copy(
    direction: Direction,
    to: u64,
    from: u64,
    size: usize,
    stream: usize,
) -> Outcome {
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

/// Both addresses must lie on the devices of their contexts.
fn copy_peer(
    to: u64,
    to_context: usize,
    from: u64,
    from_context: usize,
    size: usize,
    stream: usize,
) -> Outcome {
    for (address, context) in [(to, to_context), (from, from_context)] {
        let device = context::device_of(context)?;
        if !devices::owner(address).is_some_and(|owner| ptr::eq(owner, device)) {
            return Err(Code::INVALID_VALUE);
        }
    }
    copy(Direction::DeviceToDevice, to, from, size, stream)
}

exports! {
    unversioned;

    /// Copies, direction by address.
    fn cuMemcpy | cuMemcpy_ptds [default] (to: u64, from: u64, size: usize) {
        copy(Direction::ByAddress, to, from, size, default.resolve(DEFAULT_STREAM))
    }

    /// Copies in a stream, direction by address.
    fn cuMemcpyAsync | cuMemcpyAsync_ptsz [default] (to: u64, from: u64, size: usize, stream: usize) {
        copy(Direction::ByAddress, to, from, size, default.resolve(stream))
    }

    /// Copies in a stream, with hints that mean nothing here.
    fn cuMemcpyWithAttributesAsync | cuMemcpyWithAttributesAsync_ptsz [default] (
        to: u64, from: u64, size: usize, _attributes: *const c_void, stream: usize,
    ) {
        copy(Direction::ByAddress, to, from, size, default.resolve(stream))
    }

    /// Copies between two contexts' devices.
    fn cuMemcpyPeer | cuMemcpyPeer_ptds [default] (
        to: u64, to_context: usize, from: u64, from_context: usize, size: usize,
    ) {
        copy_peer(to, to_context, from, from_context, size, default.resolve(DEFAULT_STREAM))
    }

    /// Copies between two contexts' devices in a stream.
    fn cuMemcpyPeerAsync | cuMemcpyPeerAsync_ptsz [default] (
        to: u64, to_context: usize, from: u64, from_context: usize, size: usize, stream: usize,
    ) {
        copy_peer(to, to_context, from, from_context, size, default.resolve(stream))
    }

    /// Copies from host to device.
    fn cuMemcpyHtoD_v2 | cuMemcpyHtoD_v2_ptds [default] (to: u64, from: *const c_void, size: usize) {
        copy(Direction::HostToDevice, to, from as u64, size, default.resolve(DEFAULT_STREAM))
    }

    /// Copies from device to host.
    fn cuMemcpyDtoH_v2 | cuMemcpyDtoH_v2_ptds [default] (to: *mut c_void, from: u64, size: usize) {
        copy(Direction::DeviceToHost, to as u64, from, size, default.resolve(DEFAULT_STREAM))
    }

    /// Copies from device to device.
    fn cuMemcpyDtoD_v2 | cuMemcpyDtoD_v2_ptds [default] (to: u64, from: u64, size: usize) {
        copy(Direction::DeviceToDevice, to, from, size, default.resolve(DEFAULT_STREAM))
    }

    /// Copies from host to device in a stream.
    fn cuMemcpyHtoDAsync_v2 | cuMemcpyHtoDAsync_v2_ptsz [default] (to: u64, from: *const c_void, size: usize, stream: usize) {
        copy(Direction::HostToDevice, to, from as u64, size, default.resolve(stream))
    }

    /// Copies from device to host in a stream.
    fn cuMemcpyDtoHAsync_v2 | cuMemcpyDtoHAsync_v2_ptsz [default] (to: *mut c_void, from: u64, size: usize, stream: usize) {
        copy(Direction::DeviceToHost, to as u64, from, size, default.resolve(stream))
    }

    /// Copies from device to device in a stream.
    fn cuMemcpyDtoDAsync_v2 | cuMemcpyDtoDAsync_v2_ptsz [default] (to: u64, from: u64, size: usize, stream: usize) {
        copy(Direction::DeviceToDevice, to, from, size, default.resolve(stream))
    }
}
