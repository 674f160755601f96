//! `memory`: who holds it.

use super::html::Html;
use super::output;
use super::recordings::Recordings;
use crate::Error;
use crate::input::Ended;
use crate::memory::{COLUMNS, Collector, Report, write_text};
use crate::selection::{Selection, Time};

/// Arguments of `memory`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    recordings: Recordings,
    /// Show this moment, not the end of each process: seconds since the start (12.5 or 12.5s),
    /// or @ and ns of `CLOCK_MONOTONIC`
    #[arg(long, value_name = "TIME", conflicts_with = "to")]
    at: Option<Time>,
    /// Show how live memory went over time, too
    #[arg(long)]
    timeline: bool,
    /// Print JSON (docs/memory.md) in place of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: Html,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let Arguments {
        recordings,
        at,
        timeline,
        json,
        html,
    } = arguments;
    let selection = recordings.selection()?;
    let mut collector = Collector::new(*at, *timeline).select(selection.clone());
    html.check(*json)?;
    let part = (&selection, *at);
    let (ended, supplement) =
        html.read(recordings, COLUMNS, part, |batch| collector.batch(batch))?;
    let report = collector.finish();
    warn(&report, &selection, &ended);
    html.print("memory", &report, supplement.as_ref(), *json, write_text)
}

/// Says on standard error what makes the report doubtful: it may be read by a program.
fn warn(report: &Report, selection: &Selection, ended: &Ended) {
    output::warn_of(report.recording.complete, ended);
    output::warn_of_absent(selection, |pid| {
        report.processes.iter().any(|process| process.pid == pid)
    });
    if report.recording.lost_anything() {
        eprintln!("warning: the recording lost events: figures may be off (see `recording`)");
    }
}
