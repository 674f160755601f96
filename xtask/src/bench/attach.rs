//! How long attaching to a running process takes, and letting go of it.

use std::{fmt::Write as _, time::Instant};

use anyhow::Result;

use super::{
    Settings,
    observer::Observer,
    sample::{Sample, whole},
    workload::Workload,
};
use crate::progress::say;

/// The ways to attach, with the rounds of a full run: single uprobes take seconds to go.
const MODES: [(&str, usize); 3] = [("scoped", 15), ("shared", 15), ("single", 3)];

pub(super) fn run(settings: &Settings) -> Result<String> {
    let mut table =
        "`cudasnoop record -p` on a process that waits, both layers probed; medians (least to \
         most), ms. The start includes loading the eBPF programs.\n\n\
         | `--attach` | start to all probes attached | SIGTERM to exit |\n|---|---|---|\n"
            .to_owned();
    for (mode, rounds) in MODES {
        say(format_args!("attaching, {mode}"));
        let rounds = if settings.quick {
            rounds.div_ceil(5)
        } else {
            rounds
        };
        let (mut attach, mut detach) = (Sample::default(), Sample::default());
        for _ in 0..rounds {
            let waiting = Workload::storm("--calls 1").start(settings.processors.program)?;
            let observer = Observer::Record {
                file: settings.folder.join("attach.arrows"),
                options: vec!["--attach".to_owned(), mode.to_owned()],
            };
            let begin = Instant::now();
            let observing = observer.start(&waiting, settings.processors.tool)?;
            attach.add(begin.elapsed().as_secs_f64() * 1e3);
            let begin = Instant::now();
            observing.stop()?;
            detach.add(begin.elapsed().as_secs_f64() * 1e3);
            waiting.go()?;
        }
        writeln!(
            table,
            "| {mode} | {} | {} |",
            attach.spread(whole),
            detach.spread(whole)
        )?;
    }
    Ok(table)
}
