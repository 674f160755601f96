//! Programs that call CUDA a known number of times and say so.
//!
//! Each one ends with one JSON object on stdout, a [`report::Report`]: the truth that the
//! end-to-end tests compare with. They run over the fake CUDA libraries; over the real ones
//! too, where launches fail for want of device code and are reported as failed.

pub mod driver;
pub mod driver_session;
pub mod entries;
pub mod every;
pub mod kernels;
pub mod library;
pub mod mix;
pub mod options;
pub mod process;
pub mod report;
pub mod runtime;
pub mod runtime_session;
pub mod tally;
pub mod transfer;

/// The grid of every launch whose shape does not matter.
pub const GRID: fake_cuda_core::abi::Dim3 = fake_cuda_core::abi::Dim3 { x: 2, y: 3, z: 5 };
/// The block of every launch whose shape does not matter.
pub const BLOCK: fake_cuda_core::abi::Dim3 = fake_cuda_core::abi::Dim3 { x: 7, y: 11, z: 13 };
/// Dynamic shared memory of those launches, bytes.
pub const SHARED: u32 = 17;
/// The stream of all asynchronous calls that no other stream is named for. No stream of this
/// value exists: the fake takes any.
pub const STREAM: usize = 0xabc;
