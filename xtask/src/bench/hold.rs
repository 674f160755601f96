//! How long a command is held while it loads a CUDA library.

use std::{fmt::Write as _, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{
    Settings, recording,
    sample::{Sample, hundredths, number},
};
use crate::{command, doubles, layout, progress::say};

/// What a command loads: two runtimes that share a driver.
const LIBRARIES: [&str; 2] = ["libcudart.so.12", "libcudart.so.13"];

pub(super) fn run(settings: &Settings) -> Result<String> {
    let rounds = if settings.quick { 5 } else { 20 };
    say(format_args!("holding a command, {rounds} rounds"));
    let file = settings.folder.join("hold.arrows");
    let (mut each, mut in_all) = (Sample::default(), Sample::default());
    for _ in 0..rounds {
        let mut record = Command::new(layout::dist().join("cudasnoop"));
        record
            .args(["record", "-o"])
            .arg(&file)
            .arg("--")
            .arg(doubles::workload("late"));
        record.args(["--calls", "1", "--after-ms", "10"]);
        for library in LIBRARIES {
            record.args(["--path", library]);
        }
        command::output(record.env("LD_LIBRARY_PATH", doubles::libraries()))?;
        let holds = holds(&recording::read(&file)?.report)?;
        ensure!(
            !holds.is_empty(),
            "a command that loads CUDA was never held"
        );
        in_all.add(holds.iter().sum());
        for hold in holds {
            each.add(hold);
        }
    }
    let mut table = format!(
        "`cudasnoop record -- COMMAND`, a command that opens {} one after the other; medians of \
         {rounds} runs (least to most), ms.\n\n| each hold | all holds of a run |\n|---|---|\n",
        LIBRARIES.join(" and ")
    );
    writeln!(
        table,
        "| {} | {} |",
        each.spread(hundredths),
        in_all.spread(hundredths)
    )?;
    Ok(table)
}

/// The times for which the command stood still, ms.
fn holds(report: &Value) -> Result<Vec<f64>> {
    let holds = report["holds"].as_array().context("a report lists holds")?;
    holds
        .iter()
        .map(|hold| {
            let duration = hold["duration_ns"]
                .as_u64()
                .context("a hold has a duration")?;
            Ok(number(duration) / 1e6)
        })
        .collect()
}
