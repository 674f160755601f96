//! `launches`: kernels and graphs by how often they are launched.

use std::io::{self, BufWriter, Write};

use super::report::{self, Arguments};
use crate::Error;
use crate::launches::{self, LaunchReport};
use crate::text::Colour;

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let report = LaunchReport::of(report::collect(arguments)?);
    let mut output = BufWriter::new(io::stdout().lock());
    if arguments.json {
        serde_json::to_writer_pretty(&mut output, &report)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(output))
    } else {
        launches::write(&report, Colour::of_stdout(), &mut output)
    }
    .and_then(|()| output.flush())
    .map_err(Error::Output)
}
