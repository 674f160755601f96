//! The clocks of a recording.

use nix::time::{ClockId, clock_gettime};
use trace::fact::Clock;

/// Now, ns of `CLOCK_MONOTONIC`: the clock of the events.
pub(crate) fn monotonic() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// The same moment on three clocks: as near as three reads in a row can be.
pub(super) fn anchor() -> Clock {
    Clock {
        monotonic: monotonic(),
        boottime: read(ClockId::CLOCK_BOOTTIME),
        realtime: read(ClockId::CLOCK_REALTIME),
    }
}

fn read(clock: ClockId) -> u64 {
    // These clocks exist on every Linux that has eBPF; their values are positive.
    clock_gettime(clock).map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        let nanoseconds = u64::try_from(time.tv_nsec()).unwrap_or(0);
        seconds * 1_000_000_000 + nanoseconds
    })
}
