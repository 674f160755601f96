//! Streams and events.

use fake_cuda_core::{Code, Outcome, exports};

use crate::device::ready;

fn create_stream(stream: *mut usize, flags: u32) -> Outcome {
    // SAFETY: the driver's function and the caller's pointer, as the real one requires.
    Code::outcome(unsafe { (ready()?.functions.stream_create)(stream, flags) })
}

fn create_event(event: *mut usize, flags: u32) -> Outcome {
    // SAFETY: the driver's function and the caller's pointer, as the real one requires.
    Code::outcome(unsafe { (ready()?.functions.event_create)(event, flags) })
}

exports! {
    versioned;

    /// A new stream.
    fn cudaStreamCreate(stream: *mut usize) {
        create_stream(stream, 0)
    }

    /// A new stream.
    fn cudaStreamCreateWithFlags(stream: *mut usize, flags: u32) {
        create_stream(stream, flags)
    }

    /// A new stream with a priority.
    fn cudaStreamCreateWithPriority(stream: *mut usize, flags: u32, priority: i32) {
        // SAFETY: the driver's function and the caller's pointer, as the real one requires.
        Code::outcome(unsafe {
            (ready()?.functions.stream_create_with_priority)(stream, flags, priority)
        })
    }

    /// Ends a stream.
    fn cudaStreamDestroy(stream: usize) {
        // SAFETY: the driver's function; the handle is only a number to it.
        Code::outcome(unsafe { (ready()?.functions.stream_destroy)(stream) })
    }

    /// Waits until a stream is idle.
    fn cudaStreamSynchronize | cudaStreamSynchronize_ptsz [default] (stream: usize) {
        // SAFETY: the driver's function; the handle is only a number to it.
        Code::outcome(unsafe { (ready()?.on(default).stream_synchronize)(stream) })
    }

    /// Whether a stream is idle.
    fn cudaStreamQuery(stream: usize) {
        // SAFETY: the driver's function; the handle is only a number to it.
        Code::outcome(unsafe { (ready()?.functions.stream_query)(stream) })
    }

    /// Lets a stream wait for an event.
    fn cudaStreamWaitEvent | cudaStreamWaitEvent_ptsz [default] (
        stream: usize, event: usize, flags: u32,
    ) {
        // SAFETY: the driver's function; the handles are only numbers to it.
        Code::outcome(unsafe { (ready()?.on(default).stream_wait_event)(stream, event, flags) })
    }

    /// A new event.
    fn cudaEventCreate(event: *mut usize) {
        create_event(event, 0)
    }

    /// A new event.
    fn cudaEventCreateWithFlags(event: *mut usize, flags: u32) {
        create_event(event, flags)
    }

    /// Ends an event.
    fn cudaEventDestroy(event: usize) {
        // SAFETY: the driver's function; the handle is only a number to it.
        Code::outcome(unsafe { (ready()?.functions.event_destroy)(event) })
    }

    /// Marks a point in a stream.
    fn cudaEventRecord | cudaEventRecord_ptsz [default] (event: usize, stream: usize) {
        // SAFETY: the driver's function; the handles are only numbers to it.
        Code::outcome(unsafe { (ready()?.on(default).event_record)(event, stream) })
    }

    /// Marks a point in a stream.
    fn cudaEventRecordWithFlags | cudaEventRecordWithFlags_ptsz [default] (
        event: usize, stream: usize, flags: u32,
    ) {
        // SAFETY: the driver's function; the handles are only numbers to it.
        Code::outcome(unsafe {
            (ready()?.on(default).event_record_with_flags)(event, stream, flags)
        })
    }

    /// Whether an event has happened.
    fn cudaEventQuery(event: usize) {
        // SAFETY: the driver's function; the handle is only a number to it.
        Code::outcome(unsafe { (ready()?.functions.event_query)(event) })
    }

    /// Waits for an event.
    fn cudaEventSynchronize(event: usize) {
        // SAFETY: the driver's function; the handle is only a number to it.
        Code::outcome(unsafe { (ready()?.functions.event_synchronize)(event) })
    }
}
