//! From calls to a file and from the file to a report: what arrives, what it takes, how large
//! it is.

use std::{
    fmt::Write as _,
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    slice,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::{
    Settings,
    observer::Observer,
    process::{self, Usage},
    sample::{Sample, hundredths, megabytes, number, whole},
    workload::Workload,
};
use crate::{layout, progress::say};

/// What is recorded: its name, the storm that calls it, and what that calls.
const STORMS: [(&str, &str, &[&str]); 5] = [
    (
        "launches through the runtime",
        "--kind launch",
        &["cudaLaunchKernel"],
    ),
    (
        "launches through the driver",
        "--kind launch --layer driver",
        &["cuLaunchKernel"],
    ),
    (
        "allocations and frees",
        "--kind malloc",
        &["cudaMalloc", "cudaFree"],
    ),
    ("copies", "--kind copy", &["cudaMemcpyAsync"]),
    (
        "allocations and frees, 10,000 calls a second",
        "--kind malloc --rate 5000 --calls 5000",
        &["cudaMalloc", "cudaFree"],
    ),
];
/// If calls are lost at full speed, slower ones are tried until none is, at these parts of it.
const SLOWER: [f64; 9] = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1];
/// How often each recording is read; the median counts.
const READINGS: usize = 3;

pub(super) fn run(settings: &Settings) -> Result<String> {
    let seconds = if settings.quick { 10 } else { 60 };
    let mut table = format!(
        "The program has one core, the recorder another. Storms call for {seconds} s as fast as \
         one thread can, where no rate is given.\n\n\
         | calls | calls/s | delivered | events | recorder CPU, s per 1 M events | its peak memory, \
         MB | bytes an event | report: M events/s of CPU | its peak memory, MB |\n\
         |---|---|---|---|---|---|---|---|---|\n"
    );
    for (name, kind, functions) in STORMS {
        let storm = |more: &str| Workload::storm(&format!("{kind} --seconds {seconds} {more}"));
        let full = Row::of(settings, name, &storm(""), functions)?;
        full.write(&mut table)?;
        if full.contents.delivered() < 1.0 {
            slower(settings, &mut table, &full, functions, |rate| {
                storm(&format!("--rate {rate:.0}"))
            })?;
        }
    }
    let iterations = if settings.quick { "40000" } else { "400000" };
    let mix = Workload {
        program: "mix",
        arguments: vec!["--iterations".to_owned(), iterations.to_owned()],
    };
    Row::of(settings, "every traced runtime function in turn", &mix, &[])?.write(&mut table)?;
    Ok(table)
}

/// Goes slower until nothing is lost.
fn slower(
    settings: &Settings,
    table: &mut String,
    full: &Row<'_>,
    functions: &[&str],
    storm: impl Fn(f64) -> Workload,
) -> Result<()> {
    // One operation calls each of the functions once.
    let operations = functions
        .first()
        .map_or(0, |function| full.contents.made_by(function));
    let full_rate = number(operations) / full.duration.as_secs_f64();
    for part in SLOWER {
        let name = format!("{}, at {:.0} % of that", full.name, part * 100.0);
        let row = Row::of(settings, &name, &storm(full_rate * part), functions)?;
        if row.contents.delivered() >= 1.0 {
            return row.write(table);
        }
    }
    say(format_args!("{}: calls were lost at every rate", full.name));
    Ok(())
}

/// One recording, written and read.
struct Row<'a> {
    name: &'a str,
    duration: Duration,
    recorder: Usage,
    bytes: u64,
    contents: Contents,
    reading: Usage,
    /// Events that a report takes in, a second of its CPU time.
    reading_rate: f64,
}

impl<'a> Row<'a> {
    /// Records a workload and reads the recording. Every one of `functions` must have been called
    /// as often as the workload says, by the kernel's own count.
    fn of(
        settings: &Settings,
        name: &'a str,
        workload: &Workload,
        functions: &[&str],
    ) -> Result<Self> {
        say(name);
        let file = settings.folder.join("recording.arrows");
        let waiting = workload.start(settings.processors.program)?;
        let observer = Observer::Record {
            file: file.clone(),
            options: Vec::new(),
        };
        let observing = observer.start(slice::from_ref(&waiting), settings.processors.tool)?;
        let done = waiting.go()?;
        let (recorder, _) = observing.stop()?;
        let bytes = fs::metadata(&file)?.len();
        let contents = read(&file)?;
        for function in functions {
            let (made, counted) = (done.calls(function), contents.made_by(function));
            ensure!(
                made == counted,
                "{name}: {made} calls of {function}, {counted} counted"
            );
        }
        let mut rates = Sample::default();
        let mut reading = contents.reading;
        for _ in 0..READINGS {
            reading = read(&file)?.reading;
            rates.add(number(contents.events) / reading.cpu.as_secs_f64());
        }
        let reading_rate = rates.median();
        fs::remove_file(&file)?;
        Ok(Self {
            name,
            duration: done.duration,
            recorder,
            bytes,
            contents,
            reading,
            reading_rate,
        })
    }

    fn calls_per_second(&self) -> f64 {
        number(self.contents.made) / self.duration.as_secs_f64()
    }

    fn write(&self, table: &mut String) -> Result<()> {
        let Self {
            name,
            duration: _,
            recorder,
            bytes,
            contents,
            reading,
            reading_rate,
        } = self;
        let events = number(contents.events);
        writeln!(
            table,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} |",
            whole(self.calls_per_second()),
            percent(contents.delivered()),
            whole(events),
            hundredths(recorder.cpu.as_secs_f64() * 1e6 / events),
            megabytes(recorder.peak_resident),
            hundredths(number(*bytes) / events),
            hundredths(reading_rate / 1e6),
            megabytes(reading.peak_resident),
        )?;
        Ok(())
    }
}

/// What a report says of a recording.
pub(super) struct Contents {
    /// All of the report.
    pub(super) report: Value,
    /// Rows.
    events: u64,
    /// Calls, by the kernel's count.
    made: u64,
    /// Calls in the file.
    reported: u64,
    /// What the report took.
    reading: Usage,
}

/// Reads a recording by `cudasnoop-analyzer report`.
pub(super) fn read(file: &Path) -> Result<Contents> {
    let mut command = Command::new(layout::dist().join("cudasnoop-analyzer"));
    command.arg("report").arg(file).arg("--json");
    // Into a file, so that it is looked at while it runs, not after its output has ended.
    let printed = file.with_extension("json");
    let output = File::create(&printed);
    let output = output.with_context(|| format!("could not make {}", printed.display()))?;
    let child = command
        .stdin(Stdio::null())
        .stdout(output)
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let (status, reading) = process::wait(child)?;
    if !status.success() {
        bail!("{command:?} failed ({status})");
    }
    let report = fs::read(&printed).map_err(anyhow::Error::from);
    let report: Value = report
        .and_then(|text| Ok(serde_json::from_slice(&text)?))
        .with_context(|| format!("reading what {command:?} printed"))?;
    let events = report["recording"]["events"]
        .as_u64()
        .context("a report counts events")?;
    let sum = |key: &str| {
        let accounts = report["accounts"]
            .as_array()
            .context("a report has accounts")?;
        let counts = accounts.iter().map(|account| account[key].as_u64());
        counts
            .sum::<Option<u64>>()
            .with_context(|| format!("an account has no {key}"))
    };
    let (made, reported) = (sum("made")?, sum("reported")?);
    Ok(Contents {
        report,
        events,
        made,
        reported,
        reading,
    })
}

impl Contents {
    /// The calls in the file, as a part of those made.
    pub(super) fn delivered(&self) -> f64 {
        number(self.reported) / number(self.made)
    }

    fn made_by(&self, function: &str) -> u64 {
        let accounts = self.report["accounts"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        accounts
            .iter()
            .filter(|account| account["api"] == function)
            .filter_map(|account| account["made"].as_u64())
            .sum()
    }
}

/// A part of one, in percent. What is not whole never reads as 100 %.
pub(super) fn percent(part: f64) -> String {
    if part >= 1.0 {
        return "100 %".to_owned();
    }
    format!("{:.2} %", (part * 10_000.0).floor() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_never_reads_as_the_whole() {
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.999_999), "99.99 %");
        assert_eq!(percent(0.25), "25.00 %");
    }
}
