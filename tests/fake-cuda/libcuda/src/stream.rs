//! Streams and events. Work is done when it is asked for, so nobody ever waits; any value is
//! taken for a stream or event, as tests use recognisable ones.

use fake_cuda_core::{Outcome, abi::store, exports};

use crate::{capture, context, new_handle, pool};

/// A handle that is unlike every other one.
fn create(handle: *mut usize) -> Outcome {
    context::current()?;
    // SAFETY: the caller's pointer, as the real functions require.
    unsafe { store(handle, new_handle()) }
}

fn nothing_to_wait_for() -> Outcome {
    context::current().map(|_| ())
}

fn synchronize(stream: usize) -> Outcome {
    let device = context::current()?;
    capture::forbid_wait(stream)?;
    pool::settle(device);
    Ok(())
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

    /// Nothing is ever running; pools give back what they do not keep.
    fn cuStreamSynchronize | cuStreamSynchronize_ptsz [default] (stream: usize) {
        synchronize(default.resolve(stream))
    }

    /// Always done.
    fn cuStreamQuery(_stream: usize) {
        nothing_to_wait_for()
    }

    /// The event has always happened; one of a capture takes the stream into it.
    fn cuStreamWaitEvent | cuStreamWaitEvent_ptsz [default] (
        stream: usize, event: usize, _flags: u32,
    ) {
        context::current()?;
        capture::wait(default.resolve(stream), event)
    }

    /// A new event.
    fn cuEventCreate(event: *mut usize, _flags: u32) {
        create(event)
    }

    /// Handles are never reused, so a destroyed one is simply forgotten.
    fn cuEventDestroy_v2(_event: usize) {
        nothing_to_wait_for()
    }

    /// Happens at once; in a captured stream it belongs to the capture.
    fn cuEventRecord | cuEventRecord_ptsz [default] (event: usize, stream: usize) {
        context::current()?;
        capture::record(default.resolve(stream), event);
        Ok(())
    }

    /// As [`cuEventRecord`]; flags mean nothing here.
    fn cuEventRecordWithFlags | cuEventRecordWithFlags_ptsz [default] (
        event: usize, stream: usize, _flags: u32,
    ) {
        context::current()?;
        capture::record(default.resolve(stream), event);
        Ok(())
    }

    /// Always done.
    fn cuEventQuery(_event: usize) {
        nothing_to_wait_for()
    }

    /// Nothing is ever running; pools give back what they do not keep.
    fn cuEventSynchronize(event: usize) {
        let device = context::current()?;
        capture::forbid_wait_for_event(event)?;
        pool::settle(device);
        Ok(())
    }
}
