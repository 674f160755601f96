//! The request to end the session, from whichever thread.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Set once.
#[derive(Debug, Default)]
pub struct Stop {
    requested: AtomicBool,
    notify: Notify,
}

impl Stop {
    /// Ends the session.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Waits for the request.
    pub(super) async fn requested(&self) {
        while !self.requested.load(Ordering::Acquire) {
            self.notify.notified().await;
        }
    }
}
