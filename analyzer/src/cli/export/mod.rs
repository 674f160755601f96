//! `export`: a recording in the formats of other tools.

mod target;

use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;

use self::target::Target;
use super::output;
use super::recordings::Recordings;
use crate::Error;
#[cfg(feature = "parquet")]
use crate::export::Parquet;
use crate::export::{Chrome, Csv, Exported, Exporter, JsonLines, Names, Perfetto, Sink, folded};
use crate::memory;

/// Bytes of JSON beyond which viewers in a browser fail, often without a word.
const LARGE_JSON: u64 = 500_000_000;

/// A change of the wall clock that is worth a warning, ns.
const CLOCK_STEP: u64 = 1_000_000;

/// Arguments of `export`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    recordings: Recordings,
    /// What to make of it
    #[arg(long, value_enum)]
    format: Format,
    /// Where to write: a file that must not exist, for Parquet a directory. Standard output if not
    /// given
    #[arg(short, long, value_name = "PATH", required_if_eq("format", "parquet"))]
    output: Option<PathBuf>,
    /// Only the first rows, so many
    #[arg(long, value_name = "NUMBER")]
    max_events: Option<u64>,
    /// For Chrome: what is time 0, ns since 1970. Without it, what `torch.profiler` has then
    #[arg(long, value_name = "NS")]
    base_time: Option<u64>,
}

/// What an export is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A trace for ui.perfetto.dev and `trace_processor`
    Perfetto,
    /// Trace Event JSON, which goes together with that of torch.profiler
    Chrome,
    /// Files under pod=.../date=..., for DuckDB, Spark, Polars and their like
    #[cfg(feature = "parquet")]
    Parquet,
    /// JSON Lines, one object a row
    Jsonl,
    /// CSV with a header
    Csv,
    /// Live memory as folded stacks, for flame graphs
    Folded,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Error> {
    let output = arguments.output.as_deref();
    let (target, sink): (Target, Box<dyn Sink>) = match arguments.format {
        Format::Perfetto => {
            let (target, output) = Target::open_binary(output)?;
            (target, Box::new(Perfetto::new(output)))
        }
        Format::Chrome => {
            let (target, output) = Target::open(output)?;
            (target, Box::new(Chrome::new(output, arguments.base_time)))
        }
        #[cfg(feature = "parquet")]
        Format::Parquet => {
            // Required of this format by the command line's definition.
            let directory = output.unwrap_or(std::path::Path::new("."));
            let sink = Parquet::new(directory.to_owned());
            (Target::directory(directory), Box::new(sink))
        }
        Format::Jsonl => {
            let (target, output) = Target::open(output)?;
            (target, Box::new(JsonLines::new(output)))
        }
        Format::Csv => {
            let (target, output) = Target::open(output)?;
            (target, Box::new(Csv::new(output)))
        }
        Format::Folded => {
            let (target, output) = Target::open(output)?;
            return export_memory(arguments, target, output);
        }
    };
    export_rows(arguments, target, sink)
}

/// Exports row by row. A file is read twice: what an id means may be told after it was used.
fn export_rows(arguments: &Arguments, target: Target, sink: Box<dyn Sink>) -> Result<(), Error> {
    let recordings = &arguments.recordings;
    let selection = recordings.selection()?;
    let write_error = |source| target.error(source);
    let mut names = Names::default();
    let is_read_twice = recordings.can_be_read_twice();
    if is_read_twice {
        recordings.read(Names::COLUMNS, |batch| names.learn(batch))?;
    }
    let mut recording = recordings.open(trace::COLUMNS)?;
    let most = arguments.max_events.unwrap_or(u64::MAX);
    let mut exporter = Exporter::new(selection, most, names, sink);
    for batch in &mut recording {
        if !exporter.batch(&batch?).map_err(write_error)? {
            break;
        }
    }
    let exported = exporter.finish().map_err(write_error)?;
    if !exported.is_cut {
        output::warn_of(exported.is_complete, &recording.ended());
    }
    warn(arguments, &exported, is_read_twice);
    target.finish(&format!("{} events", exported.events), exported.bytes);
    Ok(())
}

/// Says on standard error what may surprise whoever opens the export.
fn warn(arguments: &Arguments, exported: &Exported, is_read_twice: bool) {
    let Exported {
        events: _,
        unnamed_launches,
        is_cut,
        is_complete: _,
        bytes,
        clock_step,
    } = *exported;
    if is_cut {
        eprintln!("warning: there are more rows than --max-events: the rest was left out");
    }
    if unnamed_launches > 0 {
        let advice = if is_read_twice {
            "the recording has none"
        } else {
            "names may have come later: export from a file, which is read twice"
        };
        eprintln!("warning: launches without a kernel name: {unnamed_launches} ({advice})");
    }
    if clock_step > CLOCK_STEP {
        let step = clock_step / 1_000_000;
        eprintln!(
            "warning: the wall clock moved by {step} ms against the clock of the rows (it was \
             set, or the machine slept): times of day are by the nearest reading of both"
        );
    }
    if arguments.format == Format::Chrome && bytes > LARGE_JSON {
        let size = bytes / 1_000_000;
        eprintln!(
            "warning: {size} MB of JSON: viewers in a browser fail beyond 500 MB. Take \
             `--format perfetto`, or a part: --from, --to, --pid, --max-events"
        );
    }
}

/// Exports what is live at the end, or at `--to`.
fn export_memory(
    arguments: &Arguments,
    target: Target,
    mut output: Box<dyn Write>,
) -> Result<(), Error> {
    let recordings = &arguments.recordings;
    let mut selection = recordings.selection()?;
    let at = selection.to.take();
    let mut collector = memory::Collector::new(at, false).select(selection);
    let ended = recordings.read(memory::COLUMNS, |batch| collector.batch(batch))?;
    let report = collector.finish();
    let (stacks, bytes) =
        folded::write(&report, &mut output).map_err(|source| target.error(source))?;
    output::warn_of(report.recording.complete, &ended);
    target.finish(&format!("{stacks} stacks"), bytes);
    Ok(())
}
