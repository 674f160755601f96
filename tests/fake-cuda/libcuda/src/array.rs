//! Arrays: device memory of opaque layout, known by handles.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use fake_cuda_core::{
    Code, Outcome,
    abi::store,
    exports,
    layout::{Array3DDescriptor, ArrayDescriptor},
};

use crate::{context, devices::Device, new_handle};

struct Array {
    device: &'static Device,
    bytes: u64,
    mipmapped: bool,
}

static ARRAYS: LazyLock<Mutex<HashMap<usize, Array>>> = LazyLock::new(Mutex::default);

fn arrays() -> MutexGuard<'static, HashMap<usize, Array>> {
    ARRAYS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails for a handle that is no array.
pub(crate) fn check(handle: usize) -> Outcome {
    if arrays().contains_key(&handle) {
        Ok(())
    } else {
        Err(Code::INVALID_HANDLE)
    }
}

/// Forgets the arrays of a device, whose memory is forgotten with it.
pub(crate) fn forget(device: &'static Device) {
    arrays().retain(|_, array| !std::ptr::eq(array.device, device));
}

/// Bytes of a channel; formats that are not listed do not exist here.
fn channel_bytes(format: i32) -> Result<u64, Code> {
    match format {
        0x01 | 0x08 => Ok(1),
        0x02 | 0x09 | 0x10 => Ok(2),
        0x03 | 0x0a | 0x20 => Ok(4),
        _ => Err(Code::INVALID_VALUE),
    }
}

fn create(handle: *mut usize, descriptor: &Array3DDescriptor, levels: u32) -> Outcome {
    let device = context::current()?;
    let channels = u64::from(descriptor.channels);
    if handle.is_null() || descriptor.width == 0 || !matches!(channels, 1 | 2 | 4) {
        return Err(Code::INVALID_VALUE);
    }
    let element = channel_bytes(descriptor.format)? * channels;
    let (mut bytes, mut shape) = (
        0_u64,
        [descriptor.width, descriptor.height, descriptor.depth].map(|side| side.max(1)),
    );
    for _ in 0..levels {
        let elements = shape
            .iter()
            .try_fold(1_u64, |product, side| product.checked_mul(*side as u64));
        let level = elements.and_then(|elements| elements.checked_mul(element));
        bytes = level
            .and_then(|level| bytes.checked_add(level))
            .ok_or(Code::OUT_OF_MEMORY)?;
        shape = shape.map(|side| (side / 2).max(1));
    }
    if !device.memory().take_array(bytes) {
        return Err(Code::OUT_OF_MEMORY);
    }
    let new = new_handle();
    arrays().insert(
        new,
        Array {
            device,
            bytes,
            mipmapped: levels > 1,
        },
    );
    // SAFETY: not null, and the caller's pointer, as the real functions require.
    unsafe { store(handle, new) }
}

fn destroy(handle: usize, mipmapped: bool) -> Outcome {
    context::current()?;
    let mut arrays = arrays();
    if arrays
        .get(&handle)
        .is_none_or(|array| array.mipmapped != mipmapped)
    {
        return Err(Code::INVALID_HANDLE);
    }
    if let Some(array) = arrays.remove(&handle) {
        array.device.memory().give_array_back(array.bytes);
    }
    Ok(())
}

exports! {
    unversioned;

    /// Takes the memory of one or two dimensions.
    fn cuArrayCreate_v2(handle: *mut usize, descriptor: *const ArrayDescriptor) {
        if descriptor.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller's structure, as the real function requires.
        let ArrayDescriptor { width, height, format, channels } = unsafe { *descriptor };
        create(handle, &Array3DDescriptor { width, height, depth: 0, format, channels, flags: 0 }, 1)
    }

    /// Takes the memory of up to three dimensions.
    fn cuArray3DCreate_v2(handle: *mut usize, descriptor: *const Array3DDescriptor) {
        if descriptor.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller's structure, as the real function requires.
        create(handle, unsafe { &*descriptor }, 1)
    }

    /// Gives an array back.
    fn cuArrayDestroy(handle: usize) {
        destroy(handle, false)
    }

    /// Takes the memory of shrinking levels, each half as long in each dimension.
    fn cuMipmappedArrayCreate(
        handle: *mut usize, descriptor: *const Array3DDescriptor, levels: u32,
    ) {
        if descriptor.is_null() || levels < 2 {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller's structure, as the real function requires.
        create(handle, unsafe { &*descriptor }, levels)
    }

    /// Gives an array of shrinking levels back.
    fn cuMipmappedArrayDestroy(handle: usize) {
        destroy(handle, true)
    }
}
