//! What it takes to analyse a recording, and a snapshot, beside what others take for a part of it.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use super::{
    Settings,
    machine::Processors,
    process::{self, Usage},
    sample::{Sample, hundredths, megabytes, whole},
};
use crate::{
    command, layout,
    progress::{say, step},
    setup, toolchain,
};

/// The programs that recordings are made of (`trace/examples/program`), and their names.
const MIXES: [(&str, &str); 2] = [
    ("pytorch", "PyTorch: launches, the allocator's reports"),
    ("copies", "copies, mostly"),
];
const EVENTS: u64 = 10_000_000;
/// Of a recording that is so much longer: memory must not follow.
const TIMES_LONGER: u64 = 10;
const ROUNDS: usize = 5;

pub(super) fn run(settings: &Settings) -> Result<String> {
    let events = if settings.quick { EVENTS / 10 } else { EVENTS };
    let python = setup::bench_python()?;
    let generator = generator()?;
    let mut table = format!(
        "{} rounds in alternating order, medians (least to most). Two processors. Ratios are to the \
         first row of each recording; ten times the events were read once.\n\n\
         | data | who | wall, s | ratio | CPU, s | peak memory, MB |\n|---|---|---|---|---|---|\n",
        settings.rounds()
    );
    if let Some(viewer) = &settings.memory_viz {
        let snapshot = settings.folder.join("analysis.pickle");
        step("a snapshot", || {
            command::run(&mut settings.script(&python, "snapshot.py", &snapshot))
        })?;
        let mut stats = settings.on_two_processors(&python);
        stats.arg(viewer).arg("stats").arg(&snapshot);
        let mut contest = [
            Contestant::new("`snapshot`", settings.analyzer("snapshot", &snapshot)),
            Contestant::new("PyTorch's `_memory_viz.py stats`", stats),
        ];
        let data = "a snapshot, 1 M trace events";
        hold(data, settings.rounds(), &mut contest, &mut table)?;
        fs::remove_file(&snapshot)?;
    } else {
        say("PyTorch's viewer is left out: --memory-viz names its file");
    }
    for (mix, name) in MIXES {
        let recording = settings.folder.join("analysis.arrows");
        generate(&generator, &recording, events, mix)?;
        let parquet = settings.to_parquet(&recording)?;
        let script = |name: &str| settings.script(&python, name, &parquet);
        let report = || settings.analyzer("report", &recording);
        let mut contest = [
            Contestant::new("`report`, with all findings", report()),
            Contestant::new("DuckDB, three questions", script("with_duckdb.py")),
            Contestant::new("pandas, three questions", script("with_pandas.py")),
        ];
        let data = format!("{name}, {} M events", events / 1_000_000);
        hold(&data, settings.rounds(), &mut contest, &mut table)?;
        if mix == MIXES[0].0 && !settings.quick {
            let events = events * TIMES_LONGER;
            generate(&generator, &recording, events, mix)?;
            let mut longer = [Contestant::new("`report`, with all findings", report())];
            let data = format!("{name}, {} M events", events / 1_000_000);
            hold(&data, 1, &mut longer, &mut table)?;
        }
        fs::remove_file(&recording)?;
    }
    Ok(table)
}

impl Settings {
    /// Whatever the machine has, two processors are what each gets.
    fn on_two_processors(&self, program: &Path) -> Command {
        let Processors { program: one, tool } = self.processors;
        let mut command = Command::new("taskset");
        command
            .args(["--cpu-list", &format!("{one},{tool}")])
            .arg(program);
        command
    }

    fn analyzer(&self, verb: &str, file: &Path) -> Command {
        let mut command = self.on_two_processors(&layout::dist().join("cudasnoop-analyzer"));
        command.arg(verb).arg(file);
        command
    }

    fn script(&self, python: &Path, name: &str, file: &Path) -> Command {
        let scripts = layout::root().join("xtask/src/bench/analysis");
        let mut command = self.on_two_processors(python);
        command.arg(scripts.join(name)).arg(file);
        command
    }

    /// The recording as one Parquet file.
    fn to_parquet(&self, recording: &Path) -> Result<PathBuf> {
        let folder = recording.with_extension("parquet");
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("removing {}", folder.display()))?;
        }
        let mut export = self.analyzer("export", recording);
        export.args(["--format", "parquet", "-o"]).arg(&folder);
        step("the same as Parquet", || command::run(&mut export))?;
        files_below(&folder)?
            .into_iter()
            .find(|file| file.extension().is_some_and(|name| name == "parquet"))
            .with_context(|| format!("{} has no Parquet file", folder.display()))
    }

    fn rounds(&self) -> usize {
        if self.quick { 3 } else { ROUNDS }
    }
}

/// Measures all in turn, round by round, and writes a row for each.
fn hold(data: &str, rounds: usize, contest: &mut [Contestant], table: &mut String) -> Result<()> {
    for _ in 0..rounds {
        for contestant in &mut *contest {
            say(format_args!("{data}: {}", contestant.name));
            contestant.measure()?;
        }
    }
    let reference = contest
        .first()
        .map_or(f64::NAN, |first| first.wall.median());
    for Contestant {
        name,
        command: _,
        wall,
        cpu,
        memory,
    } in contest
    {
        writeln!(
            table,
            "| {data} | {name} | {} | {} | {} | {} |",
            wall.spread(hundredths),
            hundredths(wall.median() / reference),
            hundredths(cpu.median()),
            megabytes(*memory),
        )?;
    }
    Ok(())
}

/// One of those that are measured beside each other.
struct Contestant {
    name: &'static str,
    command: Command,
    wall: Sample,
    cpu: Sample,
    /// The most of all rounds, bytes.
    memory: u64,
}

impl Contestant {
    fn new(name: &'static str, command: Command) -> Self {
        Self {
            name,
            command,
            wall: Sample::default(),
            cpu: Sample::default(),
            memory: 0,
        }
    }

    fn measure(&mut self) -> Result<()> {
        let (wall, usage) = timed(&mut self.command)?;
        self.wall.add(wall.as_secs_f64());
        self.cpu.add(usage.cpu.as_secs_f64());
        self.memory = self.memory.max(usage.peak_resident);
        Ok(())
    }
}

/// Runs a command to its end.
fn timed(command: &mut Command) -> Result<(Duration, Usage)> {
    let start = Instant::now();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let (status, usage) = process::wait(child)?;
    ensure!(status.success(), "{command:?} failed ({status})");
    Ok((start.elapsed(), usage))
}

/// What makes recordings.
fn generator() -> Result<PathBuf> {
    let mut cargo = toolchain::product_cargo("build")?;
    cargo.args(["--release", "--package", "trace", "--example", "recording"]);
    step("what makes recordings", || command::run(&mut cargo))?;
    Ok(layout::target().join("release/examples/recording"))
}

fn generate(generator: &Path, recording: &Path, events: u64, mix: &str) -> Result<()> {
    let name = format!("{} events of {mix}", whole(super::sample::number(events)));
    step(&name, || {
        let mut command = Command::new(generator);
        command.arg(recording).arg(events.to_string()).arg(mix);
        command::run(&mut command)
    })
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}
