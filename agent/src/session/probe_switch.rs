//! Whether all probes are to be off: told from whichever thread, a signal included.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// On at first.
#[derive(Debug, Default)]
pub struct ProbeSwitch {
    off: AtomicBool,
    notify: Notify,
}

impl ProbeSwitch {
    /// Wants all probes off, or on.
    pub fn turn(&self, off: bool) {
        self.off.store(off, Ordering::Release);
        self.notify.notify_one();
    }

    /// Wants the other state.
    pub(super) fn toggle(&self) {
        self.off.fetch_xor(true, Ordering::AcqRel);
        self.notify.notify_one();
    }

    /// Whether all probes are to be off.
    pub fn is_off(&self) -> bool {
        self.off.load(Ordering::Acquire)
    }

    /// Waits until something is wanted.
    pub(super) async fn told(&self) {
        self.notify.notified().await;
    }
}
