//! `oom`: why PyTorch ran out of memory.

use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use crate::Error;
use crate::input::Input;
use crate::oom::{Collector, write_text};

use super::{output, snapshot};

/// A longer line is taken in parts.
const LINE: u64 = 1 << 20;

/// Arguments of `oom`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Logs with PyTorch's messages; `-` is standard input
    #[arg(value_name = "LOG", required_unless_present_any = ["recording", "snapshot"])]
    logs: Vec<PathBuf>,
    /// A recording of the same run; without a log, what ran out of memory in it
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// A memory snapshot of the same run, best of the moment itself
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Print JSON (docs/oom.md) in place of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let Arguments {
        logs,
        recording,
        snapshot,
        json,
    } = arguments;
    let mut collector = Collector::default();
    for log in logs {
        let input = Input::from(log.as_path());
        let name = input.to_string();
        collector.log(&name);
        lines(input.open()?, |line| collector.line(line)).map_err(|source| Error::Log {
            input: name,
            source,
        })?;
    }
    if let Some(recording) = recording {
        snapshot::each_event(recording, |event| collector.event(event))?;
    }
    let snapshot = snapshot.as_deref().map(snapshot::read).transpose()?;
    let report = collector.finish(snapshot.as_ref());
    output::print(&report, *json, write_text)
}

/// Every line, whatever bytes it has.
fn lines(input: impl Read, mut take: impl FnMut(&str)) -> io::Result<()> {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.by_ref().take(LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        take(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
    }
}
