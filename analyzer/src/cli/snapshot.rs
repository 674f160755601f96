//! `snapshot`: what a PyTorch memory snapshot says.

use std::path::{Path, PathBuf};

use trace::Event;

use super::html::Html;
use super::recordings;
use crate::Error;
use crate::fragmentation::{COLUMNS, Size};
use crate::html;
use crate::input::Input;
use crate::snapshot::{self, Join, Report, Search, Snapshot, write_text};

/// Arguments of `snapshot`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// What `torch.cuda.memory._dump_snapshot()` wrote; `-` is standard input
    #[arg(value_name = "FILE")]
    snapshot: PathBuf,
    /// A recording of the same run: compares block by block
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// Would a tensor of this size find a free block? Bytes, or with a unit: 512MiB, 1.5GiB
    #[arg(long, value_name = "SIZE")]
    fit: Option<Size>,
    /// Print JSON (docs/snapshot.md) in place of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: Html,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let Arguments {
        snapshot,
        recording,
        fit,
        json,
        html,
    } = arguments;
    html.check(*json)?;
    let snapshot = read(snapshot)?;
    let mut report = Report::new(&snapshot, fit.map(|Size(bytes)| bytes));
    if let Some(recording) = recording {
        report.recording = Some(join(&snapshot, recording)?);
    }
    let supplement = html.is_wanted().then(|| html::of_snapshot(&snapshot));
    html.print("snapshot", &report, supplement.as_ref(), *json, write_text)
}

/// Reads a snapshot's file.
pub(super) fn read(path: &Path) -> Result<Snapshot, Error> {
    let input = Input::from(path);
    snapshot::read(input.open()?).map_err(|source| Error::Snapshot {
        input: input.to_string(),
        source,
    })
}

fn join(snapshot: &Snapshot, recording: &Path) -> Result<Join, Error> {
    let mut search = Search::new(snapshot);
    each_event(recording, |event| search.push(event))?;
    let mut comparison = search.finish();
    each_event(recording, |event| comparison.push(event))?;
    Ok(comparison.finish())
}

/// Reads a recording from its start: what concerns memory.
pub(super) fn each_event(recording: &Path, mut take: impl FnMut(&Event)) -> Result<(), Error> {
    recordings::read(&[recording.to_owned()], COLUMNS, |batch| {
        for row in 0..batch.len() {
            take(&batch.event(row));
        }
    })?;
    Ok(())
}
