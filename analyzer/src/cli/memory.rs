//! `memory`: who holds it.

use super::html::Html;
use super::output;
use super::recordings::Recordings;
use crate::Error;
use crate::html::{self, Page, Supplement};
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
    let mut beside = html
        .is_wanted()
        .then(|| html::Collector::new(selection.clone(), *at));
    let ended = recordings.read(COLUMNS, |batch| {
        collector.batch(batch);
        if let Some(beside) = &mut beside {
            beside.batch(batch);
        }
    })?;
    let report = collector.finish();
    warn(&report, &selection, &ended);
    let Some(beside) = beside else {
        return output::print(&report, *json, write_text);
    };
    let supplement = Supplement {
        notes: output::notes(&ended),
        ..beside.finish()
    };
    html.write(&Page {
        command: "memory",
        report: &report,
        supplement: &supplement,
    })?;
    output::print_json(&report, *json)
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
