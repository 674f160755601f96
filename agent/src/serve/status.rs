//! Whether calls are traced, and if not, why.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::session::SessionError;

/// Shared between the session's thread and those who ask.
#[derive(Debug, Default)]
pub(super) struct Status(Mutex<Tracing>);

/// Whether calls are traced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Tracing {
    /// Not yet.
    #[default]
    Starting,
    /// Yes.
    On,
    /// No: a word for machines, and what to do for people.
    Off(&'static str, String),
}

impl Status {
    /// Calls are traced from now on.
    pub(super) fn turn_on(&self) {
        *self.lock() = Tracing::On;
    }

    /// Calls are not traced any more.
    pub(super) fn turn_off(&self, error: &SessionError) {
        *self.lock() = Tracing::Off(reason(error), error.to_string());
    }

    /// How it is now.
    pub(super) fn now(&self) -> Tracing {
        self.lock().clone()
    }

    /// The value of `cudasnoop_tracing`, and its label.
    pub(super) fn metric(&self) -> (bool, &'static str) {
        match &*self.lock() {
            Tracing::Starting => (false, "starting"),
            Tracing::On => (true, ""),
            Tracing::Off(reason, _) => (false, reason),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tracing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The label of `cudasnoop_tracing`: docs/metrics.md lists them.
const fn reason(error: &SessionError) -> &'static str {
    match error {
        SessionError::Privileges { .. } => "privileges",
        SessionError::Unsupported { .. } | SessionError::KernelTooOld { .. } => "kernel",
        SessionError::Load(_) => "programs",
        SessionError::Attach(_) => "attach",
        SessionError::Command(_)
        | SessionError::Sink(_)
        | SessionError::Counters(_)
        | SessionError::Start(_)
        | SessionError::Panicked(_) => "internal",
    }
}
