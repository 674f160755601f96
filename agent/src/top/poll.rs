//! Reads at intervals, in a thread of its own, so that keys are answered whatever a server does.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel},
    thread,
    time::Duration,
};

use super::{Reading, TopError, source::Reader};

/// Asks for readings, and gets them.
#[derive(Debug)]
pub(super) struct Poll {
    orders: Sender<Order>,
    readings: Receiver<Result<Reading, TopError>>,
}

/// What the thread is told. That nobody tells it any more ends it.
#[derive(Debug)]
enum Order {
    /// Read now.
    Read,
    /// Another interval.
    Interval(Duration),
}

impl Poll {
    /// Reads at once, and then each `interval`.
    pub(super) fn start(mut reader: Reader, interval: Duration) -> Result<Self, TopError> {
        let (orders, told) = channel();
        // One that nobody takes is waited for: no reading is older than it must be.
        let (sender, readings) = sync_channel(0);
        thread::Builder::new()
            .name("poll".to_owned())
            .spawn(move || {
                let mut interval = interval;
                loop {
                    if sender.send(reader.read()).is_err() {
                        return;
                    }
                    loop {
                        match told.recv_timeout(interval) {
                            Ok(Order::Interval(other)) => interval = other,
                            Ok(Order::Read) | Err(RecvTimeoutError::Timeout) => break,
                            Err(RecvTimeoutError::Disconnected) => return,
                        }
                    }
                }
            })
            .map_err(TopError::Start)?;
        Ok(Self { orders, readings })
    }

    /// The next reading, if it comes within `patience`.
    pub(super) fn next(
        &self,
        patience: Duration,
    ) -> Result<Option<Result<Reading, TopError>>, TopError> {
        match self.readings.recv_timeout(patience) {
            Ok(reading) => Ok(Some(reading)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(TopError::Panicked("poll")),
        }
    }

    /// Wants one now.
    pub(super) fn ask(&self) {
        // Should the thread have gone, `next` says so.
        let _ = self.orders.send(Order::Read);
    }

    /// Wants one each `interval` from now on.
    pub(super) fn every(&self, interval: Duration) {
        let _ = self.orders.send(Order::Interval(interval));
    }
}
