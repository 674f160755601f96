//! `report`: sums up a recording.

use trace::EventBatch;

use super::html::Html;
use super::output;
use super::recordings::Recordings;
use crate::Error;
use crate::hist;
use crate::html::{self, Supplement};
use crate::input::Ended;
use crate::launches;
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

/// Arguments of `report` itself: the others that take [`Arguments`] have no page.
#[derive(Clone, Debug, clap::Args)]
pub struct WithPage {
    #[command(flatten)]
    arguments: Arguments,
    #[command(flatten)]
    html: Html,
}

pub(super) fn run(WithPage { arguments, html }: &WithPage) -> Result<(), Error> {
    html.check(arguments.json)?;
    let selection = arguments.recordings.selection()?;
    let mut beside = html.is_wanted().then(|| {
        let memory = html::Collector::new(selection.clone(), None);
        (memory, hist::Collector::new(selection, None, &[]))
    });
    let (report, ended) = collect_beside(arguments, |batch| {
        if let Some((memory, hist)) = &mut beside {
            memory.batch(batch);
            hist.batch(batch);
        }
    })?;
    let supplement = beside.map(|(memory, hist)| Supplement {
        hist: Some(hist.finish()),
        threads: Some(launches::threads(report.host.threads.clone())),
        ..memory.finish(&ended)
    });
    let supplement = supplement.as_ref();
    html.print("report", &report, supplement, arguments.json, text::write)
}

/// The report of what the arguments select; warnings go to standard error.
pub(super) fn collect(arguments: &Arguments) -> Result<Report, Error> {
    let (report, _) = collect_beside(arguments, |_| {})?;
    Ok(report)
}

/// The same, while `also` takes the batches too.
fn collect_beside(
    arguments: &Arguments,
    also: impl FnMut(&EventBatch),
) -> Result<(Report, Ended), Error> {
    let Arguments {
        recordings,
        json: _,
    } = arguments;
    let selection = recordings.selection()?;
    let recording = recordings.open(COLUMNS)?;
    let (mut collector, ended) = Collector::new(selection.clone()).read(recording, also)?;
    if ended.is_live {
        collector.goes_on();
    }
    let report = collector.finish(&ended.end);
    warn(&report, &selection, &ended);
    Ok((report, ended))
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
