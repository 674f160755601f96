//! Sets: memory filled with one value. A device address is checked and never touched; managed
//! memory, which is the host's here, is not filled either.

use fake_cuda_core::{Code, Outcome, exports};

use crate::{context, devices, graph};

/// The stream of the forms without one.
const DEFAULT_STREAM: usize = 0;

fn set(address: u64, stream: usize) -> Outcome {
    context::current()?;
    if devices::owner(address).is_none() {
        return Err(Code::INVALID_VALUE);
    }
    graph::add_node_if_capturing(stream);
    Ok(())
}

fn set_rows(
    address: u64,
    pitch: usize,
    row: Option<usize>,
    height: usize,
    stream: usize,
) -> Outcome {
    if height > 1 && row.is_none_or(|row| row > pitch) {
        return Err(Code::INVALID_VALUE);
    }
    set(address, stream)
}

exports! {
    unversioned;

    /// Sets bytes.
    fn cuMemsetD8_v2 | cuMemsetD8_v2_ptds [default] (address: u64, _value: u8, _count: usize) {
        set(address, default.resolve(DEFAULT_STREAM))
    }

    /// Sets bytes in a stream.
    fn cuMemsetD8Async | cuMemsetD8Async_ptsz [default] (
        address: u64, _value: u8, _count: usize, stream: usize,
    ) {
        set(address, default.resolve(stream))
    }

    /// Sets words of 16 bits.
    fn cuMemsetD16_v2 | cuMemsetD16_v2_ptds [default] (address: u64, _value: u16, _count: usize) {
        set(address, default.resolve(DEFAULT_STREAM))
    }

    /// Sets words of 16 bits in a stream.
    fn cuMemsetD16Async | cuMemsetD16Async_ptsz [default] (
        address: u64, _value: u16, _count: usize, stream: usize,
    ) {
        set(address, default.resolve(stream))
    }

    /// Sets words of 32 bits.
    fn cuMemsetD32_v2 | cuMemsetD32_v2_ptds [default] (address: u64, _value: u32, _count: usize) {
        set(address, default.resolve(DEFAULT_STREAM))
    }

    /// Sets words of 32 bits in a stream.
    fn cuMemsetD32Async | cuMemsetD32Async_ptsz [default] (
        address: u64, _value: u32, _count: usize, stream: usize,
    ) {
        set(address, default.resolve(stream))
    }

    /// Sets bytes of rows.
    fn cuMemsetD2D8_v2 | cuMemsetD2D8_v2_ptds [default] (
        address: u64, pitch: usize, _value: u8, width: usize, height: usize,
    ) {
        set_rows(address, pitch, Some(width), height, default.resolve(DEFAULT_STREAM))
    }

    /// Sets bytes of rows in a stream.
    fn cuMemsetD2D8Async | cuMemsetD2D8Async_ptsz [default] (
        address: u64, pitch: usize, _value: u8, width: usize, height: usize, stream: usize,
    ) {
        set_rows(address, pitch, Some(width), height, default.resolve(stream))
    }

    /// Sets words of 16 bits of rows.
    fn cuMemsetD2D16_v2 | cuMemsetD2D16_v2_ptds [default] (
        address: u64, pitch: usize, _value: u16, width: usize, height: usize,
    ) {
        set_rows(address, pitch, width.checked_mul(2), height, default.resolve(DEFAULT_STREAM))
    }

    /// Sets words of 16 bits of rows in a stream.
    fn cuMemsetD2D16Async | cuMemsetD2D16Async_ptsz [default] (
        address: u64, pitch: usize, _value: u16, width: usize, height: usize, stream: usize,
    ) {
        set_rows(address, pitch, width.checked_mul(2), height, default.resolve(stream))
    }

    /// Sets words of 32 bits of rows.
    fn cuMemsetD2D32_v2 | cuMemsetD2D32_v2_ptds [default] (
        address: u64, pitch: usize, _value: u32, width: usize, height: usize,
    ) {
        set_rows(address, pitch, width.checked_mul(4), height, default.resolve(DEFAULT_STREAM))
    }

    /// Sets words of 32 bits of rows in a stream.
    fn cuMemsetD2D32Async | cuMemsetD2D32Async_ptsz [default] (
        address: u64, pitch: usize, _value: u32, width: usize, height: usize, stream: usize,
    ) {
        set_rows(address, pitch, width.checked_mul(4), height, default.resolve(stream))
    }
}
