//! Frames as text, one after the other: for files, pipes, and terminals that cannot do more.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use super::{
    Reading, Source, State, TopError,
    poll::Poll,
    source::Progress,
    view::{Colours, View},
};
use crate::session::Outcome;

/// How often it is looked whether the source has ended.
const TICK: Duration = Duration::from_millis(50);

/// Prints a frame each interval, and one at the end, until the source or the number of frames
/// ends it.
pub(super) fn run(
    source: Source,
    interval: Duration,
    iterations: Option<u64>,
) -> Result<Option<Outcome>, TopError> {
    let shown = show(&source, interval, iterations);
    let outcome = source.finish(false);
    shown?;
    outcome
}

fn show(source: &Source, interval: Duration, iterations: Option<u64>) -> Result<(), TopError> {
    let poll = Poll::start(source.reader(), interval)?;
    let state = State::new(interval);
    let title = source.title();
    // Of the first reading there are no rates, so it makes no frame.
    let mut before: Option<Reading> = None;
    let mut left = iterations;
    while left != Some(0) {
        let progress = source.progress();
        let reading = match progress {
            Progress::Running => match poll.next(TICK)? {
                Some(reading) => reading?,
                None => continue,
            },
            Progress::Ended => source.reader().read()?,
            Progress::Failed => return Ok(()),
        };
        let has_ended = progress == Progress::Ended;
        if !has_ended && reading.is_starting() {
            continue;
        }
        if has_ended || before.is_some() {
            let view = View {
                title: &title,
                now: Some(&reading),
                before: before.as_ref(),
                note: None,
                colours: Colours::None,
            };
            print(&view.lines(&state))?;
            left = left.map(|left| left - 1);
        }
        if has_ended {
            break;
        }
        before = Some(reading);
    }
    Ok(())
}

fn print(lines: &[String]) -> Result<(), TopError> {
    let mut stdout = io::stdout().lock();
    for line in lines {
        writeln!(stdout, "{line}").map_err(TopError::Stdout)?;
    }
    writeln!(stdout)
        .and_then(|()| stdout.flush())
        .map_err(TopError::Stdout)
}
