//! `report`: sums up a recording.

use std::io::Read;
use std::path::PathBuf;

use trace::{End, Reader};

use super::output;
use crate::Error;
use crate::input::Input;
use crate::report::{COLUMNS, Collector, Report};
use crate::selection::{Selection, Time};
use crate::text;

/// Arguments of `report`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The recording; `-` is standard input
    #[arg(value_name = "FILE")]
    recording: PathBuf,
    /// Print JSON in place of text
    #[arg(long)]
    pub(super) json: bool,
    /// Only calls entered at this time or later: seconds since the start (12.5 or 12.5s), or @
    /// and ns of `CLOCK_MONOTONIC`
    #[arg(long, value_name = "TIME")]
    from: Option<Time>,
    /// Only calls entered before this time
    #[arg(long, value_name = "TIME")]
    to: Option<Time>,
    /// Only this process; may be given more than once
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let report = collect(arguments)?;
    output::print(&report, arguments.json, text::write)
}

/// The report of what the arguments select; warnings go to standard error.
pub(super) fn collect(arguments: &Arguments) -> Result<Report, Error> {
    let Arguments {
        recording,
        json: _,
        from,
        to,
        pid,
    } = arguments;
    let input = Input::from(recording.as_path());
    let selection = Selection {
        from: *from,
        to: *to,
        pids: pid.clone(),
    };
    let (report, end) = read(input.open()?, selection).map_err(|source| Error::Read {
        input: input.to_string(),
        source,
    })?;
    warn(&report, &end);
    Ok(report)
}

fn read(input: impl Read, selection: Selection) -> Result<(Report, End), trace::ReadError> {
    let mut reader = Reader::new(input)?.select(COLUMNS);
    let mut collector = Collector::new(selection);
    for batch in &mut reader {
        collector.batch(&batch?);
    }
    let end = reader.end().cloned().unwrap_or(End::Complete);
    Ok((collector.finish(&end), end))
}

/// Says on standard error what makes the report doubtful: it may be read by a program.
fn warn(report: &Report, end: &End) {
    output::warn_of_end(report.recording.complete, end);
    for pid in &report.window.pids {
        if !report.processes.iter().any(|process| process.pid == *pid) {
            eprintln!("warning: no process {pid} in the recording");
        }
    }
    if report.recording.lost.any() == Some(true) {
        eprintln!("warning: the recording lost events: counts are too low (see `lost`)");
    }
    if report.accounts.iter().any(|account| !account.balanced) {
        eprintln!("warning: the accounts do not balance: calls are missing (see `accounts`)");
    }
}
