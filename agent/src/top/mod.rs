//! `cudasnoop top`: who holds the memory, and what happens how often, on a terminal.
//!
//! A [`Source`] is asked for [`Reading`]s, one each interval; two in a row make rates. [`State`] is
//! what the person at the keys wants to see; `view` draws both. [`screen`] and [`batch`] are the
//! two ways to run it: neither knows where readings come from, nor what is in them.

mod batch;
mod list;
mod output;
mod poll;
mod reading;
mod screen;
mod source;
mod state;
mod view;

use std::{io, path::PathBuf, time::Duration};

use thiserror::Error;

use crate::{
    log::Hold,
    session::{Options, Outcome, SessionError},
};
use output::Output;
use reading::Reading;
use source::Source;
pub use source::{Address, ServerError};
use state::State;

/// How to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is looked at.
    pub subject: Subject,
    /// Time between readings.
    pub interval: Duration,
    /// Print frames as text, in place of a screen.
    pub batch: bool,
    /// End after so many readings.
    pub iterations: Option<u64>,
    /// Where the command's output goes; `None`: it is kept, and shown at the end.
    pub output: Option<PathBuf>,
}

/// What is looked at.
#[derive(Clone, Debug)]
pub enum Subject {
    /// What a session of our own traces.
    Session(Box<Options>),
    /// What `cudasnoop serve` traces, whose API is there.
    Server(Address),
}

/// Why it could not be shown.
#[derive(Debug, Error)]
pub enum TopError {
    /// There is no screen to draw on, or no keyboard.
    #[error(
        "standard {0} is no terminal that can be drawn on\nhint: `cudasnoop top --batch` prints \
         the same as text, `cudasnoop top --batch --iterations 1` once"
    )]
    NoTerminal(&'static str),
    /// The terminal does not do what is asked of it.
    #[error("drawing on the terminal: {0}")]
    Terminal(#[source] io::Error),
    /// The server does not answer as it should.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Tracing failed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A thread, or the handling of signals, could not be started.
    #[error("starting to look: {0}")]
    Start(#[source] io::Error),
    /// A thread died.
    #[error("the {0} thread panicked: this is a bug, please report it")]
    Panicked(&'static str),
    /// What was read could not be understood.
    #[error("reading what is known of memory: {0}: this is a bug, please report it")]
    Memory(#[source] serde_json::Error),
    /// The command's output has no place.
    #[error("keeping the command's output in {place}: {source}\nhint: --output names another file")]
    Output {
        /// The file.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// A frame could not be printed.
    #[error("writing to stdout: {0}")]
    Stdout(#[source] io::Error),
}

/// Shows until told to end, or until there is nothing more to show. The session's outcome, if
/// it got to its end.
pub fn run(settings: Settings) -> Result<Option<Outcome>, TopError> {
    let Settings {
        subject,
        interval,
        batch,
        iterations,
        output,
    } = settings;
    if !batch {
        screen::check()?;
    }
    let mut output = Output::for_command_of(&subject, output)?;
    let hold = (!batch).then(Hold::begin);
    let source = Source::start(subject, output.file())?;
    let outcome = match hold {
        None => batch::run(source, interval, iterations)?,
        Some(hold) => screen::run(source, hold, interval, iterations)?,
    };
    output.show()?;
    Ok(outcome)
}
