//! A session of our own, in a thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{Progress, Reading, TopError};
use crate::{
    serve::Figures,
    session::{self, Options, Outcome, SessionError, Stop, Target, Vitals},
};

/// How often the kernel's side is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// A running session.
#[derive(Debug)]
pub(in crate::top) struct Local {
    figures: Figures,
    thread: JoinHandle<Result<Outcome, SessionError>>,
    /// Set before the thread ends, if all went well.
    has_succeeded: Arc<AtomicBool>,
    stop: Arc<Stop>,
    is_command: bool,
    title: String,
}

/// Reads what the session has found out.
#[derive(Debug)]
pub(in crate::top) struct Reader(Figures);

impl Local {
    pub(super) fn start(options: Options) -> Result<Self, TopError> {
        let figures = Figures::new(Arc::clone(&options.switch), Arc::clone(&options.status));
        let stop = Arc::clone(&options.stop);
        let is_command = matches!(options.target, Target::Command(_));
        let title = title(&options.target);
        let has_succeeded = Arc::<AtomicBool>::default();
        let thread = thread::Builder::new()
            .name("session".to_owned())
            .spawn({
                let figures = figures.clone();
                let has_succeeded = Arc::clone(&has_succeeded);
                move || {
                    let outcome = trace(&options, &figures)?;
                    has_succeeded.store(true, Ordering::Release);
                    Ok(outcome)
                }
            })
            .map_err(TopError::Start)?;
        Ok(Self {
            figures,
            thread,
            has_succeeded,
            stop,
            is_command,
            title,
        })
    }

    pub(super) fn reader(&self) -> Reader {
        Reader(self.figures.clone())
    }

    pub(super) fn title(&self) -> &str {
        &self.title
    }

    pub(super) fn progress(&self) -> Progress {
        if !self.thread.is_finished() {
            Progress::Running
        } else if self.has_succeeded.load(Ordering::Acquire) {
            Progress::Ended
        } else {
            Progress::Failed
        }
    }

    pub(super) fn finish(self, is_told: bool) -> Result<Outcome, TopError> {
        if self.is_command && !self.thread.is_finished() {
            tracing::info!("the command is asked to end (SIGTERM); Ctrl-C does not wait for it");
        }
        // To be asked twice means not to wait for the command.
        if !is_told {
            self.stop.ask();
        }
        let outcome = self
            .thread
            .join()
            .map_err(|_| TopError::Panicked("session"))?;
        Ok(outcome?)
    }
}

impl Reader {
    pub(super) fn read(&self) -> Result<Reading, TopError> {
        // The same document that a server would send.
        let memory = serde_json::to_value(self.0.memory()).and_then(serde_json::from_value);
        let memory = memory.map_err(TopError::Memory)?;
        Ok(Reading::new(&self.0.metrics(), memory))
    }
}

fn trace(options: &Options, figures: &Figures) -> Result<Outcome, SessionError> {
    let mut last = Vitals::default();
    let mut look = |vitals: &Vitals| {
        figures.observe(vitals);
        last.clone_from(vitals);
    };
    let observer = Some((LOOK, &mut look as &mut dyn FnMut(&Vitals)));
    let outcome = session::run(options, |_| Ok(figures.sink()), observer)?;
    // What was lost after the last look.
    figures.observe(&Vitals {
        totals: outcome.totals.clone(),
        ring_fill: 0.0,
        ..last
    });
    Ok(outcome)
}

fn title(target: &Target) -> String {
    match target {
        Target::Command(words) => {
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        }
        Target::Pids(pids) => {
            let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
            format!("-p {}", pids.join(" -p "))
        }
        Target::Matching(_) => "chosen processes".to_owned(),
    }
}
