//! No line of any text is wider than 80 columns, whatever the names in a recording.

mod sample;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agent_common::launch::Dimensions;
use sample::{SECOND, START, Sample, at, process};
use tempfile::TempDir;
use trace::fact::{Caller, Gap, Kernel, Module};
use trace::{Event, Fact, Kind};

/// The longest process id that is shown: one of a second host.
const PID: u32 = 14_194_304;

/// A template in templates, as CUTLASS has them; and one that no demangler knows.
fn names() -> [String; 3] {
    let nested = (0..40).fold("IfE".to_owned(), |inner, _| format!("I1A{inner}E"));
    [
        format!("_ZN7cutlass13device_kernel{nested}EvT_"),
        format!("triton_{}", "poi_fused_add_mul_".repeat(20)),
        "k".repeat(300),
    ]
}

/// A path whose last part is long, too, and has no blank where it could be broken.
fn path(kind: &str) -> String {
    format!("/opt/{}/lib{}.so.13", "deeply/".repeat(20), kind.repeat(30))
}

/// Everything once, and then all with long names and large numbers.
fn long() -> Sample {
    let mut sample = sample::everything();
    let title = "VLLM::Worker_TP0_".repeat(8);
    sample.fact(START, PID, &process(PID, &title, false));
    for (id, module) in [(0, path("torch")), (1, path("nccl"))] {
        let module = Some(module);
        sample.fact(START, PID, &Fact::Caller(Caller { id, module }));
    }
    for (id, name) in (10..).zip(names()) {
        let kernel = Kernel {
            id,
            name: Some(name),
            module: Some(path("cublasLt")),
            handle: u64::MAX,
        };
        sample.fact(START, PID, &Fact::Kernel(kernel));
        for n in 0..1500 {
            let dimensions = Some(Dimensions {
                grid: [1_000_000, 1, 1],
                block: [1024, 1, 1],
            });
            let event = Event {
                kernel: Some(id),
                dimensions,
                caller: Some(1),
                tid: PID + 1,
                ..at(PID, 3000 + n)
            };
            sample.call("cuLaunchKernelEx", 0, 50_000, event);
        }
    }
    let failing = Event {
        kernel: Some(10),
        caller: Some(0),
        ..at(PID, 6000)
    };
    sample.call("cudaLaunchKernel", 700, 1000, failing);
    memory(&mut sample);
    copies_and_waits(&mut sample);
    let gap = Gap {
        pid: PID,
        reason: format!("its library {} was loaded late", path("cudart")),
        duration: Some(1 << 60),
    };
    sample.fact(START + SECOND, PID, &Fact::Gap(gap));
    let module = Module {
        path: path("cudart"),
        dev: 1,
        inode: 2,
        build_id: None,
        probes: Vec::new(),
        missing: Vec::new(),
        refused: vec![("s".repeat(200), "r".repeat(200))],
    };
    sample.fact(START, PID, &Fact::Module(module));
    sample.end(START + 100 * SECOND, |account| {
        account.lost_ring = u64::MAX / 2;
    });
    sample
}

fn memory(sample: &mut Sample) {
    for n in 0..20_u64 {
        let event = Event {
            address: Some(0x7f00_0000_0000 + (n << 34)),
            size: Some(3 << 30),
            device: Some(1_000_000),
            caller: Some(u32::try_from(n % 2).expect("small")),
            ..at(PID, 100 + n)
        };
        sample.call("cudaMalloc", 0, 100_000, event.clone());
        let report = Event {
            size: Some(1 << 30),
            allocated: Some((n + 1) << 30),
            reserved: Some((n + 1) * (3 << 30)),
            ..event
        };
        sample.row("c10::reportMemoryUsageToProfiler", Kind::Call, report);
    }
    let refused = Event {
        size: Some(1 << 60),
        device: Some(1_000_000),
        ..at(PID, 7000)
    };
    sample.call("cudaMalloc", 2, 100_000, refused);
}

fn copies_and_waits(sample: &mut Sample) {
    for n in 0..2000 {
        let copy = Event {
            size: Some(1 << 40),
            copy_kind: Some(1),
            source: Some(0x5000),
            address: Some(0x7f00_0000_0000),
            stream: Some(7),
            ..at(PID, 8000 + n)
        };
        sample.call("cudaMemcpyAsync", 0, 500_000, copy);
        let wait = Event {
            caller: Some(1),
            stream: Some(7),
            ..at(PID, 8000 + n)
        };
        sample.call("cudaStreamSynchronize", 0, 40_000, wait);
    }
}

/// What a command prints; panics if a line is wider than 80 columns, or ends in a blank.
fn assert_fits(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_cudasnoop-analyzer"))
        .args(arguments)
        .output()
        .expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(!text.is_empty(), "{arguments:?}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{arguments:?}:\n{line}");
        assert!(!line.ends_with(' '), "{arguments:?}:\n{line:?}");
    }
}

fn recordings(directory: &TempDir) -> Vec<PathBuf> {
    let long_names = directory.path().join("long.arrows");
    fs::write(&long_names, long().file()).expect("the file can be written");
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/h100");
    vec![
        long_names,
        real.join("oom.arrows"),
        real.join("snapshot.arrows"),
    ]
}

#[test]
fn analyses_of_recordings() {
    let directory = TempDir::new().expect("a directory");
    for recording in recordings(&directory) {
        let recording = recording.to_str().expect("letters");
        for command in [
            &["report"][..],
            &["memory", "--timeline"],
            &["fragmentation"],
            &["fragmentation", "--fit", "1GiB"],
            &["leaks"],
            &["errors"],
            &["transfers"],
            &["syncs"],
            &["launches"],
            &["oom", "--recording"],
            &["hist"],
            &["hist", "--by", "api"],
            &["hist", "--by", "process"],
            &["hist", "--by", "device"],
            &["hist", "--by", "caller"],
            &["hist", "--by", "kernel"],
            &["diff", recording],
        ] {
            assert_fits(&[command, &[recording]].concat());
        }
    }
}

#[test]
fn snapshots_and_logs() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for folder in ["h100", "oom", "snapshot"] {
        for entry in fs::read_dir(fixtures.join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let command = match path.extension().and_then(|extension| extension.to_str()) {
                Some("pickle") => "snapshot",
                Some("log") => "oom",
                Some(_) | None => continue,
            };
            assert_fits(&[command, path.to_str().expect("letters")]);
        }
    }
}
