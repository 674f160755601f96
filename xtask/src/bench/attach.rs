//! How long attaching to a running process takes, and letting go of it.

use std::{fmt::Write as _, time::Instant};

use anyhow::Result;

use super::{
    Settings,
    observer::Observer,
    sample::{Sample, whole},
    workload::{Waiting, Workload},
};
use crate::progress::say;

/// The ways to attach, with processes, and the rounds of a full run: single uprobes take seconds to
/// go.
const WAYS: [(&str, usize, usize); 5] = [
    ("scoped", 1, 15),
    ("scoped", 12, 5),
    ("shared", 1, 15),
    ("shared", 12, 5),
    ("single", 1, 3),
];

pub(super) fn run(settings: &Settings) -> Result<String> {
    let mut table =
        "`cudasnoop record -p` on processes that wait, both layers probed; medians (least to \
         most), ms. The start includes loading the eBPF programs.\n\n\
         | `--attach` | processes | start to all probes attached | SIGTERM to exit |\n\
         |---|---|---|---|\n"
            .to_owned();
    for (mode, processes, rounds) in WAYS {
        say(format_args!("attaching, {mode}, processes: {processes}"));
        let rounds = if settings.quick {
            rounds.div_ceil(5)
        } else {
            rounds
        };
        let (mut attach, mut detach) = (Sample::default(), Sample::default());
        for _ in 0..rounds {
            let waiting: Result<Vec<Waiting>> = (0..processes)
                .map(|_| Workload::storm("--calls 1").start(settings.processors.program))
                .collect();
            let waiting = waiting?;
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
            for waiting in waiting {
                waiting.go()?;
            }
        }
        writeln!(
            table,
            "| {mode} | {processes} | {} | {} |",
            attach.spread(whole),
            detach.spread(whole)
        )?;
    }
    Ok(table)
}
