//! `cargo xtask bench`: what tracing costs, on the fake CUDA libraries, whose calls take almost no
//! time of their own.
//!
//! Everything is a ratio, or a number beside its reference, from one run on one machine: absolute
//! times differ between machines by a factor of ten. The tables go to docs/overhead.md, and those
//! of the analysis to docs/performance.md.

mod analysis;
mod arrival;
mod attach;
mod calls;
mod empty;
mod hold;
mod machine;
mod observer;
mod page;
mod process;
mod recording;
mod sample;
mod workload;

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum as _;

use crate::{build, command, layout, progress::step};
use machine::Processors;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Fewer and shorter rounds, for a first look: prints, and leaves the pages alone.
    #[arg(long)]
    quick: bool,
    /// Only this; may be given several times.
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<Measure>,
    /// Measure what lies in dist/, without building anything.
    #[arg(long)]
    no_build: bool,
    /// `torch/cuda/_memory_viz.py` of an installed PyTorch, to measure `snapshot` beside.
    #[arg(long, value_name = "FILE")]
    memory_viz: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Measure {
    /// What a call costs under probes, against empty ones.
    Calls,
    /// Events a second without loss, CPU and memory of recorder and report, bytes an event.
    Recording,
    /// How long it takes to attach and to detach.
    Attach,
    /// How long calls may be missed of a library that a running process loads.
    Arrival,
    /// How long a command is held while it loads a CUDA library.
    Hold,
    /// What `report` and `snapshot` take, beside DuckDB, pandas and PyTorch's own viewer.
    Analysis,
}

/// What all measures need to know.
struct Settings {
    quick: bool,
    processors: Processors,
    /// For recordings.
    folder: PathBuf,
    memory_viz: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let Options {
        quick,
        only,
        no_build,
        memory_viz,
    } = options;
    ensure!(
        command::is_root(),
        "a bench loads eBPF programs: run `cargo xtask bench` as root"
    );
    let settings = Settings {
        quick: *quick,
        processors: Processors::choose()?,
        folder: layout::target().join("bench"),
        memory_viz: memory_viz.clone(),
    };
    if !no_build {
        build::run(&build::Options::default())?;
        empty::build()?;
    }
    fs::create_dir_all(&settings.folder)
        .with_context(|| format!("making {}", settings.folder.display()))?;
    for measure in Measure::value_variants() {
        if only.is_empty() || only.contains(measure) {
            measure.take(&settings)?;
        }
    }
    Ok(())
}

impl Measure {
    fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Recording => "recording",
            Self::Attach => "attach",
            Self::Arrival => "arrival",
            Self::Hold => "hold",
            Self::Analysis => "analysis",
        }
    }

    /// Where its table is.
    fn page(self) -> &'static str {
        match self {
            Self::Calls | Self::Recording | Self::Attach | Self::Arrival | Self::Hold => {
                "docs/overhead.md"
            }
            Self::Analysis => "docs/performance.md",
        }
    }

    /// Measures, prints, and writes to the page if the numbers are for keeps.
    fn take(self, settings: &Settings) -> Result<()> {
        let machine = machine::description()?;
        let table = step(self.name(), || match self {
            Self::Calls => calls::run(settings),
            Self::Recording => recording::run(settings),
            Self::Attach => attach::run(settings),
            Self::Arrival => arrival::run(settings),
            Self::Hold => hold::run(settings),
            Self::Analysis => analysis::run(settings),
        })?;
        let text = format!("*{machine}.*\n\n{table}");
        println!("{text}");
        if settings.quick {
            Ok(())
        } else {
            page::write(self.page(), self.name(), &text)
        }
    }
}
