//! Threads that go before the traced program's: where those are more than the processors, the
//! ring fills and libraries stay without probes while ours wait for their turn.
//!
//! All that a recording needs are such threads, and not the one alone that empties the ring: it shares
//! the heap with the others and the kernel's lock of our address space, and whoever holds one of these and
//! gets no processor keeps it waiting. (8 threads in each of 4 processes at full speed on 2 processors,
//! beside 4 busy loops, Linux 6.18: in 25 recordings, the drain stood still for more than 25 ms 21 times where
//! all had the same priority, 1 and 3 times as it is.)

use std::{
    io,
    thread::{self, JoinHandle},
};

/// How much a thread goes before others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    /// It empties the ring.
    First,
    /// The one that does may have to wait for it.
    Next,
}

impl Turn {
    const fn niceness(self) -> libc::c_int {
        match self {
            Self::First => -15,
            Self::Next => -10,
        }
    }
}

/// Starts a thread that goes before others, where that is allowed (`CAP_SYS_NICE`).
pub(crate) fn spawn<T: Send + 'static>(
    turn: Turn,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        take(turn);
        work()
    })
}

fn take(turn: Turn) {
    // SAFETY: no memory is passed. 0 stands for the calling thread alone, as priorities are one
    // thread's on Linux (setpriority(2)).
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, turn.niceness()) };
    if result != 0 {
        let error = io::Error::last_os_error();
        tracing::debug!("a thread runs at the usual priority: {error}");
    }
}
