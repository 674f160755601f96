//! What the commands have in common when they print.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use trace::End;

use crate::Error;
use crate::text::Colour;

/// Prints a report on standard output: as JSON, or as the text that `write` makes of it.
pub(super) fn print<T: Serialize>(
    report: &T,
    json: bool,
    write: impl FnOnce(&T, Colour, &mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    let mut output = BufWriter::new(io::stdout().lock());
    if json {
        serde_json::to_writer_pretty(&mut output, report)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(output))
    } else {
        write(report, Colour::of_stdout(), &mut output)
    }
    .and_then(|()| output.flush())
    .map_err(Error::Output)
}

/// Says on standard error that the end of a recording is missing, if so: what is on standard
/// output may be read by a program.
pub(super) fn warn_of_end(complete: bool, end: &End) {
    match end {
        End::Complete if complete => {}
        End::Complete => {
            eprintln!("warning: the recording is incomplete: its last rows are missing");
        }
        End::Truncated { .. } => {
            eprintln!("warning: the recording is {end}; this is the report of what came before");
        }
    }
}
