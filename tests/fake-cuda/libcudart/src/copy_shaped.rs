//! Copies of rows and layers, and those to and from arrays: all are the driver's 2D and 3D
//! copies, with the memory types that the direction says.

use fake_cuda_core::{
    Code, DefaultStream, Outcome, exports,
    layout::{
        Copy2D, Copy3D, CopyEnd2D, CopyEnd3D, Extent, RuntimeCopy3D, RuntimeCopy3DPeer,
        RuntimeCopyEnd,
    },
};

use crate::device::{context, ready};

/// `CUmemorytype`
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const ARRAY: u32 = 3;
const UNIFIED: u32 = 4;

/// Memory types of source and destination.
fn memory_types(kind: i32) -> Result<[u32; 2], Code> {
    match kind {
        0 => Ok([HOST, HOST]),
        1 => Ok([HOST, DEVICE]),
        2 => Ok([DEVICE, HOST]),
        3 => Ok([DEVICE, DEVICE]),
        4 => Ok([UNIFIED, UNIFIED]),
        _ => Err(Code::INVALID_MEMCPY_DIRECTION),
    }
}

/// One end of a copy of rows.
#[derive(Clone, Copy)]
enum End {
    /// Address and pitch.
    Memory(u64, usize),
    /// Array and position.
    Array(usize, [usize; 2]),
}

impl End {
    fn described(self, memory: u32) -> CopyEnd2D {
        let mut end = CopyEnd2D {
            position: [0; 2],
            memory,
            host: 0,
            device: 0,
            array: 0,
            pitch: 0,
        };
        match self {
            Self::Array(array, position) => {
                (end.memory, end.array, end.position) = (ARRAY, array, position);
            }
            Self::Memory(address, pitch) => {
                end.pitch = pitch;
                if memory == HOST {
                    end.host = address;
                } else {
                    end.device = address;
                }
            }
        }
        end
    }
}

fn copy_rows(
    default: DefaultStream,
    [to, from]: [End; 2],
    [width, height]: [usize; 2],
    kind: i32,
    stream: Option<usize>,
) -> Outcome {
    let driver = ready()?.on(default);
    let [source, destination] = memory_types(kind)?;
    let copied = Copy2D {
        source: from.described(source),
        destination: to.described(destination),
        width,
        height,
    };
    // SAFETY: the driver's functions and a local; the caller vouches for host ranges.
    Code::outcome(unsafe {
        match stream {
            None => (driver.memcpy_2d)(&raw const copied),
            Some(stream) => (driver.memcpy_2d_async)(&raw const copied, stream),
        }
    })
}

fn end_3d(end: &RuntimeCopyEnd, memory: u32, context: usize) -> CopyEnd3D {
    let RuntimeCopyEnd {
        array,
        position,
        pointer,
    } = *end;
    CopyEnd3D {
        position,
        level: 0,
        memory: if array == 0 { memory } else { ARRAY },
        host: if memory == HOST { pointer.address } else { 0 },
        device: if memory == HOST { 0 } else { pointer.address },
        array,
        context,
        pitch: pointer.pitch,
        height: pointer.rows,
    }
}

fn check_extent(extent: Extent) -> Outcome {
    if extent.width == 0 || extent.height == 0 || extent.depth == 0 {
        return Err(Code::INVALID_VALUE);
    }
    Ok(())
}

fn copy_layers(
    default: DefaultStream,
    copied: *const RuntimeCopy3D,
    stream: Option<usize>,
) -> Outcome {
    let driver = ready()?.on(default);
    if copied.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's structure, as the real functions require.
    let RuntimeCopy3D {
        source,
        destination,
        extent,
        kind,
    } = unsafe { *copied };
    check_extent(extent)?;
    let [from, to] = memory_types(kind)?;
    let copied = Copy3D {
        source: end_3d(&source, from, 0),
        destination: end_3d(&destination, to, 0),
        extent,
    };
    // SAFETY: the driver's functions and a local; the caller vouches for host ranges.
    Code::outcome(unsafe {
        match stream {
            None => (driver.memcpy_3d)(&raw const copied),
            Some(stream) => (driver.memcpy_3d_async)(&raw const copied, stream),
        }
    })
}

fn copy_layers_between_devices(
    default: DefaultStream,
    copied: *const RuntimeCopy3DPeer,
    stream: Option<usize>,
) -> Outcome {
    let driver = ready()?;
    if copied.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's structure, as the real functions require.
    let RuntimeCopy3DPeer {
        source,
        source_device,
        destination,
        destination_device,
        extent,
    } = unsafe { *copied };
    check_extent(extent)?;
    let copied = Copy3D {
        source: end_3d(&source, DEVICE, context(driver, source_device)?),
        destination: end_3d(&destination, DEVICE, context(driver, destination_device)?),
        extent,
    };
    let driver = driver.on(default);
    // SAFETY: the driver's functions and a local.
    Code::outcome(unsafe {
        match stream {
            None => (driver.memcpy_3d_peer)(&raw const copied),
            Some(stream) => (driver.memcpy_3d_peer_async)(&raw const copied, stream),
        }
    })
}

exports! {
    versioned;

    /// Copies rows.
    fn cudaMemcpy2D | cudaMemcpy2D_ptds [default] (
        to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize,
        kind: i32,
    ) {
        let ends = [End::Memory(to, to_pitch), End::Memory(from, from_pitch)];
        copy_rows(default, ends, [width, height], kind, None)
    }

    /// Copies rows in a stream.
    fn cudaMemcpy2DAsync | cudaMemcpy2DAsync_ptsz [default] (
        to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize,
        kind: i32, stream: usize,
    ) {
        let ends = [End::Memory(to, to_pitch), End::Memory(from, from_pitch)];
        copy_rows(default, ends, [width, height], kind, Some(stream))
    }

    /// Copies rows to an array.
    fn cudaMemcpy2DToArray | cudaMemcpy2DToArray_ptds [default] (
        to: usize, x: usize, y: usize, from: u64, pitch: usize, width: usize, height: usize,
        kind: i32,
    ) {
        let ends = [End::Array(to, [x, y]), End::Memory(from, pitch)];
        copy_rows(default, ends, [width, height], kind, None)
    }

    /// Copies rows to an array in a stream.
    fn cudaMemcpy2DToArrayAsync | cudaMemcpy2DToArrayAsync_ptsz [default] (
        to: usize, x: usize, y: usize, from: u64, pitch: usize, width: usize, height: usize,
        kind: i32, stream: usize,
    ) {
        let ends = [End::Array(to, [x, y]), End::Memory(from, pitch)];
        copy_rows(default, ends, [width, height], kind, Some(stream))
    }

    /// Copies rows from an array.
    fn cudaMemcpy2DFromArray | cudaMemcpy2DFromArray_ptds [default] (
        to: u64, pitch: usize, from: usize, x: usize, y: usize, width: usize, height: usize,
        kind: i32,
    ) {
        let ends = [End::Memory(to, pitch), End::Array(from, [x, y])];
        copy_rows(default, ends, [width, height], kind, None)
    }

    /// Copies rows from an array in a stream.
    fn cudaMemcpy2DFromArrayAsync | cudaMemcpy2DFromArrayAsync_ptsz [default] (
        to: u64, pitch: usize, from: usize, x: usize, y: usize, width: usize, height: usize,
        kind: i32, stream: usize,
    ) {
        let ends = [End::Memory(to, pitch), End::Array(from, [x, y])];
        copy_rows(default, ends, [width, height], kind, Some(stream))
    }

    /// Copies rows between arrays.
    fn cudaMemcpy2DArrayToArray | cudaMemcpy2DArrayToArray_ptds [default] (
        to: usize, to_x: usize, to_y: usize, from: usize, from_x: usize, from_y: usize,
        width: usize, height: usize, kind: i32,
    ) {
        let ends = [End::Array(to, [to_x, to_y]), End::Array(from, [from_x, from_y])];
        copy_rows(default, ends, [width, height], kind, None)
    }

    /// Copies to an array: one row.
    fn cudaMemcpyToArray | cudaMemcpyToArray_ptds [default] (
        to: usize, x: usize, y: usize, from: u64, size: usize, kind: i32,
    ) {
        copy_rows(default, [End::Array(to, [x, y]), End::Memory(from, size)], [size, 1], kind, None)
    }

    /// Copies to an array in a stream.
    fn cudaMemcpyToArrayAsync | cudaMemcpyToArrayAsync_ptsz [default] (
        to: usize, x: usize, y: usize, from: u64, size: usize, kind: i32, stream: usize,
    ) {
        let ends = [End::Array(to, [x, y]), End::Memory(from, size)];
        copy_rows(default, ends, [size, 1], kind, Some(stream))
    }

    /// Copies from an array: one row.
    fn cudaMemcpyFromArray | cudaMemcpyFromArray_ptds [default] (
        to: u64, from: usize, x: usize, y: usize, size: usize, kind: i32,
    ) {
        copy_rows(default, [End::Memory(to, size), End::Array(from, [x, y])], [size, 1], kind, None)
    }

    /// Copies from an array in a stream.
    fn cudaMemcpyFromArrayAsync | cudaMemcpyFromArrayAsync_ptsz [default] (
        to: u64, from: usize, x: usize, y: usize, size: usize, kind: i32, stream: usize,
    ) {
        let ends = [End::Memory(to, size), End::Array(from, [x, y])];
        copy_rows(default, ends, [size, 1], kind, Some(stream))
    }

    /// Copies between arrays: one row.
    fn cudaMemcpyArrayToArray | cudaMemcpyArrayToArray_ptds [default] (
        to: usize, to_x: usize, to_y: usize, from: usize, from_x: usize, from_y: usize,
        size: usize, kind: i32,
    ) {
        let ends = [End::Array(to, [to_x, to_y]), End::Array(from, [from_x, from_y])];
        copy_rows(default, ends, [size, 1], kind, None)
    }

    /// Copies rows and layers.
    fn cudaMemcpy3D | cudaMemcpy3D_ptds [default] (copied: *const RuntimeCopy3D) {
        copy_layers(default, copied, None)
    }

    /// Copies rows and layers in a stream.
    fn cudaMemcpy3DAsync | cudaMemcpy3DAsync_ptsz [default] (
        copied: *const RuntimeCopy3D, stream: usize,
    ) {
        copy_layers(default, copied, Some(stream))
    }

    /// Copies rows and layers between devices.
    fn cudaMemcpy3DPeer | cudaMemcpy3DPeer_ptds [default] (copied: *const RuntimeCopy3DPeer) {
        copy_layers_between_devices(default, copied, None)
    }

    /// Copies rows and layers between devices in a stream.
    fn cudaMemcpy3DPeerAsync | cudaMemcpy3DPeerAsync_ptsz [default] (
        copied: *const RuntimeCopy3DPeer, stream: usize,
    ) {
        copy_layers_between_devices(default, copied, Some(stream))
    }
}
