//! `hist`: histograms.

use std::fs::OpenOptions;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use super::output;
use super::recordings::Recordings;
use crate::Error;
use crate::hist::{By, COLUMNS, Collector, Quantity, Report, write_log, write_text};

/// Arguments of `hist`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    recordings: Recordings,
    /// One histogram for each of these
    #[arg(long, value_enum, value_name = "WHAT", hide_possible_values = false)]
    by: Option<By>,
    /// Only this quantity; may be given more than once
    #[arg(long, value_enum, value_name = "QUANTITY")]
    of: Vec<Quantity>,
    /// Write the histograms to this file, too, as a log that `HdrHistogram`'s tools read; it
    /// must not exist
    #[arg(long, value_name = "FILE")]
    hdr_log: Option<PathBuf>,
    /// Print JSON (docs/hist.md) in place of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let Arguments {
        recordings,
        by,
        of,
        hdr_log,
        json,
    } = arguments;
    let selection = recordings.selection()?;
    let mut collector = Collector::new(selection, *by, of);
    let ended = recordings.read(COLUMNS, |batch| collector.batch(batch))?;
    let report = collector.finish();
    output::warn_of(report.recording.complete, &ended);
    if report.recording.is_lossy() == Some(true) {
        eprintln!("warning: the recording lost events: counts are too low");
    }
    if let Some(path) = hdr_log {
        log(&report, path)?;
    }
    output::print(&report, *json, write_text)
}

fn log(report: &Report, path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Create {
        path: path.to_owned(),
        source,
    };
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).open(path);
    write_log(report, BufWriter::new(file.map_err(failed)?)).map_err(failed)?;
    let left_out = report.histograms.iter();
    let left_out: u64 = left_out.map(|measured| measured.distribution.over).sum();
    if left_out > 0 {
        eprintln!("warning: {left_out} values of 2^63 and more are not in the log");
    }
    Ok(())
}
