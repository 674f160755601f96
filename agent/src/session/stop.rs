//! The request to end the session, from whichever thread.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Set once.
#[derive(Debug, Default)]
pub struct Stop {
    requested: AtomicBool,
    notify: Notify,
    asked: Notify,
}

impl Stop {
    /// Ends the session.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// Asks for the end as SIGTERM does: a command is asked to end, and traced to its end.
    pub fn ask(&self) {
        self.asked.notify_one();
    }

    /// Waits until asked.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Waits for the request.
    pub(super) async fn requested(&self) {
        while !self.requested.load(Ordering::Acquire) {
            self.notify.notified().await;
        }
    }
}
