//! End-to-end tests: real eBPF, real uprobes, the fake CUDA pair, and workloads that know
//! what they call. Equality, not ranges.
//!
//! They need root and what `cargo xtask build` leaves in `dist/`; `cargo xtask test` sees to
//! both.
#![expect(clippy::expect_used, reason = "a test panics with what it expected")]

mod go;
mod recorder;
mod waiting;

use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    fs::File,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use agent_common::{APIS, Effect, Shape};
use serde_json::Value;
use trace::{Event, Fact, Reader};

pub use go::go_program;
pub use recorder::Recorder;
pub use waiting::Waiting;

/// The folder with the product, the fake CUDA pair and the workloads.
pub fn dist() -> PathBuf {
    let dist = env::var_os("CUDASNOOP_DIST").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist"),
        PathBuf::from,
    );
    assert!(
        dist.join("cudasnoop").is_file(),
        "{} has no cudasnoop: run `cargo xtask build` first",
        dist.display()
    );
    let user = Path::new("/proc/self")
        .metadata()
        .expect("a proc file system")
        .uid();
    assert_eq!(user, 0, "end-to-end tests trace for real: run them as root");
    dist.canonicalize().expect("a path")
}

/// `cudasnoop`, with the fake CUDA pair for what it starts.
pub fn cudasnoop() -> Command {
    let dist = dist();
    let mut command = Command::new(dist.join("cudasnoop"));
    command
        .env("LD_LIBRARY_PATH", dist.join("fake-cuda"))
        .stdin(Stdio::null());
    command
}

/// Path of a workload.
pub fn workload(name: &str) -> PathBuf {
    dist().join("workloads").join(name)
}

/// A workload, on the fake CUDA pair.
pub fn workload_command(name: &str) -> Command {
    let mut command = Command::new(workload(name));
    command.env("LD_LIBRARY_PATH", dist().join("fake-cuda"));
    command
}

/// Runs to the end; its output. Panics with stderr unless it succeeds.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().expect("started");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The last line of stdout, as JSON: what a workload reports.
pub fn last_json(stdout: &[u8]) -> Value {
    let text = String::from_utf8_lossy(stdout);
    let line = text.lines().last().expect("a line");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in: {line}"))
}

/// A recording and what the traced workload says it did.
pub struct Recorded {
    /// Holds the file.
    pub folder: tempfile::TempDir,
    /// The recording.
    pub file: PathBuf,
    /// The workload's report.
    pub truth: Value,
    /// What cudasnoop said on stderr.
    pub stderr: String,
}

impl std::fmt::Debug for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorded")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// Records a workload from its start.
pub fn record(options: &[&str], name: &str, arguments: &[&str]) -> Recorded {
    record_with(options, name, arguments, |_| {})
}

/// As [`record`], with the command prepared further (environment).
pub fn record_with(
    options: &[&str],
    name: &str,
    arguments: &[&str],
    prepare: impl FnOnce(&mut Command),
) -> Recorded {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    let mut command = cudasnoop();
    command
        .arg("record")
        .arg("-o")
        .arg(&file)
        .args(options)
        .arg("--");
    command.arg(workload(name)).args(arguments);
    prepare(&mut command);
    let output = succeed(&mut command);
    Recorded {
        truth: last_json(&output.stdout),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        folder,
        file,
    }
}

/// `cudasnoop report --json` of a recording.
pub fn report(file: &Path) -> Value {
    let output = succeed(cudasnoop().arg("report").arg(file).arg("--json"));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Calls by function.
pub type Calls = BTreeMap<String, u64>;

/// The table's name of an exported symbol; `None` for one that is not traced.
pub fn api_of(symbol: &str) -> Option<&'static str> {
    APIS.iter()
        .find(|api| api.symbols.contains(&symbol))
        .map(|api| api.name)
}

/// What the workload called itself, by the table's names: each call once, at the outermost
/// layer. `__cudaLaunchKernel` is listed under `cudaLaunchKernel` too.
pub fn truth_calls(truth: &Value) -> Calls {
    let mut calls = Calls::new();
    for part in ["calls", "driver_calls_own"] {
        for (symbol, count) in truth[part].as_object().expect("an object") {
            if let Some(name) = api_of(symbol).filter(|name| !is_silent(name)) {
                *calls.entry(name.to_owned()).or_default() += count.as_u64().expect("a count");
            }
        }
    }
    calls
}

/// Whether calls of this function make no event but in a process that has a capture open. How
/// many of the workload's do, its threads' order decides; `every.rs` tests them.
fn is_silent(name: &str) -> bool {
    APIS.iter()
        .any(|api| api.name == name && api.shape == Shape::InCapture)
}

/// Whether the runtime makes such calls by itself, for its own ends: to get a context, to load
/// code, to look kernels up.
fn is_made_by_the_runtime(name: &str) -> bool {
    let effect = APIS
        .iter()
        .find(|api| api.name == name)
        .map(|api| api.effect);
    matches!(
        effect,
        Some(
            Effect::ContextRetain
                | Effect::SelectDevice
                | Effect::ModuleLoad
                | Effect::ModuleUnload
                | Effect::KernelLookup
                | Effect::DeviceIdentity
        )
    )
}

/// What cudasnoop reports, by function. Driver calls that the runtime makes for its own ends are
/// left out where the workload made none: they are calls of their own.
pub fn reported_calls(report: &Value, truth: &Calls) -> Calls {
    report["calls"]
        .as_array()
        .expect("an array")
        .iter()
        .map(|row| {
            let name = row["api"].as_str().expect("a name").to_owned();
            (name, row["calls"].as_u64().expect("a count"))
        })
        .filter(|(name, count)| {
            *count > 0
                && !is_silent(name)
                && (!is_made_by_the_runtime(name) || truth.contains_key(name))
        })
        .collect()
}

/// Panics unless the report's calls are those of the workload.
pub fn assert_same_calls(report: &Value, truth: &Value) {
    // `count` has no ring.
    if let Some(lost) = report.pointer("/recording/lost/ring_full") {
        assert_eq!(*lost, 0, "records lost");
    }
    let mut expected = truth_calls(truth);
    // Single uprobes trace a core of the table.
    let reduced = report["recording"]["settings"]["attach"] == "single";
    let is_left_out = |name: &str| reduced && !APIS.iter().any(|api| api.name == name && api.core);
    expected.retain(|name, _| !is_left_out(name));
    let shared: Vec<String> = expected
        .keys()
        .filter(|name| name.starts_with("cu") && !name.starts_with("cuda"))
        .filter(|name| is_made_by_the_runtime(name))
        .cloned()
        .collect();
    let mut reported = reported_calls(report, &expected);
    for name in shared {
        // At least what the workload did itself.
        let (made, seen) = (expected.remove(&name), reported.remove(&name));
        assert!(seen >= made, "{name}: {seen:?} of {made:?}");
    }
    assert_eq!(reported, expected);
}

/// Panics unless every function's account adds up; gives made and lost over all.
pub fn assert_accounts(report: &Value) -> (u64, u64) {
    let accounts = report["accounts"].as_array().expect("accounts");
    assert!(!accounts.is_empty());
    let (mut all_made, mut all_lost) = (0, 0);
    for account in accounts {
        let number = |key: &str| {
            account[key]
                .as_u64()
                .unwrap_or_else(|| panic!("{key} in {account}"))
        };
        let lost = number("lost_ring") + number("lost_pairing");
        assert_eq!(
            number("made"),
            number("reported") + lost + number("abandoned") + number("in_flight"),
            "{account}"
        );
        all_made += number("made");
        all_lost += lost;
    }
    (all_made, all_lost)
}

/// All events of a recording, and whether it ended as it should.
pub fn events(file: &Path) -> (Vec<Event>, bool) {
    let reader = Reader::new(File::open(file).expect("opened")).expect("a recording");
    let events: Vec<Event> = reader
        .flat_map(|batch| batch.expect("readable").iter().collect::<Vec<_>>())
        .collect();
    let ended = events
        .last()
        .is_some_and(|event| event.text.as_deref().and_then(Fact::parse) == Some(Fact::End));
    (events, ended)
}

/// The facts of a recording.
pub fn facts(events: &[Event]) -> Vec<(u32, Fact)> {
    events
        .iter()
        .filter_map(|event| Some((event.pid, Fact::parse(event.text.as_deref()?)?)))
        .collect()
}

/// Runs a Python script of the repository with the interpreter that has pyarrow.
pub fn python(script: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    let interpreter = env::var_os("CUDASNOOP_PYTHON")
        .expect("CUDASNOOP_PYTHON names no Python with pyarrow and polars: run `cargo xtask test`");
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(script);
    succeed(Command::new(interpreter).arg(script).args(arguments))
}
