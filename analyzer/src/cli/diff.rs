//! `diff`: what two recordings differ in.

use std::path::{Path, PathBuf};

use super::output;
use super::recordings::{self, Part};
use crate::Error;
use crate::diff::{COLUMNS, Collected, Collector, Report, write_text};

/// Arguments of `diff`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The first recording: a file, a folder of a rolling recording, or - for standard input
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The one that is compared with it
    #[arg(value_name = "B")]
    b: PathBuf,
    #[command(flatten)]
    part: Part,
    /// Print JSON (docs/diff.md) in place of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let Arguments { a, b, part, json } = arguments;
    let report = Report::new(read(a, part)?, read(b, part)?);
    for (name, side) in [("A", &report.a), ("B", &report.b)] {
        if !side.complete {
            eprintln!("warning: {name} is incomplete: its last rows are missing");
        }
        if side.lossy == Some(true) {
            eprintln!("warning: {name} lost events: its counts are too low");
        }
    }
    output::print(&report, *json, write_text)
}

fn read(path: &Path, part: &Part) -> Result<Collected, Error> {
    let paths = [path.to_owned()];
    let mut collector = Collector::new(part.selection(&paths)?);
    let ended = recordings::read(&paths, COLUMNS, |batch| collector.batch(batch))?;
    output::warn_of(true, &ended);
    Ok(collector.finish())
}
