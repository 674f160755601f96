//! What a call costs under probes: empty ones, cudasnoop's, bpftrace's.

use std::{fmt::Write as _, path::Path, slice};

use anyhow::Result;

use super::{
    Settings, empty,
    observer::Observer,
    recording,
    sample::{Sample, hundredths, whole},
    workload::Workload,
};
use crate::{command, progress::say};

/// What is called: its name, and the storm that calls it.
const OPERATIONS: [(&str, &str); 5] = [
    ("`cudaLaunchKernel`", "--kind launch"),
    (
        "`cuLaunchKernel`, called directly",
        "--kind launch --layer driver",
    ),
    ("`cudaMalloc` and `cudaFree`", "--kind malloc"),
    ("`cudaMemcpyAsync`", "--kind copy"),
    ("`cudaStreamSynchronize`", "--kind sync"),
];
/// Operations of a storm.
const OPERATIONS_EACH: f64 = 300_000.0;
/// bpftrace takes seconds to attach and detach: it comes in one of so many rounds.
const BPFTRACE_EVERY: usize = 3;

pub(super) fn run(settings: &Settings) -> Result<String> {
    let rounds = if settings.quick { 3 } else { 9 };
    let bpftrace = command::on_path("bpftrace").is_some();
    let mut table = format!(
        "Medians of {rounds} rounds (least to most); CPU time of the calling program: ns an \
         operation, and times what empty probes on the same functions add.\n\n\
         | operation | alone, ns | empty probes add, ns | `cudasnoop count` | `cudasnoop record` | \
         delivered by `record` | bpftrace, counting entries only |\n\
         |---|---|---|---|---|---|---|\n"
    );
    for (name, kind) in OPERATIONS {
        say(format_args!("{name}: {rounds} rounds"));
        let workload = Workload::storm(&format!("{kind} --calls {OPERATIONS_EACH:.0}"));
        let results = Rounds::of(settings, &workload, rounds, bpftrace)?;
        let Rounds {
            alone,
            empty,
            count,
            record,
            delivered,
            bpftrace,
        } = &results;
        writeln!(
            table,
            "| {name} | {} | {} | {} | {} | {} | {} |",
            whole(alone.median()),
            empty.spread(whole),
            count.spread(hundredths),
            record.spread(hundredths),
            delivered.spread(recording::percent),
            bpftrace.spread(hundredths),
        )?;
    }
    if !bpftrace {
        table.push_str("\nbpftrace is not installed on this machine.\n");
    }
    Ok(table)
}

/// What the rounds of one operation gave.
#[derive(Default)]
struct Rounds {
    /// ns an operation, unobserved.
    alone: Sample,
    /// ns added by empty probes.
    empty: Sample,
    /// What `cudasnoop count` added, times what the empty probes of the same round did.
    count: Sample,
    /// Likewise `cudasnoop record`.
    record: Sample,
    /// The calls in the recording, as a part of those made.
    delivered: Sample,
    /// Likewise bpftrace.
    bpftrace: Sample,
}

impl Rounds {
    fn of(settings: &Settings, workload: &Workload, rounds: usize, bpftrace: bool) -> Result<Self> {
        let file = settings.folder.join("calls.arrows");
        let bpftrace = bpftrace
            .then(|| empty::functions(workload, settings.processors).map(Observer::Bpftrace))
            .transpose()?;
        let mut all = Self::default();
        for round in 0..rounds {
            let now = bpftrace.as_ref().filter(|_| round % BPFTRACE_EVERY == 0);
            all.add_round(settings, workload, &file, round % 2 == 1, now)?;
        }
        Ok(all)
    }

    /// One round, forwards or backwards, so that a drift of the machine does not favour anybody.
    fn add_round(
        &mut self,
        settings: &Settings,
        workload: &Workload,
        file: &Path,
        backwards: bool,
        bpftrace: Option<&Observer>,
    ) -> Result<()> {
        let record = Observer::Record {
            file: file.to_path_buf(),
            options: Vec::new(),
        };
        let observers = [
            None,
            Some(&Observer::Empty),
            Some(&Observer::Count),
            Some(&record),
            bpftrace,
        ];
        let mut order: Vec<usize> = (0..observers.len()).collect();
        if backwards {
            order.reverse();
        }
        let mut costs = [0.0; 5];
        for index in order {
            // Its absence is the first one's meaning, and the last one's being left out.
            if observers[index].is_some() || index == 0 {
                costs[index] = nanoseconds(settings, workload, observers[index])?;
            }
        }
        let [alone, empty, count, recorded, by_bpftrace] = costs;
        self.alone.add(alone);
        self.empty.add(empty - alone);
        let times_empty = |cost: f64| (cost - alone) / (empty - alone);
        self.count.add(times_empty(count));
        self.record.add(times_empty(recorded));
        if bpftrace.is_some() {
            self.bpftrace.add(times_empty(by_bpftrace));
        }
        self.delivered.add(recording::read(file)?.delivered());
        Ok(())
    }
}

/// CPU time of a storm under an observer, ns an operation. Unlike elapsed time it leaves out when
/// something else had the processor. Starting the program is in it, with and without observer.
fn nanoseconds(
    settings: &Settings,
    workload: &Workload,
    observer: Option<&Observer>,
) -> Result<f64> {
    let waiting = workload.start(settings.processors.program)?;
    let observing = observer
        .map(|observer| observer.start(slice::from_ref(&waiting), settings.processors.tool))
        .transpose()?;
    let done = waiting.go()?;
    if let Some(observing) = observing {
        observing.stop()?;
    }
    Ok(done.usage.cpu.as_secs_f64() * 1e9 / OPERATIONS_EACH)
}
