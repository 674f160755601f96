//! Whether calls are traced, and if not, why.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    doctor::Locked,
    session::{ProbeSwitch, SessionError},
};

/// Shared between the session's thread and those who ask.
#[derive(Debug, Default)]
pub(super) struct Status {
    tracing: Mutex<Tracing>,
    /// Takes probes off by request.
    pub(super) switch: Arc<ProbeSwitch>,
}

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
    pub(super) fn new(switch: Arc<ProbeSwitch>) -> Self {
        Self {
            switch,
            ..Self::default()
        }
    }

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
            Tracing::On if self.switch.is_off() => (false, "switched_off"),
            Tracing::Starting => (false, "starting"),
            Tracing::On => (true, ""),
            Tracing::Off(reason, _) => (false, reason),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tracing> {
        self.tracing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The label of `cudasnoop_tracing`: docs/metrics.md lists them.
fn reason(error: &SessionError) -> &'static str {
    match error {
        SessionError::Locked(Locked(checks)) => {
            checks.first().map_or("locked", |check| check.id.name())
        }
        SessionError::Unsupported { .. } => "kernel",
        SessionError::Load(_) => "programs",
        SessionError::Attach(_) => "attach",
        SessionError::CommandNotFollowed
        | SessionError::Command(_)
        | SessionError::Sink(_)
        | SessionError::Counters(_)
        | SessionError::Start(_)
        | SessionError::Panicked(_) => "internal",
    }
}
