//! The terminal: draws, listens to keys, and is left as it was found, whatever happens.

use std::{
    env,
    io::{self, IsTerminal as _},
    os::fd::AsFd as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};

use super::{
    Reading, Source, State, TopError,
    poll::Poll,
    source::Progress,
    state::Asked,
    view::{Colours, View},
};
use crate::{log::Hold, session::Outcome};

/// How long a key waits at most.
const TICK: Duration = Duration::from_millis(50);

/// Whether there is a screen, and a keyboard.
pub(super) fn check() -> Result<(), TopError> {
    let is_dumb = env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if !io::stdout().is_terminal() || is_dumb {
        Err(TopError::NoTerminal("output"))
    } else if !io::stdin().is_terminal() {
        Err(TopError::NoTerminal("input"))
    } else {
        Ok(())
    }
}

/// Shows `source` until a key, a signal or the number of readings ends it.
pub(super) fn run(
    source: Source,
    hold: Hold,
    interval: Duration,
    iterations: Option<u64>,
) -> Result<Option<Outcome>, TopError> {
    let signals = Signals::watch()?;
    let poll = Poll::start(source.reader(), interval)?;
    let (shown, restored) = {
        // A panic restores the terminal, too: the hook of ratatui sees to that.
        let mut terminal = ratatui::try_init().map_err(TopError::Terminal)?;
        let shown = Screen {
            source: &source,
            poll: &poll,
            log: &hold,
            signals: &signals,
            state: State::new(interval),
            left: iterations,
            latest: Pair::default(),
            shown: Pair::default(),
            problem: None,
            has_ended: false,
        }
        .run(&mut terminal);
        // What is traced comes to its end even where the terminal is gone.
        (shown, ratatui::try_restore())
    };
    // Only now is there a place for them.
    drop(hold);
    let outcome = source.finish(signals.reached_the_session());
    shown?;
    restored.map_err(TopError::Terminal)?;
    outcome
}

/// Signals that ask for the end. SIGHUP ends the program at once: there is no terminal any more that
/// could be left as it was found.
struct Signals {
    /// Those that a session of our own listens to, too.
    shared: Arc<AtomicBool>,
    others: Arc<AtomicBool>,
}

impl Signals {
    fn watch() -> Result<Self, TopError> {
        let signals = Self {
            shared: Arc::default(),
            others: Arc::default(),
        };
        for (signal, flag) in [
            (SIGINT, &signals.shared),
            (SIGTERM, &signals.shared),
            (SIGQUIT, &signals.others),
        ] {
            signal_hook::flag::register(signal, Arc::clone(flag)).map_err(TopError::Start)?;
        }
        Ok(signals)
    }

    fn came(&self) -> bool {
        self.reached_the_session() || self.others.load(Ordering::Relaxed)
    }

    fn reached_the_session(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }
}

/// Two readings in a row.
#[derive(Clone, Debug, Default)]
struct Pair {
    now: Option<Reading>,
    before: Option<Reading>,
}

impl Pair {
    fn take(&mut self, reading: Reading) {
        self.before = self.now.replace(reading);
    }
}

/// Waits for a key; says whether the terminal is still there. From one that is gone, crossterm reads
/// nothing for ever, and does not come back.
fn is_there(patience: Duration) -> Result<bool, TopError> {
    let stdin = io::stdin();
    let mut files = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
    match poll(&mut files, patience) {
        // A signal: it is looked at next.
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(TopError::Terminal(error.into())),
    }
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    let [stdin] = files;
    Ok(stdin.revents().is_none_or(|seen| !seen.intersects(gone)))
}

struct Screen<'a> {
    source: &'a Source,
    poll: &'a Poll,
    log: &'a Hold,
    signals: &'a Signals,
    state: State,
    /// Readings that are still to be shown.
    left: Option<u64>,
    latest: Pair,
    /// The same, but while paused.
    shown: Pair,
    /// Why there is nothing newer.
    problem: Option<String>,
    has_ended: bool,
}

impl Screen<'_> {
    fn run(mut self, terminal: &mut DefaultTerminal) -> Result<(), TopError> {
        let colours = Colours::of_terminal();
        let title = self.source.title();
        loop {
            match self.source.progress() {
                Progress::Running => self.take_readings()?,
                Progress::Ended if self.has_ended => {}
                Progress::Ended => {
                    self.has_ended = true;
                    self.latest.take(self.source.reader().read()?);
                    self.shown.clone_from(&self.latest);
                }
                Progress::Failed => return Ok(()),
            }
            let note = self.note();
            let (shown, state) = (&self.shown, &mut self.state);
            let draw = |frame: &mut ratatui::Frame<'_>| {
                let view = View {
                    title: &title,
                    now: shown.now.as_ref(),
                    before: shown.before.as_ref(),
                    note: note.as_deref(),
                    colours,
                };
                view.draw(state, frame.area(), frame.buffer_mut());
            };
            terminal.draw(draw).map_err(TopError::Terminal)?;
            if self.left == Some(0) || self.signals.came() || self.keys()? {
                return Ok(());
            }
        }
    }

    /// Whether a key ends it. Waits for one, or for a change of size, for a moment.
    fn keys(&mut self) -> Result<bool, TopError> {
        if !is_there(TICK)? {
            return Ok(true);
        }
        while event::poll(Duration::ZERO).map_err(TopError::Terminal)? {
            match event::read().map_err(TopError::Terminal)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    match self.state.press(key) {
                        Asked::Nothing => {}
                        Asked::Interval => self.poll.every(self.state.interval),
                        Asked::Reading => self.poll.ask(),
                        Asked::End => return Ok(true),
                    }
                }
                // It is drawn anew at once.
                Event::Key(_)
                | Event::Resize(..)
                | Event::FocusGained
                | Event::FocusLost
                | Event::Mouse(_)
                | Event::Paste(_) => {}
            }
        }
        Ok(false)
    }

    fn take_readings(&mut self) -> Result<(), TopError> {
        while let Some(reading) = self.poll.next(Duration::ZERO)? {
            match reading {
                Ok(reading) => {
                    self.latest.take(reading);
                    if !self.state.is_paused {
                        self.shown.clone_from(&self.latest);
                    }
                    self.problem = None;
                    self.left = self.left.map(|left| left.saturating_sub(1));
                }
                // A server that never answered is no server.
                Err(error) if self.latest.now.is_none() => return Err(error),
                Err(error) => self.problem = Some(error.to_string()),
            }
        }
        Ok(())
    }

    /// What is to be said beside the figures.
    fn note(&self) -> Option<String> {
        if self.has_ended {
            return Some("what was traced has ended; q quits".to_owned());
        }
        let problem = self.problem.clone();
        problem.or_else(|| self.log.last_warning())
    }
}
