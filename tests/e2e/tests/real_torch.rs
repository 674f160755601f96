//! PyTorch's own caching allocator, of a wheel, over the fake CUDA pair: what the allocator
//! says of itself against what cudasnoop makes of it from outside.
//!
//! Opt-in: `CUDASNOOP_TORCH_LIB` names the folder `torch/lib` of an installed or unpacked
//! wheel (`tests/real-torch/README.md`).

use std::{
    collections::BTreeSet,
    env::{self, VarError},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use e2e::{Recorded, assert_accounts, cudasnoop, dist, record_with, report, succeed};
use serde_json::Value;

const VARIABLE: &str = "CUDASNOOP_TORCH_LIB";
const LIBRARIES: [&str; 2] = ["libc10.so", "libc10_cuda.so"];
const REPORT: &str = "c10::reportMemoryUsageToProfiler";
const OUT_OF_MEMORY: &str = "c10::reportOutOfMemoryToProfiler";
/// What a breakpoint is in memory: `int3`.
const BREAKPOINT: u8 = 0xcc;

/// The program that drives the allocator, beside copies of PyTorch's libraries. Where they
/// are installed, their run path leads to a CUDA runtime that needs a GPU.
struct Harness {
    folder: tempfile::TempDir,
}

static HARNESS: LazyLock<Option<Harness>> = LazyLock::new(|| match env::var(VARIABLE) {
    Ok(libraries) => Some(Harness::build(Path::new(&libraries))),
    Err(VarError::NotPresent) => None,
    Err(error) => panic!("{VARIABLE}: {error}"),
});

/// A run with PyTorch's default settings.
static DEFAULT: LazyLock<Option<Recorded>> =
    LazyLock::new(|| HARNESS.as_ref().map(|harness| harness.record("")));

/// What there is with PyTorch's libraries; says why there is nothing without them.
fn with_torch<T>(needs_torch: &'static LazyLock<Option<T>>) -> Option<&'static T> {
    let found = needs_torch.as_ref();
    if found.is_none() {
        assert_eq!(env::var(VARIABLE), Err(VarError::NotPresent));
        eprintln!("skipped: {VARIABLE} names no folder with {LIBRARIES:?} of a PyTorch wheel");
    }
    found
}

impl Harness {
    fn build(libraries: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in LIBRARIES {
            let library = libraries.join(name);
            fs::copy(&library, folder.path().join(name))
                .unwrap_or_else(|error| panic!("{VARIABLE}: {}: {error}", library.display()));
        }
        let headers = libraries.join("../include");
        assert!(
            headers.join("c10").is_dir(),
            "{VARIABLE}: {} has no c10 headers: it is not the folder lib of a wheel's torch",
            headers.display()
        );
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../real-torch");
        let compiler = env::var_os("CXX").unwrap_or_else(|| "c++".into());
        succeed(
            Command::new(compiler)
                .args(["-std=c++20", "-O1", "-pthread"])
                .arg("-isystem")
                .arg(headers)
                .arg("-isystem")
                .arg(sources.join("include"))
                .arg(sources.join("allocator.cpp"))
                .arg("-L")
                .arg(folder.path())
                // libc10_cuda.so needs a CUDA runtime, which is found when it is run.
                .args(["-lc10_cuda", "-lc10", "-Wl,--allow-shlib-undefined", "-o"])
                .arg(folder.path().join("allocator")),
        );
        Self { folder }
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("allocator")
    }

    /// Records the program, with settings as in `PYTORCH_ALLOC_CONF`.
    fn record(&self, settings: &str) -> Recorded {
        let libraries = [self.folder.path().to_owned(), dist().join("fake-cuda")];
        let path = env::join_paths(libraries).expect("no colon in it");
        let program = self.program();
        record_with(&[], program.to_str().expect("UTF-8"), &[], |command| {
            command
                .env("LD_LIBRARY_PATH", path)
                .env("FAKE_CUDA_DEVICES", "2")
                // PyTorch's older and newer name for the same.
                .env("PYTORCH_CUDA_ALLOC_CONF", settings)
                .env("PYTORCH_ALLOC_CONF", settings);
        })
    }
}

/// What PyTorch holds of one device. Ranges are address and size.
#[derive(Debug, Default, PartialEq, Eq)]
struct Held {
    allocated: u64,
    reserved: u64,
    segments: BTreeSet<(u64, u64)>,
    blocks: BTreeSet<(u64, u64)>,
}

impl Held {
    /// As the allocator says it.
    fn told(device: &Value) -> Self {
        let ranges = |key: &str| {
            let told = array(&device[key]).iter();
            told.map(|range| (number(&range[0]), number(&range[1])))
                .collect()
        };
        Self {
            allocated: number(&device["allocated"]),
            reserved: number(&device["reserved"]),
            segments: ranges("segments"),
            blocks: ranges("blocks"),
        }
    }

    /// As `fragmentation` says it; nothing where it knows of nothing.
    fn seen(fragmentation: &Value, pid: &Value, device: &Value) -> Self {
        let [process] = &array(&fragmentation["processes"])[..] else {
            panic!("not one process: {fragmentation}");
        };
        assert_eq!(process["pid"], *pid);
        let mut devices = array(&process["devices"]).iter();
        let Some(torch) = devices
            .find(|row| row["device"] == *device)
            .map(|row| &row["torch"])
        else {
            return Self::default();
        };
        assert_eq!(torch["map"]["complete"], true, "{torch}");
        assert_eq!(torch["unplaced_blocks"], 0, "{torch}");
        let segments = array(&torch["segments"]);
        let blocks = segments.iter().flat_map(|row| array(&row["blocks"]));
        Self {
            allocated: number(&torch["allocated"]),
            reserved: number(&torch["reserved"]),
            segments: segments.iter().map(range).collect(),
            blocks: blocks.map(range).collect(),
        }
    }
}

fn array(value: &Value) -> &Vec<Value> {
    value
        .as_array()
        .unwrap_or_else(|| panic!("no array: {value}"))
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

fn range(row: &Value) -> (u64, u64) {
    let address = row["address"].as_str().expect("a hex string");
    let digits = address.strip_prefix("0x").expect("0x first");
    (
        u64::from_str_radix(digits, 16).expect("hex digits"),
        number(&row["size"]),
    )
}

fn fragmentation(file: &Path, at: &Value) -> Value {
    let at = format!("@{at}");
    let output = succeed(
        cudasnoop()
            .arg("fragmentation")
            .arg(file)
            .args(["--json", "--at", &at]),
    );
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Panics unless totals, segments and blocks are the allocator's own after every step.
fn assert_same_maps(run: &Recorded) {
    let checkpoints = array(&run.truth["checkpoints"]);
    assert!(checkpoints.len() > 40, "{} steps", checkpoints.len());
    for checkpoint in checkpoints {
        let seen = fragmentation(&run.file, &checkpoint["at"]);
        for device in array(&checkpoint["devices"]) {
            assert_eq!(
                Held::seen(&seen, &run.truth["pid"], &device["device"]),
                Held::told(device),
                "device {} after {}",
                device["device"],
                checkpoint["step"]
            );
        }
    }
}

#[test]
fn totals_segments_and_blocks_are_the_allocators_own_after_every_step() {
    if let Some(run) = with_torch(&DEFAULT) {
        assert_same_maps(run);
    }
}

#[test]
fn so_they_are_with_other_settings() {
    if let Some(harness) = with_torch(&HARNESS) {
        for settings in [
            "max_split_size_mb:64",
            "roundup_power2_divisions:4",
            "garbage_collection_threshold:0.001",
        ] {
            let run = harness.record(settings);
            assert_same_maps(&run);
        }
    }
}

#[test]
fn calls_are_those_that_the_allocator_counts() {
    let Some(run) = with_torch(&DEFAULT) else {
        return;
    };
    let report = report(&run.file);
    assert_accounts(&report);
    let successes = |api: &str| {
        let row = array(&report["calls"]).iter().find(|row| row["api"] == api);
        let row = row.unwrap_or_else(|| panic!("no {api}: {report}"));
        let errors = row["errors"].as_object();
        number(&row["calls"]) - errors.map_or(0, |errors| errors.values().map(number).sum::<u64>())
    };
    for (api, counted) in [
        (REPORT, "reports"),
        (OUT_OF_MEMORY, "out_of_memory"),
        ("cudaMalloc", "mallocs"),
        ("cudaFree", "frees"),
    ] {
        assert_eq!(
            successes(api),
            number(&run.truth["calls"][counted]),
            "{api}"
        );
    }
}

/// The kernel carries out a `push` itself, so a probe on one is cheap. PyTorch's function
/// does not begin with one in all versions.
#[test]
fn the_probe_stands_on_a_push() {
    let Some(run) = with_torch(&DEFAULT) else {
        return;
    };
    let code = &run.truth["report_code"];
    let (file, memory) = (bytes(&code["file"]), bytes(&code["memory"]));
    let changed: Vec<usize> = (0..file.len()).filter(|i| file[*i] != memory[*i]).collect();
    let [at] = changed[..] else {
        panic!("not one probe: {code}");
    };
    assert_eq!(memory[at], BREAKPOINT, "{code}");
    let opcode = if file[at] == 0x41 {
        file[at + 1]
    } else {
        file[at]
    };
    assert!((0x50..0x58).contains(&opcode), "no push at {at}: {code}");
}

fn bytes(text: &Value) -> Vec<u8> {
    let digits = text.as_str().expect("a hex string").as_bytes();
    let pairs = digits.chunks(2).map(str::from_utf8);
    pairs
        .map(|pair| u8::from_str_radix(pair.expect("ASCII"), 16).expect("hex digits"))
        .collect()
}
