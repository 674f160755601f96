//! Arrays.

use fake_cuda_core::{
    Code, Outcome, exports,
    layout::{Array3DDescriptor, ArrayDescriptor, ChannelFormat, Extent},
};

use crate::device::ready;

/// `CUarray_format` and the number of channels.
fn element(format: *const ChannelFormat) -> Result<(i32, u32), Code> {
    if format.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's structure, as the real functions require.
    let ChannelFormat { bits, kind } = unsafe { *format };
    let channels = bits
        .into_iter()
        .take_while(|channel| *channel == bits[0])
        .count();
    if bits[channels.min(3)..]
        .iter()
        .any(|channel| *channel != 0 && channels < 4)
    {
        return Err(Code::INVALID_VALUE);
    }
    let format = match (kind, bits[0]) {
        (1, 8) => 0x01,
        (1, 16) => 0x02,
        (1, 32) => 0x03,
        (0, 8) => 0x08,
        (0, 16) => 0x09,
        (0, 32) => 0x0a,
        (2, 16) => 0x10,
        (2, 32) => 0x20,
        _ => return Err(Code::INVALID_VALUE),
    };
    Ok((format, u32::try_from(channels).unwrap_or(0)))
}

fn describe(
    format: *const ChannelFormat,
    extent: Extent,
    flags: u32,
) -> Result<Array3DDescriptor, Code> {
    let (format, channels) = element(format)?;
    let Extent {
        width,
        height,
        depth,
    } = extent;
    Ok(Array3DDescriptor {
        width,
        height,
        depth,
        format,
        channels,
        flags,
    })
}

fn create_3d(array: *mut usize, descriptor: Array3DDescriptor) -> Outcome {
    let create = ready()?.functions.array_3d_create;
    // SAFETY: the driver's function, the caller's pointer, and a local.
    Code::outcome(unsafe { create(array, &raw const descriptor) })
}

exports! {
    versioned;

    /// Allocates an array of one or two dimensions.
    fn cudaMallocArray(
        array: *mut usize, format: *const ChannelFormat, width: usize, height: usize, flags: u32,
    ) {
        let extent = Extent { width, height, depth: 0 };
        let descriptor = describe(format, extent, flags)?;
        if flags != 0 {
            return create_3d(array, descriptor);
        }
        let Array3DDescriptor { format, channels, .. } = descriptor;
        let descriptor = ArrayDescriptor { width, height, format, channels };
        let create = ready()?.functions.array_create;
        // SAFETY: the driver's function, the caller's pointer, and a local.
        Code::outcome(unsafe { create(array, &raw const descriptor) })
    }

    /// Allocates an array of up to three dimensions.
    fn cudaMalloc3DArray(
        array: *mut usize, format: *const ChannelFormat, extent: Extent, flags: u32,
    ) {
        create_3d(array, describe(format, extent, flags)?)
    }

    /// Allocates an array of shrinking levels.
    fn cudaMallocMipmappedArray(
        array: *mut usize, format: *const ChannelFormat, extent: Extent, levels: u32, flags: u32,
    ) {
        let descriptor = describe(format, extent, flags)?;
        let create = ready()?.functions.mipmapped_array_create;
        // SAFETY: the driver's function, the caller's pointer, and a local.
        Code::outcome(unsafe { create(array, &raw const descriptor, levels) })
    }

    /// Frees an array; null is fine.
    fn cudaFreeArray(array: usize) {
        let driver = ready()?;
        if array == 0 {
            return Ok(());
        }
        // SAFETY: the driver's function; the handle is only a number to it.
        Code::outcome(unsafe { (driver.functions.array_destroy)(array) })
    }

    /// Frees an array of shrinking levels; null is fine.
    fn cudaFreeMipmappedArray(array: usize) {
        let driver = ready()?;
        if array == 0 {
            return Ok(());
        }
        // SAFETY: the driver's function; the handle is only a number to it.
        Code::outcome(unsafe { (driver.functions.mipmapped_array_destroy)(array) })
    }
}
