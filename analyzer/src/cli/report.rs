//! `report`: sums up a recording.

use super::output;
use super::recordings::Recordings;
use crate::Error;
use crate::input::Ended;
use crate::report::{COLUMNS, Collector, Report};
use crate::selection::Selection;
use crate::text;

/// Arguments of `report`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    recordings: Recordings,
    /// Print JSON in place of text
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let report = collect(arguments)?;
    output::print(&report, arguments.json, text::write)
}

/// The report of what the arguments select; warnings go to standard error.
pub(super) fn collect(arguments: &Arguments) -> Result<Report, Error> {
    let Arguments {
        recordings,
        json: _,
    } = arguments;
    let selection = recordings.selection();
    let recording = recordings.open(COLUMNS)?;
    let (collector, ended) = Collector::new(selection.clone()).read(recording)?;
    let report = collector.finish(&ended.end);
    warn(&report, &selection, &ended);
    Ok(report)
}

/// Says on standard error what makes the report doubtful: it may be read by a program.
fn warn(report: &Report, selection: &Selection, ended: &Ended) {
    output::warn_of(report.recording.complete, ended);
    output::warn_of_absent(selection, |pid| {
        report.processes.iter().any(|process| process.pid == pid)
    });
    if report.recording.lost.any() == Some(true) {
        eprintln!("warning: the recording lost events: counts are too low (see `lost`)");
    }
    if report.accounts.iter().any(|account| !account.balanced) {
        eprintln!("warning: the accounts do not balance: calls are missing (see `accounts`)");
    }
}
