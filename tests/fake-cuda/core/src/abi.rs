//! The parts of CUDA's binary interface that more than one library needs, as laid out in the
//! CUDA 12.9 and 13.5 headers. `cudaError_t` and `CUresult` have the same numbers.

use std::ffi::c_void;

/// `cudaError_t` or `CUresult`, without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub i32);

/// What the body of an exported function comes to.
pub type Outcome = Result<(), Code>;

impl Code {
    /// An argument is out of range.
    pub const INVALID_VALUE: Self = Self(1);
    /// No memory left.
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// The driver was not initialized.
    pub const NOT_INITIALIZED: Self = Self(3);
    /// A launch with an impossible grid or block.
    pub const INVALID_CONFIGURATION: Self = Self(9);
    /// The variable was never registered.
    pub const INVALID_SYMBOL: Self = Self(13);
    /// A copy whose direction is none of the five.
    pub const INVALID_MEMCPY_DIRECTION: Self = Self(21);
    /// No driver library was found.
    pub const INSUFFICIENT_DRIVER: Self = Self(35);
    /// The kernel was never registered.
    pub const INVALID_DEVICE_FUNCTION: Self = Self(98);
    /// There is no such device.
    pub const INVALID_DEVICE: Self = Self(101);
    /// The thread has no context.
    pub const INVALID_CONTEXT: Self = Self(201);
    /// A handle that this library never gave out.
    pub const INVALID_HANDLE: Self = Self(400);
    /// A name that was not found.
    pub const NOT_FOUND: Self = Self(500);
    /// A captured stream does not allow this.
    pub const STREAM_CAPTURE_UNSUPPORTED: Self = Self(900);
    /// Something that was not allowed ended the capture.
    pub const STREAM_CAPTURE_INVALIDATED: Self = Self(901);
    /// Two captures would become one.
    pub const STREAM_CAPTURE_MERGE: Self = Self(902);
    /// The capture did not begin in this stream.
    pub const STREAM_CAPTURE_UNMATCHED: Self = Self(903);
    /// The event was recorded in a captured stream.
    pub const CAPTURED_EVENT: Self = Self(907);
    /// The executable graph does not fit the new one.
    pub const GRAPH_EXEC_UPDATE_FAILURE: Self = Self(910);
    /// A device file or library of this name cannot be read.
    pub const FILE_NOT_FOUND: Self = Self(301);
    /// The host memory is pinned already.
    pub const HOST_MEMORY_ALREADY_REGISTERED: Self = Self(712);
    /// The host memory is not pinned.
    pub const HOST_MEMORY_NOT_REGISTERED: Self = Self(713);
    /// There is no such thing here.
    pub const NOT_SUPPORTED: Self = Self(801);
    /// The stream is not capturing.
    pub const ILLEGAL_STATE: Self = Self(401);

    /// Success for 0, the code otherwise.
    pub const fn outcome(raw: i32) -> Outcome {
        if raw == 0 { Ok(()) } else { Err(Self(raw)) }
    }
}

/// Which default stream a function means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultStream {
    /// One for all threads.
    Legacy,
    /// One for each thread: the `_ptsz` and `_ptds` symbols.
    PerThread,
}

impl DefaultStream {
    /// The stream that a handle names: 0 is whichever default is meant, by its own handle
    /// (`cudaStreamLegacy`, `cudaStreamPerThread`).
    pub const fn resolve(self, stream: usize) -> usize {
        match (stream, self) {
            (0, Self::Legacy) => 1,
            (0, Self::PerThread) => 2,
            (other, _) => other,
        }
    }
}

/// `dim3`: passed by value in two registers, 8 and 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Dim3 {
    /// Along x.
    pub x: u32,
    /// Along y.
    pub y: u32,
    /// Along z.
    pub z: u32,
}

impl Dim3 {
    /// Threads or blocks in all.
    pub fn volume(self) -> u64 {
        u64::from(self.x) * u64::from(self.y) * u64::from(self.z)
    }
}

/// Whether a real device would accept the shape: nothing is zero, a block holds at most
/// 1,024 threads.
pub fn is_launchable(grid: Dim3, block: Dim3) -> bool {
    grid.volume() > 0 && (1..=1024).contains(&block.volume())
}

/// `cudaLaunchConfig_t`: 56 bytes, shared memory at 24, stream at 32.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RuntimeLaunchConfig {
    /// Blocks.
    pub grid: Dim3,
    /// Threads of a block.
    pub block: Dim3,
    /// Dynamic shared memory, bytes.
    pub shared: usize,
    /// The stream.
    pub stream: usize,
    /// Attributes, `attribute_count` of them.
    pub attributes: *const c_void,
    /// Number of attributes.
    pub attribute_count: u32,
}

/// `CUlaunchConfig`: 56 bytes, shared memory at 24, stream at 32.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct DriverLaunchConfig {
    /// Blocks.
    pub grid: Dim3,
    /// Threads of a block.
    pub block: Dim3,
    /// Dynamic shared memory, bytes.
    pub shared: u32,
    /// The stream.
    pub stream: usize,
    /// Attributes, `attribute_count` of them.
    pub attributes: *const c_void,
    /// Number of attributes.
    pub attribute_count: u32,
}

const _: () = {
    assert!(size_of::<RuntimeLaunchConfig>() == 56 && size_of::<DriverLaunchConfig>() == 56);
    assert!(std::mem::offset_of!(RuntimeLaunchConfig, shared) == 24);
    assert!(std::mem::offset_of!(RuntimeLaunchConfig, stream) == 32);
    assert!(std::mem::offset_of!(DriverLaunchConfig, shared) == 24);
    assert!(std::mem::offset_of!(DriverLaunchConfig, stream) == 32);
};

/// Stores through a pointer that the caller owns, or fails with [`Code::INVALID_VALUE`].
///
/// # Safety
/// `out` is null or valid for a write of `T`.
pub unsafe fn store<T>(out: *mut T, value: T) -> Outcome {
    if out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller says that it is valid.
    unsafe { out.write(value) };
    Ok(())
}
