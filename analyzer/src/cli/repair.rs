//! `repair`: makes a truncated recording one that every Arrow tool reads.

use std::fs::{self, OpenOptions};
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;

use trace::{End, Repaired};

use crate::Error;
use crate::input;

/// Arguments of `repair`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// The recording; it stays as it is
    #[arg(value_name = "FILE")]
    recording: PathBuf,
    /// Where to write the repaired one; must not exist
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let Arguments { recording, output } = arguments;
    let input = BufReader::new(input::open(recording)?);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(output)
        .map_err(|source| Error::Create {
            path: output.clone(),
            source,
        })?;
    let repaired = trace::repair(input, BufWriter::new(file)).map_err(|source| {
        // The file is ours, and holds nothing that anyone could use.
        let _ = fs::remove_file(output);
        Error::Repair {
            path: recording.clone(),
            source,
        }
    })?;
    let Repaired {
        end,
        batches,
        rows,
        kept,
        cut,
    } = repaired;
    match end {
        End::Complete => eprintln!("{} is complete: copied as it is", recording.display()),
        End::Truncated { .. } => eprintln!(
            "{}: {end}\nkept {rows} rows in {batches} batches ({kept} bytes), cut {cut} bytes",
            recording.display()
        ),
    }
    Ok(())
}
