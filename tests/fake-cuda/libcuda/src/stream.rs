//! Streams and events. Work is done when it is asked for, so nobody ever waits; any value is
//! taken for a stream or event, as tests use recognisable ones.

use fake_cuda_core::{Outcome, abi::store, exports};

use crate::context;

/// A handle that is unlike every other one.
fn create(handle: *mut usize) -> Outcome {
    context::current()?;
    let new = Box::into_raw(Box::new(0u64)) as usize;
    // SAFETY: the caller's pointer, as the real functions require.
    unsafe { store(handle, new) }
}

fn nothing_to_wait_for() -> Outcome {
    context::current().map(|_| ())
}

exports! {
    unversioned;

    /// A new stream.
    fn cuStreamCreate(stream: *mut usize, _flags: u32) {
        create(stream)
    }

    /// A new stream; priorities mean nothing here.
    fn cuStreamCreateWithPriority(stream: *mut usize, _flags: u32, _priority: i32) {
        create(stream)
    }

    /// Handles are never reused, so a destroyed one is simply forgotten.
    fn cuStreamDestroy_v2(_stream: usize) {
        nothing_to_wait_for()
    }

    /// Nothing is ever running.
    fn cuStreamSynchronize(_stream: usize) {
        nothing_to_wait_for()
    }

    /// The per-thread default stream's twin of [`cuStreamSynchronize`].
    fn cuStreamSynchronize_ptsz(_stream: usize) {
        nothing_to_wait_for()
    }

    /// Always done.
    fn cuStreamQuery(_stream: usize) {
        nothing_to_wait_for()
    }

    /// The event has always happened.
    fn cuStreamWaitEvent(_stream: usize, _event: usize, _flags: u32) {
        nothing_to_wait_for()
    }

    /// A new event.
    fn cuEventCreate(event: *mut usize, _flags: u32) {
        create(event)
    }

    /// Handles are never reused, so a destroyed one is simply forgotten.
    fn cuEventDestroy_v2(_event: usize) {
        nothing_to_wait_for()
    }

    /// Happens at once.
    fn cuEventRecord(_event: usize, _stream: usize) {
        nothing_to_wait_for()
    }

    /// Always done.
    fn cuEventQuery(_event: usize) {
        nothing_to_wait_for()
    }

    /// Nothing is ever running.
    fn cuEventSynchronize(_event: usize) {
        nothing_to_wait_for()
    }
}
