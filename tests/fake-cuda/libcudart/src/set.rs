//! Sets: all by the driver's functions for bytes.

use fake_cuda_core::{
    Code, DefaultStream, Outcome, exports,
    layout::{Extent, PitchedPointer},
};

use crate::device::ready;

/// CUDA takes the value's lowest byte.
fn byte(value: i32) -> u8 {
    value.to_le_bytes()[0]
}

fn set_rows(
    default: DefaultStream,
    address: u64,
    pitch: usize,
    value: i32,
    [width, height]: [usize; 2],
    stream: Option<usize>,
) -> Outcome {
    let driver = ready()?.on(default);
    let value = byte(value);
    // SAFETY: the driver's functions; the address is only a number to them.
    Code::outcome(unsafe {
        match stream {
            None => (driver.memset_2d)(address, pitch, value, width, height),
            Some(stream) => (driver.memset_2d_async)(address, pitch, value, width, height, stream),
        }
    })
}

fn set_layers(
    default: DefaultStream,
    pointer: PitchedPointer,
    value: i32,
    extent: Extent,
    stream: Option<usize>,
) -> Outcome {
    let rows = extent
        .height
        .checked_mul(extent.depth)
        .ok_or(Code::INVALID_VALUE)?;
    set_rows(
        default,
        pointer.address,
        pointer.pitch,
        value,
        [extent.width, rows],
        stream,
    )
}

exports! {
    versioned;

    /// Sets bytes.
    fn cudaMemset | cudaMemset_ptds [default] (address: u64, value: i32, count: usize) {
        // SAFETY: the driver's function; the address is only a number to it.
        Code::outcome(unsafe { (ready()?.on(default).memset)(address, byte(value), count) })
    }

    /// Sets bytes in a stream.
    fn cudaMemsetAsync | cudaMemsetAsync_ptsz [default] (
        address: u64, value: i32, count: usize, stream: usize,
    ) {
        let set = ready()?.on(default).memset_async;
        // SAFETY: the driver's function; the address is only a number to it.
        Code::outcome(unsafe { set(address, byte(value), count, stream) })
    }

    /// Sets bytes of rows.
    fn cudaMemset2D | cudaMemset2D_ptds [default] (
        address: u64, pitch: usize, value: i32, width: usize, height: usize,
    ) {
        set_rows(default, address, pitch, value, [width, height], None)
    }

    /// Sets bytes of rows in a stream.
    fn cudaMemset2DAsync | cudaMemset2DAsync_ptsz [default] (
        address: u64, pitch: usize, value: i32, width: usize, height: usize, stream: usize,
    ) {
        set_rows(default, address, pitch, value, [width, height], Some(stream))
    }

    /// Sets bytes of rows and layers.
    fn cudaMemset3D | cudaMemset3D_ptds [default] (
        pointer: PitchedPointer, value: i32, extent: Extent,
    ) {
        set_layers(default, pointer, value, extent, None)
    }

    /// Sets bytes of rows and layers in a stream.
    fn cudaMemset3DAsync | cudaMemset3DAsync_ptsz [default] (
        pointer: PitchedPointer, value: i32, extent: Extent, stream: usize,
    ) {
        set_layers(default, pointer, value, extent, Some(stream))
    }
}
