//! `fragmentation`: memory that is held and cannot be used.

use super::html::Html;
use super::output;
use super::recordings::Recordings;
use crate::Error;
use crate::fragmentation::{COLUMNS, Collector, Report, Size, write_text};
use crate::input::Ended;
use crate::selection::{Selection, Time};

/// Arguments of `fragmentation`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    recordings: Recordings,
    /// Show this moment, not the end of each process: seconds since the start (12.5 or 12.5s),
    /// or @ and ns of `CLOCK_MONOTONIC`
    #[arg(long, value_name = "TIME", conflicts_with = "to")]
    at: Option<Time>,
    /// Would PyTorch find memory for a tensor of this size then? Bytes, or with a unit: 512MiB,
    /// 1.5GiB
    #[arg(long, value_name = "SIZE")]
    fit: Option<Size>,
    /// Print JSON (docs/fragmentation.md) in place of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: Html,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let Arguments {
        recordings,
        at,
        fit,
        json,
        html,
    } = arguments;
    let selection = recordings.selection()?;
    let mut collector = Collector::new(*at, fit.map(|Size(bytes)| bytes)).select(selection.clone());
    html.check(*json)?;
    let part = (&selection, *at);
    let (ended, supplement) =
        html.read(recordings, COLUMNS, part, |batch| collector.batch(batch))?;
    let report = collector.finish();
    warn(&report, &selection, &ended);
    html.print(
        "fragmentation",
        &report,
        supplement.as_ref(),
        *json,
        write_text,
    )
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
