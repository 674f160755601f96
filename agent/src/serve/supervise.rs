//! The session's thread: traces, and if that cannot be, tries again.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    },
    time::{Duration, Instant},
};

use agent_common::Family;

use super::{live::Live, status::Status};
use crate::{
    discover::ProcessError,
    session::{self, AttachFailure, Options, Outcome, SessionError, Stop, Target, Vitals},
    sink::{Apart, Fan, Filter, Lines, Rolling, RollingOptions, Sink, SinkError, Sources},
};

/// The first pause before another attempt, and the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// A session that went so long was no failed attempt.
const WORKED: Duration = Duration::from_mins(1);
/// How often the kernel's side is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Ends whichever session is running.
#[derive(Debug, Default)]
pub(super) struct Ending(Mutex<Arc<Stop>>);

impl Ending {
    pub(super) fn request(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .request();
    }

    fn next(&self) -> Arc<Stop> {
        let stop = Arc::<Stop>::default();
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.clone_from(&stop);
        stop
    }
}

/// What a session is run with.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) options: Options,
    /// Give up at the first failure.
    pub(super) strict: bool,
    /// Families that are printed on stdout.
    pub(super) log_events: Vec<Family>,
    /// A recording beside the metrics.
    pub(super) rolling: Option<RollingOptions>,
    pub(super) live: Arc<Live>,
    pub(super) status: Arc<Status>,
    pub(super) ending: Arc<Ending>,
}

impl Supervisor {
    /// Traces until there is nothing more to trace; `None` when told to end before that, by
    /// `told` going away.
    pub(super) fn run(self, told: &Receiver<()>) -> Result<Option<Outcome>, SessionError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let stop = self.ending.next();
            if matches!(told.try_recv(), Err(TryRecvError::Disconnected)) {
                return Ok(None);
            }
            let began = Instant::now();
            let error = match self.session(stop) {
                Ok(outcome) => return Ok(Some(outcome)),
                Err(error) if self.strict || !self.may_pass(&error) => return Err(error),
                Err(error) => error,
            };
            self.status.turn_off(&error);
            if began.elapsed() >= WORKED {
                pause = FIRST_PAUSE;
            }
            tracing::warn!(
                "nothing is traced; trying again in {} s: {error}",
                pause.as_secs()
            );
            match told.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
            pause = longer(pause);
        }
    }

    fn session(&self, stop: Arc<Stop>) -> Result<Outcome, SessionError> {
        let options = Options {
            stop,
            ..self.options.clone()
        };
        let mut look = |vitals: &Vitals| self.live.observe(vitals);
        session::run(
            &options,
            |sources| self.sink(sources),
            Some((LOOK, &mut look)),
        )
    }

    fn sink(&self, sources: Sources) -> Result<Box<dyn Sink>, SinkError> {
        let mut others: Vec<(&'static str, Box<dyn Sink>)> = Vec::new();
        if !self.log_events.is_empty() {
            const NAME: &str = "--log-events";
            let filter = Filter {
                families: self.log_events.clone(),
                ..Filter::default()
            };
            let lines = Lines::new(filter, false, (sources.clock)());
            others.push((NAME, Box::new(Apart::new(NAME, Box::new(lines))?)));
        }
        if let Some(rolling) = &self.rolling {
            let rolling = Rolling::create(rolling.clone(), sources)?;
            self.live.rolls(rolling.monitor());
            others.push(("--rolling", Box::new(rolling)));
        }
        Ok(Box::new(Fan::new(Box::new(self.live.sink()), others)))
    }

    /// Whether another attempt may help. A command is started once; a process that was named and
    /// is not there does not come back.
    fn may_pass(&self, error: &SessionError) -> bool {
        match (&self.options.target, error) {
            (Target::Command(_), _) | (_, SessionError::Command(_)) => false,
            (Target::Pids(_), SessionError::Attach(AttachFailure::Process(error))) => !matches!(
                error,
                ProcessError::NoSuchProcess { .. }
                    | ProcessError::Ended { .. }
                    | ProcessError::Thread { .. }
            ),
            (Target::Pids(_) | Target::Matching(_), _) => true,
        }
    }
}

fn longer(pause: Duration) -> Duration {
    pause.saturating_mul(2).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_minute() {
        let pauses = std::iter::successors(Some(FIRST_PAUSE), |pause| Some(longer(*pause)));
        let seconds: Vec<u64> = pauses.take(8).map(|pause| pause.as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
