//! Whether the truth is true: what the workloads say that they did is what the fake libraries
//! counted at their entries, two counts made by different code.

use std::{collections::BTreeMap, process::Stdio};

use workloads::report::Report;

use crate::fake_cuda::FakeCuda;

const MIX: &str = env!("CARGO_BIN_EXE_mix");
const MIX_LINKED: &str = env!("CARGO_BIN_EXE_mix-linked");
const LATE: &str = env!("CARGO_BIN_EXE_late");
const STORM: &str = env!("CARGO_BIN_EXE_storm");
const HANG: &str = env!("CARGO_BIN_EXE_hang");
const DIE: &str = env!("CARGO_BIN_EXE_die");
const TORCH: &str = env!("CARGO_BIN_EXE_torch");
const DEMO: &str = env!("CARGO_BIN_EXE_demo");

/// Runtime functions and the one driver function that each call of them makes.
const RUNTIME_TO_DRIVER: [(&str, &str); 16] = [
    ("cudaMalloc", "cuMemAlloc_v2"),
    ("cudaFree", "cuMemFree_v2"),
    ("cudaMemGetInfo", "cuMemGetInfo_v2"),
    ("cudaLaunchKernel", "cuLaunchKernel"),
    ("cudaLaunchKernel_ptsz", "cuLaunchKernel_ptsz"),
    ("cudaLaunchKernelExC", "cuLaunchKernelEx"),
    ("cudaLaunchKernelExC_ptsz", "cuLaunchKernelEx_ptsz"),
    ("cudaLaunchCooperativeKernel", "cuLaunchCooperativeKernel"),
    (
        "cudaLaunchCooperativeKernel_ptsz",
        "cuLaunchCooperativeKernel_ptsz",
    ),
    ("cudaGraphLaunch", "cuGraphLaunch"),
    ("cudaGraphLaunch_ptsz", "cuGraphLaunch_ptsz"),
    ("cudaDeviceSynchronize", "cuCtxSynchronize"),
    ("cudaStreamSynchronize", "cuStreamSynchronize"),
    ("cudaStreamSynchronize_ptsz", "cuStreamSynchronize_ptsz"),
    ("cudaEventSynchronize", "cuEventSynchronize"),
    ("cudaStreamEndCapture", "cuStreamEndCapture"),
];

fn count(counts: &BTreeMap<String, u64>, symbol: &str) -> u64 {
    counts.get(symbol).copied().unwrap_or(0)
}

/// Compares the two counts of every runtime call and every call of [`RUNTIME_TO_DRIVER`].
fn check(report: &Report) {
    assert_eq!(report.cuda, "fake");
    // The jumping symbols are not functions to the fake: they have no entry of their own.
    let calls = report
        .calls
        .iter()
        .filter(|(symbol, _)| !symbol.starts_with("__cudaLaunch"));
    let calls: BTreeMap<String, u64> = calls
        .map(|(symbol, count)| (symbol.clone(), *count))
        .collect();
    let counted: BTreeMap<String, u64> = report
        .entries
        .iter()
        .filter(|(symbol, _)| symbol.starts_with("cuda") || symbol.starts_with("__cuda"))
        .map(|(symbol, count)| (symbol.clone(), *count))
        .collect();
    assert_eq!(calls, counted);
    for (runtime, driver) in RUNTIME_TO_DRIVER {
        assert_eq!(
            count(&report.calls, runtime) + count(&report.driver_calls_own, driver),
            count(&report.entries, driver),
            "{driver}"
        );
    }
}

#[test]
fn mix_is_counted_the_same_by_both_sides() {
    let fake = FakeCuda::new();
    for cudart in ["libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13"] {
        for layer in ["runtime", "driver", "both"] {
            let report = fake.run(
                MIX,
                &["--cudart", cudart, "--layer", layer, "--iterations", "7"],
            );
            check(&report);
            assert_eq!(report.errors, BTreeMap::new(), "{cudart} {layer}");
            assert_eq!(report.live_bytes, 0, "{cudart} {layer}");
        }
    }
}

#[test]
fn mix_adds_up_over_threads_and_children() {
    let fake = FakeCuda::new();
    let one = fake.run(MIX, &["--iterations", "5", "--leak", "3"]);
    let arguments = [
        "--iterations",
        "5",
        "--leak",
        "3",
        "--threads",
        "4",
        "--forks",
        "2",
    ];
    let twelve = fake.run(MIX, &[arguments.as_slice(), &["--handoff"]].concat());
    check(&twelve);
    for (symbol, calls) in &one.calls {
        assert_eq!(twelve.calls[symbol], 12 * calls, "{symbol}");
    }
    assert_eq!(one.live_bytes, 3 << 20);
    assert_eq!(twelve.live_bytes, 12 * one.live_bytes);
    assert_eq!(twelve.pids.len(), 3);
}

#[test]
fn a_program_linked_with_the_runtime_has_it_from_its_start() {
    let fake = FakeCuda::new();
    let linked = fake.run(MIX_LINKED, &["--iterations", "3"]);
    check(&linked);
    assert_eq!(linked.calls, fake.run(MIX, &["--iterations", "3"]).calls);
}

#[test]
fn late_counts_children_copies_and_both_images() {
    let fake = FakeCuda::new();
    let directory = fake.path().join("a b");
    let copy = directory.join("my libcudart.so.12");
    std::fs::create_dir(&directory).expect("a new directory");
    std::fs::copy(fake.path().join("libcudart.so.12"), &copy).expect("a copy");
    let copy = copy.to_str().expect("UTF-8");
    let plain = fake.path().join("libcudart.so.13");
    let plain = plain.to_str().expect("UTF-8");
    let paths = ["--after-ms", "1", "--path", copy, "--path", plain];
    let arguments = ["--calls", "5", "--fork", "2", "--exec"];
    let report = fake.run(LATE, &[paths.as_slice(), &arguments].concat());
    check(&report);
    // Two runtimes, three processes, two images, five rounds.
    assert_eq!(report.calls["cudaMalloc"], 2 * 3 * 2 * 5);
    assert_eq!(
        report.pids.len(),
        5,
        "the process keeps its id through exec"
    );
}

#[test]
fn storm_counts_what_it_measures() {
    let fake = FakeCuda::new();
    for (kind, runtime, driver) in [
        ("launch", "cudaLaunchKernel", "cuLaunchKernel"),
        ("malloc", "cudaFree", "cuMemFree_v2"),
        ("copy", "cudaMemcpyAsync", "cuMemcpyHtoDAsync_v2"),
        ("sync", "cudaStreamSynchronize", "cuStreamSynchronize"),
        ("graph", "cudaGraphLaunch", "cuGraphLaunch"),
    ] {
        let arguments = [
            "--kind",
            kind,
            "--calls",
            "100",
            "--rounds",
            "3",
            "--threads",
            "2",
        ];
        let report = fake.run(STORM, &arguments);
        check(&report);
        assert_eq!(report.calls[runtime], 2 * (3 * 100 + 1), "{kind}");
        let report = fake.run(
            STORM,
            &[arguments.as_slice(), &["--layer", "driver"]].concat(),
        );
        assert_eq!(report.driver_calls_own[driver], 2 * (3 * 100 + 1), "{kind}");
        assert_eq!(report.entries[driver], 2 * (3 * 100 + 1), "{kind}");
    }
}

#[test]
fn demo_forgets_every_tenth_scratch_buffer() {
    let report = FakeCuda::new().run(DEMO, &["--steps", "20", "--step-ms", "0"]);
    check(&report);
    assert_eq!(report.live_bytes, 2 * (512 << 10));
    assert_eq!(report.calls["cudaLaunchKernel"], 20 * (2 + 8 * 6));
}

#[test]
fn torch_knows_its_segments_and_reports() {
    let report = FakeCuda::new().run(TORCH, &["--rounds", "2", "--out-of-memory"]);
    check(&report);
    let checkpoints = report.extra["checkpoints"].as_array().expect("a list");
    for point in checkpoints {
        let blocks = point["blocks"].as_array().expect("a list");
        let sum: u64 = blocks
            .iter()
            .map(|block| block["size"].as_u64().expect("bytes"))
            .sum();
        assert_eq!(point["allocated"], sum, "{}", point["label"]);
    }
    let last = checkpoints.last().expect("checkpoints");
    assert_eq!(
        (&last["allocated"], &last["reserved"]),
        (&0.into(), &0.into())
    );
    assert_eq!(
        report.extra["torch_calls"]["c10::reportOutOfMemoryToProfiler"],
        2
    );
    // One request beyond the device fails, and fails again with an empty cache.
    assert_eq!(report.errors["cudaMalloc"]["2"], 2 * 2);
}

/// What PyTorch 2.15's own allocator (its `libc10_cuda.so` over this fake runtime) held after
/// the same requests, bytes: `allocated_bytes` and `reserved_bytes` of its `getDeviceStats`.
const MEASURED: [(&str, u64, u64); 7] = [
    ("start", 0, 0),
    ("allocated", 94_475_264, 102_760_448),
    ("every other block freed", 16_779_264, 102_760_448),
    ("holes filled", 22_125_568, 104_857_600),
    ("out of memory", 22_125_568, 37_748_736),
    ("all freed", 0, 37_748_736),
    ("cache emptied", 0, 0),
];

#[test]
fn torch_holds_what_pytorchs_own_allocator_holds() {
    let report = FakeCuda::new().run(TORCH, &["--out-of-memory"]);
    let checkpoints = report.extra["checkpoints"].as_array().expect("a list");
    let held: Vec<(&str, u64, u64)> = checkpoints
        .iter()
        .map(|point| {
            let bytes = |key: &str| point[key].as_u64().expect("bytes");
            let label = point["label"].as_str().expect("a label");
            (label, bytes("allocated"), bytes("reserved"))
        })
        .collect();
    assert_eq!(held, MEASURED);
}

#[test]
fn devices_are_chosen_by_ordinal() {
    let fake = FakeCuda::new();
    let arguments = ["--iterations", "2", "--device", "1"];
    check_errors(&fake.run(MIX, &arguments), &[("cudaSetDevice", "101", 1)]);
    let two = fake.run_with(MIX, &arguments, &[("FAKE_CUDA_DEVICES", "2")]);
    check(&two);
    check_errors(&two, &[]);
}

#[test]
fn a_thread_dies_inside_its_call_and_the_process_goes_on() {
    let report = FakeCuda::new().run(DIE, &["--calls", "4"]);
    check(&report);
    assert_eq!(report.calls["cudaMalloc"], 8);
    assert_eq!(report.extra["in_flight"]["cudaDeviceSynchronize"], 1);
}

#[test]
fn hang_reports_and_then_stays_in_the_call() {
    let fake = FakeCuda::new();
    let mut child = fake
        .command(HANG)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("a line");
    let report: Report = serde_json::from_str(&line).expect("a report");
    assert_eq!(report.extra["in_flight"]["cudaDeviceSynchronize"], 1);
    assert!(
        child.try_wait().expect("our child").is_none(),
        "it does not end by itself"
    );
    child.kill().expect("our child");
    child.wait().expect("our child");
}

#[test]
fn planned_failures_come_out_as_planned() {
    let fake = FakeCuda::new();
    let plan = "cudaMalloc:2=2,cudaMalloc:4=2,cuLaunchKernel:3=700,cudaMemcpy:*=1";
    let report = fake.run_with(MIX, &["--iterations", "5"], &[("FAKE_CUDA_FAIL", plan)]);
    check_errors(
        &report,
        &[
            ("cudaMalloc", "2", 2),
            // The driver's code comes out of the runtime function that called it.
            ("cudaLaunchKernel", "700", 1),
            ("cudaMemcpy", "1", 15),
        ],
    );
    assert_eq!(
        report.calls["cudaFree"], 3,
        "what was not allocated is not freed"
    );
    assert_eq!(count(&report.bytes, "cudaMemcpy"), 0);
}

fn check_errors(report: &Report, expected: &[(&str, &str, u64)]) {
    let errors = report.errors.iter().flat_map(|(symbol, codes)| {
        codes
            .iter()
            .map(|(code, count)| (symbol.as_str(), code.as_str(), *count))
    });
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(errors.collect::<Vec<_>>(), expected);
}

#[test]
fn a_small_device_runs_out() {
    let capacity = [("FAKE_CUDA_CAPACITY", "4194304")];
    let report = FakeCuda::new().run_with(MIX, &["--iterations", "6"], &capacity);
    check_errors(&report, &[("cudaMalloc", "2", 1)]); // the block of 20 MiB
}

#[test]
fn latency_is_spent_in_the_call() {
    let settings = [(
        "FAKE_CUDA_LATENCY",
        "cudaStreamSynchronize=2ms,cudaLaunchKernel=20us",
    )];
    let fake = FakeCuda::new();
    for (kind, least) in [("sync", 2e6), ("launch", 20e3)] {
        let report = fake.run_with(STORM, &["--kind", kind, "--calls", "5"], &settings);
        let median = report.extra["ns_per_operation"]["median"]
            .as_f64()
            .expect("a number");
        assert!(median >= least, "{kind}: {median} ns");
    }
}

#[test]
fn settings_that_mean_nothing_end_the_program() {
    let fake = FakeCuda::new();
    for (variable, value) in [
        ("FAKE_CUDA_FAIL", "cudaMaloc:1=2"),
        ("FAKE_CUDA_FAIL", "cuMemAlloc:1=2"), // the exported name has _v2
        ("FAKE_CUDA_LATENCY", "cudaMalloc=5"),
        ("FAKE_CUDA_CAPACITY", "80G"),
    ] {
        let output = fake
            .command(MIX)
            .env(variable, value)
            .output()
            .expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{variable}={value}");
        assert!(
            errors.contains("fake CUDA: ") && errors.contains(variable),
            "{errors}"
        );
    }
}

#[test]
fn without_a_driver_every_call_says_so() {
    let fake = FakeCuda::new();
    std::fs::remove_file(fake.path().join("libcuda.so.1")).expect("it was there");
    let report = fake.run(MIX, &["--iterations", "1"]);
    assert_eq!(report.errors["cudaMalloc"]["35"], 1);
    assert_eq!(report.errors["cudaLaunchKernel"]["35"], 2);
}
