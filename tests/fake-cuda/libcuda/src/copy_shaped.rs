//! Copies of rows and layers, and those to and from arrays. What is checked is that each end is
//! what its memory type says; no byte moves.

use fake_cuda_core::{
    Code, Outcome, exports,
    layout::{BatchCopy3D, Copy2D, Copy3D},
};

use crate::{array, context, devices, graph};

/// The stream of the forms without one.
const DEFAULT_STREAM: usize = 0;

/// One end of a copy, as its `CUmemorytype` says.
#[derive(Clone, Copy)]
struct End {
    memory: u32,
    host: u64,
    device: u64,
    array: usize,
}

impl End {
    const fn host(address: u64) -> Self {
        Self {
            memory: 1,
            host: address,
            device: 0,
            array: 0,
        }
    }

    const fn device(address: u64) -> Self {
        Self {
            memory: 2,
            host: 0,
            device: address,
            array: 0,
        }
    }

    const fn array(array: usize) -> Self {
        Self {
            memory: 3,
            host: 0,
            device: 0,
            array,
        }
    }

    fn check(self) -> Outcome {
        let valid = match self.memory {
            1 => self.host != 0 && devices::owner(self.host).is_none(),
            2 => devices::owner(self.device).is_some(),
            3 => return array::check(self.array),
            4 => self.device != 0,
            _ => false,
        };
        if valid {
            Ok(())
        } else {
            Err(Code::INVALID_VALUE)
        }
    }
}

fn copy(to: End, from: End, stream: usize) -> Outcome {
    context::current()?;
    to.check()?;
    from.check()?;
    graph::add_node_if_capturing(stream);
    Ok(())
}

fn copy_2d(copied: *const Copy2D, stream: usize) -> Outcome {
    if copied.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's structure, as the real functions require.
    let Copy2D {
        source,
        destination,
        ..
    } = unsafe { *copied };
    let [to, from] = [destination, source].map(|end| End {
        memory: end.memory,
        host: end.host,
        device: end.device,
        array: end.array,
    });
    copy(to, from, stream)
}

fn copy_3d(copied: *const Copy3D, between_contexts: bool, stream: usize) -> Outcome {
    if copied.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's structure, as the real functions require.
    let Copy3D {
        source,
        destination,
        ..
    } = unsafe { *copied };
    if between_contexts {
        context::device_of(source.context)?;
        context::device_of(destination.context)?;
    }
    let [to, from] = [destination, source].map(|end| End {
        memory: end.memory,
        host: end.host,
        device: end.device,
        array: end.array,
    });
    copy(to, from, stream)
}

exports! {
    unversioned;

    /// Copies rows.
    fn cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds [default] (copied: *const Copy2D) {
        copy_2d(copied, default.resolve(DEFAULT_STREAM))
    }

    /// Copies rows of any alignment.
    fn cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds [default] (copied: *const Copy2D) {
        copy_2d(copied, default.resolve(DEFAULT_STREAM))
    }

    /// Copies rows in a stream.
    fn cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz [default] (
        copied: *const Copy2D, stream: usize,
    ) {
        copy_2d(copied, default.resolve(stream))
    }

    /// Copies rows and layers.
    fn cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds [default] (copied: *const Copy3D) {
        copy_3d(copied, false, default.resolve(DEFAULT_STREAM))
    }

    /// Copies rows and layers in a stream.
    fn cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz [default] (
        copied: *const Copy3D, stream: usize,
    ) {
        copy_3d(copied, false, default.resolve(stream))
    }

    /// Copies rows and layers between contexts.
    fn cuMemcpy3DPeer | cuMemcpy3DPeer_ptds [default] (copied: *const Copy3D) {
        copy_3d(copied, true, default.resolve(DEFAULT_STREAM))
    }

    /// Copies rows and layers between contexts in a stream.
    fn cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz [default] (
        copied: *const Copy3D, stream: usize,
    ) {
        copy_3d(copied, true, default.resolve(stream))
    }

    /// Copies rows and layers in a stream, with hints that mean nothing here.
    fn cuMemcpy3DWithAttributesAsync | cuMemcpy3DWithAttributesAsync_ptsz [default] (
        copied: *const BatchCopy3D, _flags: u64, stream: usize,
    ) {
        context::current()?;
        if copied.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        graph::add_node_if_capturing(default.resolve(stream));
        Ok(())
    }

    /// Copies from device to array.
    fn cuMemcpyDtoA_v2 | cuMemcpyDtoA_v2_ptds [default] (
        to: usize, _offset: usize, from: u64, _size: usize,
    ) {
        copy(End::array(to), End::device(from), default.resolve(DEFAULT_STREAM))
    }

    /// Copies from array to device.
    fn cuMemcpyAtoD_v2 | cuMemcpyAtoD_v2_ptds [default] (
        to: u64, from: usize, _offset: usize, _size: usize,
    ) {
        copy(End::device(to), End::array(from), default.resolve(DEFAULT_STREAM))
    }

    /// Copies from host to array.
    fn cuMemcpyHtoA_v2 | cuMemcpyHtoA_v2_ptds [default] (
        to: usize, _offset: usize, from: u64, _size: usize,
    ) {
        copy(End::array(to), End::host(from), default.resolve(DEFAULT_STREAM))
    }

    /// Copies from host to array in a stream.
    fn cuMemcpyHtoAAsync_v2 | cuMemcpyHtoAAsync_v2_ptsz [default] (
        to: usize, _offset: usize, from: u64, _size: usize, stream: usize,
    ) {
        copy(End::array(to), End::host(from), default.resolve(stream))
    }

    /// Copies from array to host.
    fn cuMemcpyAtoH_v2 | cuMemcpyAtoH_v2_ptds [default] (
        to: u64, from: usize, _offset: usize, _size: usize,
    ) {
        copy(End::host(to), End::array(from), default.resolve(DEFAULT_STREAM))
    }

    /// Copies from array to host in a stream.
    fn cuMemcpyAtoHAsync_v2 | cuMemcpyAtoHAsync_v2_ptsz [default] (
        to: u64, from: usize, _offset: usize, _size: usize, stream: usize,
    ) {
        copy(End::host(to), End::array(from), default.resolve(stream))
    }

    /// Copies between arrays.
    fn cuMemcpyAtoA_v2 | cuMemcpyAtoA_v2_ptds [default] (
        to: usize, _to_offset: usize, from: usize, _from_offset: usize, _size: usize,
    ) {
        copy(End::array(to), End::array(from), default.resolve(DEFAULT_STREAM))
    }
}
