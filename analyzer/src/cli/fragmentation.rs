//! `fragmentation`: memory that is held and cannot be used.

use std::io::Read;
use std::path::PathBuf;

use trace::{End, Reader};

use super::output;
use crate::Error;
use crate::fragmentation::{COLUMNS, Collector, Report, Size, write_text};
use crate::input::Input;
use crate::selection::Time;

/// Arguments of `fragmentation`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The recording; `-` is standard input
    #[arg(value_name = "FILE")]
    recording: PathBuf,
    /// Show this moment, not the end of each process: seconds since the start (12.5 or 12.5s),
    /// or @ and ns of `CLOCK_MONOTONIC`
    #[arg(long, value_name = "TIME")]
    at: Option<Time>,
    /// Would PyTorch find memory for a tensor of this size then? Bytes, or with a unit: 512MiB,
    /// 1.5GiB
    #[arg(long, value_name = "SIZE")]
    fit: Option<Size>,
    /// Print JSON (docs/fragmentation.md) in place of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let Arguments {
        recording,
        at,
        fit,
        json,
    } = arguments;
    let input = Input::from(recording.as_path());
    let collector = Collector::new(*at, fit.map(|Size(bytes)| bytes));
    let (report, end) = read(input.open()?, collector).map_err(|source| Error::Read {
        input: input.to_string(),
        source,
    })?;
    warn(&report, &end);
    output::print(&report, *json, write_text)
}

fn read(input: impl Read, mut collector: Collector) -> Result<(Report, End), trace::ReadError> {
    let mut reader = Reader::new(input)?.select(COLUMNS);
    for batch in &mut reader {
        collector.batch(&batch?);
    }
    let end = reader.end().cloned().unwrap_or(End::Complete);
    Ok((collector.finish(), end))
}

/// Says on standard error what makes the report doubtful: it may be read by a program.
fn warn(report: &Report, end: &End) {
    output::warn_of_end(report.recording.complete, end);
    if report.recording.lost_anything() {
        eprintln!("warning: the recording lost events: figures may be off (see `recording`)");
    }
}
