//! What the commands have in common when they print.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use crate::Error;
use crate::input::{Cut, Ended};
use crate::selection::Selection;
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

/// Prints a report's JSON on standard output, where that is asked for.
pub(super) fn print_json<T: Serialize>(report: &T, json: bool) -> Result<(), Error> {
    if json {
        print(report, json, |_, _, _| Ok(()))?;
    }
    Ok(())
}

/// Says on standard error what else there is to know of what was read: that the end of a
/// recording is missing, above all. What is on standard output may be read by a program.
pub(super) fn warn_of(complete: bool, ended: &Ended) {
    let Ended {
        end: _,
        cut,
        notes,
        is_live,
    } = ended;
    for note in notes {
        eprintln!("note: {note}");
    }
    match &cut[..] {
        // That it is being written is among the notes.
        [] if complete || *is_live => {}
        [] => eprintln!("warning: the recording is incomplete: its last rows are missing"),
        [Cut { input: _, end }] if notes.is_empty() => {
            eprintln!("warning: the recording is {end}; this is the report of what came before");
        }
        several => {
            for Cut { input, end } in several {
                eprintln!("warning: {input} is {end}; what came after is missing");
            }
        }
    }
}

/// Says which of the processes that were asked for are not there.
pub(super) fn warn_of_absent(selection: &Selection, is_there: impl Fn(u32) -> bool) {
    for pid in &selection.pids {
        if !is_there(*pid) {
            eprintln!("warning: no process {pid} in the recording");
        }
    }
}
