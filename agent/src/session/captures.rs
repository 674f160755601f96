//! Which streams are being captured: what they are given goes into a graph, and runs nothing.

use agent_common::{Api, Effect, flags};
use rustc_hash::FxHashMap;
use trace::Event;

/// `cudaErrorStreamCaptureInvalidated`: the capture has ended all the same.
const INVALIDATED: i32 = 901;
/// Most streams, and most events, of one process that are kept.
const MAX_KEPT: usize = 1 << 16;

/// `cudaStreamPerThread`, `CU_STREAM_PER_THREAD`.
const PER_THREAD: u64 = 2;

/// A stream of a process; the per-thread default stream is one for each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Stream {
    handle: u64,
    /// 0 but for the per-thread default stream.
    thread: u32,
}

/// Captures of all processes.
#[derive(Debug, Default)]
pub(super) struct Captures {
    processes: FxHashMap<u32, Open>,
}

/// Open captures of one process.
#[derive(Debug, Default)]
struct Open {
    /// Number of the capture that a stream is in.
    streams: FxHashMap<Stream, u64>,
    /// Number of the capture that an event was recorded in.
    events: FxHashMap<u64, u64>,
    next: u64,
}

/// What a call says of captures beyond its own row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// None.
    No,
    /// A capture ended that had begun before tracing did.
    BeganBefore,
    /// What says which streams joined a capture was lost, or not probed yet.
    Lost,
}

impl Doubt {
    /// What the recording says of it.
    pub(super) const fn reason(self) -> Option<&'static str> {
        match self {
            Self::No => None,
            Self::BeganBefore => Some(
                "a stream capture ended that had begun before tracing did: launches before it \
                 may have run nothing",
            ),
            Self::Lost => Some(
                "it was not seen in full which streams joined a capture: launches in other streams \
                 during it may have run nothing",
            ),
        }
    }
}

impl Captures {
    /// Flags a call that put work into a graph, and takes note of what begins, spreads or ends
    /// captures.
    pub(super) fn call(&mut self, api: &Api, event: &mut Event) -> Doubt {
        let succeeded = event.result == Some(0);
        if api.effect == Effect::CaptureBegin {
            if let (true, Some(stream)) = (succeeded, stream(event)) {
                let open = self.processes.entry(event.pid).or_default();
                let capture = open.next;
                open.next += 1;
                open.join(stream, capture);
            }
        } else if api.effect == Effect::CaptureEnd {
            return self.ended(event);
        } else if matches!(api.effect, Effect::EventRecord | Effect::StreamWait) {
            if let Some(open) = self.processes.get_mut(&event.pid) {
                open.spread(api.effect, event, succeeded);
            }
        } else if let Some(open) = self.processes.get(&event.pid)
            && puts_work_into_a_stream(api)
            && stream(event).is_some_and(|stream| open.streams.contains_key(&stream))
        {
            event.flags |= flags::CAPTURED;
        }
        Doubt::No
    }

    /// The process has ended, or has become another program.
    pub(super) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    fn ended(&mut self, event: &mut Event) -> Doubt {
        if !matches!(event.result, Some(0 | INVALIDATED)) {
            return Doubt::No;
        }
        let stream = stream(event);
        let capture = self
            .processes
            .get(&event.pid)
            .and_then(|open| open.streams.get(&stream?).copied());
        let Some(capture) = capture else {
            event.flags |= flags::CAPTURE_UNCLEAR;
            return Doubt::BeganBefore;
        };
        if let Some(open) = self.processes.get_mut(&event.pid) {
            open.streams.retain(|_, number| *number != capture);
            open.events.retain(|_, number| *number != capture);
            if open.streams.is_empty() {
                self.processes.remove(&event.pid);
            }
        }
        if event.flags & flags::CAPTURE_UNCLEAR != 0 {
            return Doubt::Lost;
        }
        Doubt::No
    }
}

impl Open {
    fn join(&mut self, stream: Stream, capture: u64) {
        if self.streams.len() < MAX_KEPT {
            self.streams.insert(stream, capture);
        }
    }

    /// An event that was recorded in a captured stream carries the capture to whatever stream
    /// waits for it.
    fn spread(&mut self, effect: Effect, event: &mut Event, succeeded: bool) {
        let (Some(stream), Some(handle)) = (stream(event), event.handle) else {
            return;
        };
        let capture = if effect == Effect::EventRecord {
            let capture = self.streams.get(&stream).copied();
            match capture.filter(|_| succeeded && self.events.len() < MAX_KEPT) {
                Some(capture) => self.events.insert(handle, capture),
                None => self.events.remove(&handle),
            };
            capture
        } else {
            let capture = self.events.get(&handle).copied();
            if let (true, Some(capture)) = (succeeded, capture) {
                self.join(stream, capture);
            }
            capture
        };
        if capture.is_some() {
            event.flags |= flags::CAPTURED;
        }
    }
}

/// The stream of a call, as one that can be told from others.
fn stream(event: &Event) -> Option<Stream> {
    let handle = event.stream?;
    let own = handle == PER_THREAD || (handle == 0 && event.flags & flags::PER_THREAD_STREAM != 0);
    Some(if own {
        Stream {
            handle: PER_THREAD,
            thread: event.tid,
        }
    } else {
        Stream { handle, thread: 0 }
    })
}

/// Whether what the call asks for is done in stream order.
fn puts_work_into_a_stream(api: &Api) -> bool {
    matches!(
        api.effect,
        Effect::Launch
            | Effect::HostFunction
            | Effect::Copy
            | Effect::Set
            | Effect::PoolAlloc
            | Effect::PoolFree
            | Effect::GraphLaunch
    )
}

#[cfg(test)]
mod tests {
    use agent_common::ApiId;

    use super::*;

    const PID: u32 = 7;

    /// A successful call; whether it was captured, and the doubt.
    fn call(captures: &mut Captures, name: &str, stream: u64, handle: u64) -> (bool, Doubt) {
        let id = ApiId::by_name(name).expect("in the table");
        let api = id.api().expect("in the table");
        let mut event = Event {
            pid: PID,
            tid: PID,
            api: Some(id),
            result: Some(0),
            stream: Some(stream),
            handle: Some(handle),
            ..Event::default()
        };
        let doubt = captures.call(api, &mut event);
        (event.flags & flags::CAPTURED != 0, doubt)
    }

    #[test]
    fn a_capture_spreads_by_events_and_ends_everywhere() {
        let mut captures = Captures::default();
        let c = &mut captures;
        let launch = |c: &mut Captures, stream| call(c, "cudaLaunchKernel", stream, 1).0;
        assert!(!launch(c, 10));
        call(c, "cudaStreamBeginCapture", 10, 0);
        assert!(launch(c, 10) && !launch(c, 11));
        // An event of another stream carries nothing.
        call(c, "cudaEventRecord", 11, 100);
        assert!(!call(c, "cudaStreamWaitEvent", 12, 100).0 && !launch(c, 12));
        call(c, "cudaEventRecord", 10, 100);
        assert!(call(c, "cudaStreamWaitEvent", 12, 100).0 && launch(c, 12));
        // Nor does an event that was recorded anew elsewhere.
        call(c, "cudaEventRecord", 11, 100);
        call(c, "cudaStreamWaitEvent", 13, 100);
        assert!(!launch(c, 13));
        assert_eq!(call(c, "cudaStreamEndCapture", 10, 0).1, Doubt::No);
        assert!(!launch(c, 10) && !launch(c, 12));
        assert!(captures.processes.is_empty());
    }

    #[test]
    fn two_captures_of_a_process_end_apart() {
        let mut captures = Captures::default();
        let c = &mut captures;
        call(c, "cudaStreamBeginCapture", 10, 0);
        call(c, "cuStreamBeginCapture_v2", 20, 0);
        call(c, "cudaStreamEndCapture", 10, 0);
        assert!(!call(c, "cudaLaunchKernel", 10, 1).0);
        assert!(call(c, "cudaLaunchKernel", 20, 1).0);
    }

    #[test]
    fn the_end_of_an_unseen_capture_is_in_doubt() {
        let end = call(&mut Captures::default(), "cudaStreamEndCapture", 10, 0);
        assert_eq!(end.1, Doubt::BeganBefore);
    }

    #[test]
    fn each_thread_has_a_default_stream_of_its_own() {
        let of = |tid, handle, flags| {
            stream(&Event {
                tid,
                stream: Some(handle),
                flags,
                ..Event::default()
            })
        };
        assert_eq!(of(1, 2, 0), of(1, 0, flags::PER_THREAD_STREAM));
        assert_ne!(of(1, 2, 0), of(2, 2, 0));
        assert_eq!(of(1, 9, 0), of(2, 9, flags::PER_THREAD_STREAM));
        assert_ne!(of(1, 0, 0), of(1, 0, flags::PER_THREAD_STREAM));
    }
}
