//! `cudasnoop serve`: metrics, health and API, beside workloads that know what they did.

mod budget;
mod idle;
mod live;
mod metrics;
mod sidecar;
mod top;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
};

use e2e::{cudasnoop, record, report, succeed, truth_calls, workload_command};
use metrics::{Format, Series};
use nix::sys::signal::Signal;
use serde_json::Value;
use sidecar::{Sidecar, Step, until};

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// A title that no format likes: quotes, a backslash, a new line, and what is no UTF-8.
const TITLE: &[u8] = b"VLLM::\"Worker\"\\\n\xff{a=\"b\"} 1";
/// As it is shown.
const SHOWN: &str = "VLLM::\"Worker\"\\\u{fffd}\u{fffd}{a=\"b\"} 1";

#[test]
#[expect(clippy::float_cmp, reason = "whole numbers, far below 2^53")]
fn metrics_are_what_the_workload_did() {
    let mut command = workload_command("mix");
    command.arg0(OsStr::from_bytes(TITLE));
    command.env("FAKE_CUDA_FAIL", "cudaMemcpyAsync:3=1");
    command.args([
        "--iterations",
        "40",
        "--layer",
        "both",
        "--threads",
        "3",
        "--leak",
        "5",
    ]);
    let mut step = Step::start(command, "call,exit");
    let sidecar = Sidecar::start(&["-p", &step.pid()]);
    sidecar.is_traced(&step.pid());
    step.go();
    let truth = step.report();
    // Others the runtime makes for its own ends, too.
    let is_own =
        |name: &str| name.starts_with("cuda") || name.contains("Mem") || name.contains("Launch");
    let calls: BTreeMap<String, f64> = truth_calls(&truth)
        .into_iter()
        .filter(|(name, _)| is_own(name))
        .map(|(name, count)| (name, f64::from(u32::try_from(count).expect("small"))))
        .collect();
    let launches: f64 = calls
        .iter()
        .filter(|(api, _)| api.contains("LaunchKernel") || api.contains("LaunchCooperative"))
        .map(|(_, count)| count)
        .sum();
    for format in [Format::OpenMetrics, Format::Prometheus] {
        // Those that went into a graph, and all others.
        let launched = |series: &Series| {
            let captured = series.sum("cudasnoop_captured_launches_total", &[]);
            (captured, series.sum("cudasnoop_kernel_launches_total", &[]))
        };
        let of = |series: &Series, api: &str| {
            series.sum(
                "cudasnoop_api_calls_total",
                &[("api", api), ("process", SHOWN)],
            )
        };
        let series = until(|| {
            let series = sidecar.metrics(format);
            let all = calls.iter().all(|(api, count)| of(&series, api) == *count);
            // Kernels are counted when their names have been found.
            let (captured, ran) = launched(&series);
            (all && captured + ran == launches).then_some(series)
        })
        .unwrap_or_else(|| {
            let series = sidecar.metrics(format);
            let seen: Vec<_> = calls
                .iter()
                .map(|(api, count)| (api, *count, of(&series, api)))
                .collect();
            panic!("{seen:?}, {:?} of {launches} launches", launched(&series));
        });
        let failed = series.sum("cudasnoop_api_calls_total", &[("result", "error")]);
        let errors = truth["errors"].as_object().expect("errors").values();
        let errors: f64 = errors
            .flat_map(|codes| codes.as_object().expect("codes").values())
            .map(number)
            .sum();
        assert_eq!(errors, 1.0);
        assert_eq!(failed, errors);
        let error = [
            ("api", "cudaMemcpyAsync"),
            ("error", "cudaErrorInvalidValue"),
        ];
        assert_eq!(series.sum("cudasnoop_api_errors_total", &error), errors);
        let device = [("process", SHOWN), ("kind", "device"), ("gpu", "0")];
        assert_eq!(
            series.sum("cudasnoop_memory_live_bytes", &device),
            number(&truth["live_bytes"])
        );
        let (captured, ran) = launched(&series);
        assert!(captured > 0.0 && ran > captured);
        let unnamed = [("kernel", "unknown")];
        assert_eq!(series.sum("cudasnoop_kernel_launches_total", &unnamed), 0.0);
        let copied: f64 = truth["bytes"]
            .as_object()
            .expect("bytes")
            .iter()
            .filter(|(symbol, _)| symbol.contains("emcpy"))
            .map(|(_, bytes)| number(bytes))
            .sum();
        assert!(copied > 0.0);
        assert_eq!(series.sum("cudasnoop_memcpy_bytes_total", &[]), copied);
        let allocated = series.sum("cudasnoop_memory_allocation_size_bytes_count", &[]);
        let lived = series.sum("cudasnoop_memory_lifetime_seconds_count", &[]);
        assert!(0.0 < lived && lived < allocated, "{lived} of {allocated}");
        let waits = series.sum(
            "cudasnoop_api_duration_seconds_count",
            &[("api", "cudaDeviceSynchronize")],
        );
        assert_eq!(waits, calls["cudaDeviceSynchronize"]);
        assert!(series.sum("cudasnoop_sync_seconds_total", &[]) > 0.0);
        assert_eq!(series.sum("cudasnoop_events_lost_total", &[]), 0.0);
        assert_eq!(series.sum("cudasnoop_tracing", &[("reason", "")]), 1.0);
        assert_eq!(series.sum("cudasnoop_processes", &[]), 1.0);
        let probes = [("library", "libcudart.so.12")];
        assert!(series.sum("cudasnoop_probes_attached", &probes) > 50.0);
        for own in [
            "agent_cpu_seconds_total",
            "agent_resident_memory_bytes",
            "build_info",
        ] {
            assert!(series.sum(&format!("cudasnoop_{own}"), &[]) > 0.0, "{own}");
        }
    }
    // What ends takes its memory with it, and leaves its counts.
    step.go();
    step.end();
    sidecar.ends();
}

#[test]
#[expect(clippy::float_cmp, reason = "whole numbers, far below 2^53")]
fn scrapes_during_a_storm() {
    let mut command = workload_command("storm");
    command.args(["--kind", "launch", "--calls", "400000"]);
    let mut step = Step::start(command, "call,exit");
    let sidecar = Sidecar::start(&["-p", &step.pid()]);
    sidecar.is_traced(&step.pid());
    step.go();
    let launches =
        |series: &Series| series.sum("cudasnoop_api_calls_total", &[("api", "cudaLaunchKernel")]);
    let lost =
        |series: &Series| series.sum("cudasnoop_events_lost_total", &[("cause", "ring_full")]);
    let mut before = 0.0;
    let mut between = 0;
    while step.is_at_work() {
        let series = sidecar.metrics(Format::OpenMetrics);
        let now = launches(&series);
        assert!(now >= before, "{now} after {before}");
        between += u32::from(now > before);
        before = now;
    }
    assert!(between > 0, "no scrape found it at work");
    let truth = step.report();
    let made = number(&truth["calls"]["cudaLaunchKernel"]);
    let all = until(|| {
        let series = sidecar.metrics(Format::Prometheus);
        (launches(&series) + lost(&series) == made).then_some(())
    });
    assert!(
        all.is_some(),
        "{made} launches, {}",
        sidecar.text("/metrics")
    );
    step.go();
    step.end();
    sidecar.ends();
}

#[test]
fn a_streamed_recording_does_not_start_blind() {
    let mut command = workload_command("mix");
    command.args(["--iterations", "30", "--leak", "7"]);
    let mut step = Step::start(command, "call,exit");
    let sidecar = Sidecar::start(&["-p", &step.pid()]);
    sidecar.is_traced(&step.pid());
    step.go();
    let truth = step.report();
    let live = |json: &Value| json["processes"][0]["devices"][0]["live_bytes"].clone();
    let known = until(|| {
        let memory = sidecar.json("/api/v1/memory");
        (live(&memory) == truth["live_bytes"]).then_some(())
    });
    assert!(known.is_some());
    // All calls are over: what it knows, it was told at its beginning.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    let (status, bytes) = sidecar.admin("/api/v1/record?seconds=1");
    assert_eq!(status, 200);
    fs::write(&file, bytes).expect("written");
    let report = report(&file);
    assert_eq!(report["recording"]["complete"], true);
    assert_eq!(report["processes"][0]["pid"].to_string(), step.pid());
    let output = succeed(cudasnoop().arg("memory").arg(&file).arg("--json"));
    let memory: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(live(&memory), truth["live_bytes"], "{memory}");
    assert_eq!(memory["recording"]["damaged_checkpoints"], 0);
    step.go();
    step.end();
    sidecar.ends();
}

#[test]
fn a_streamed_recording_has_what_happens() {
    let mut command = workload_command("mix");
    command.args(["--iterations", "30"]);
    let mut step = Step::start(command, "call,exit");
    let sidecar = Sidecar::start(&["-p", &step.pid()]);
    sidecar.is_traced(&step.pid());
    let download = sidecar.download("/api/v1/record?seconds=3600");
    step.go();
    let truth = step.report();
    let made = number(&truth["calls"]["cudaMalloc"]);
    let series = || sidecar.metrics(Format::OpenMetrics);
    let api = [("api", "cudaMalloc")];
    let all = until(|| (series().sum("cudasnoop_api_calls_total", &api) >= made).then_some(()));
    assert!(all.is_some());
    // Told to end, it ends all that it streams as it should.
    sidecar.end(Signal::SIGTERM);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    fs::write(&file, download.join().expect("a download")).expect("written");
    let report = report(&file);
    assert_eq!(report["recording"]["complete"], true);
    e2e::assert_same_calls(&report, &truth);
    let kernels = report["kernels"].as_array().expect("kernels");
    assert!(!kernels.is_empty() && kernels.iter().all(|kernel| kernel["name"].is_string()));
    step.go();
    step.end();
}

/// What two observers of one process say, without what is each one's own.
fn comparable(memory: &Value) -> Vec<Value> {
    let processes = memory["processes"].as_array().expect("processes");
    processes
        .iter()
        .map(|process| {
            let mut process = process.clone();
            let object = process.as_object_mut().expect("an object");
            object.remove("at_ns");
            for device in object["devices"].as_array_mut().expect("devices") {
                let device = device.as_object_mut().expect("an object");
                device.remove("peak_ns");
                device.remove("unattributed_at_ns");
            }
            process
        })
        .collect()
}

#[test]
fn memory_is_what_a_recording_says() {
    let mut command = workload_command("mix");
    command.args(["--iterations", "50", "--threads", "2", "--leak", "3"]);
    let mut step = Step::start(command, "call,exit");
    let sidecar = Sidecar::start(&["-p", &step.pid()]);
    sidecar.is_traced(&step.pid());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.arrows");
    let recorder = Sidecar::record(&file, &step.pid());
    step.go();
    let truth = step.report();
    // Live bytes alone can be those of the end before it.
    let mut before = Vec::new();
    let memory = until(|| {
        let memory = sidecar.json("/api/v1/memory");
        let live = &memory["processes"][0]["devices"][0]["live_bytes"];
        let now = comparable(&memory);
        let is_last = *live == truth["live_bytes"] && now == before;
        before = now;
        is_last.then_some(memory)
    });
    let memory = memory.expect("all calls were seen");
    recorder.end(Signal::SIGINT);
    let output = succeed(cudasnoop().arg("memory").arg(&file).arg("--json"));
    let recorded: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(memory["schema"], recorded["schema"]);
    let (served, recorded) = (comparable(&memory), comparable(&recorded));
    assert!(!served.is_empty());
    assert_eq!(served, recorded);
    step.go();
    step.end();
    sidecar.ends();
}

#[test]
fn the_api_answers_to_addresses_alone() {
    let step = Step::start(workload_command("mix"), "call");
    let sidecar = Sidecar::start(&["-p", &step.pid()]);
    sidecar.is_traced(&step.pid());
    assert_eq!(sidecar.admin("/api/v1/memory").0, 200);
    let named = "Host: metrics.example\r\n";
    assert_eq!(sidecar::get(sidecar.admin, "/api/v1/memory", named).0, 403);
    assert_eq!(sidecar::get(sidecar.public, "/healthz", named).0, 200);
    // It is not where everyone may ask.
    assert_eq!(sidecar::get(sidecar.public, "/api/v1/memory", "").0, 404);
    assert_eq!(sidecar.admin("/api/v1/record?seconds=0").0, 400);
    assert_eq!(sidecar.admin("/api/v1/record?second=1").0, 400);
    sidecar.end(Signal::SIGTERM);
}

#[test]
fn without_a_capability_health_is_answered() {
    let step = Step::start(workload_command("mix"), "call");
    let sidecar = Sidecar::start_without("-bpf,-sys_admin", &["-p", &step.pid()]);
    let reason = until(|| {
        let (status, text) = sidecar::get(sidecar.public, "/readyz", "");
        let text = String::from_utf8_lossy(&text).into_owned();
        (status == 503 && text.contains("CAP_BPF")).then_some(text)
    });
    let reason = reason.expect("it says why");
    assert!(reason.contains("securityContext"), "{reason}");
    assert_eq!(sidecar::get(sidecar.public, "/healthz", "").0, 200);
    let series = sidecar.metrics(Format::OpenMetrics);
    let tracing = series.only("cudasnoop_tracing");
    assert_eq!(tracing["labels"]["reason"], "cap_bpf");
    assert_eq!(tracing["value"], 0.0);
    assert_eq!(sidecar.admin("/api/v1/record?seconds=1").0, 503);
    sidecar.end(Signal::SIGTERM);
}

#[test]
fn strict_ends_where_tracing_cannot_work() {
    let step = Step::start(workload_command("mix"), "call");
    let mut command = sidecar::without("-bpf,-sys_admin");
    command
        .args(sidecar::ANY_PORTS)
        .args(["--strict", "-p", &step.pid()]);
    let output = command.output().expect("started");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("CAP_BPF"), "{stderr}");
}

#[test]
fn a_command_is_served_to_its_end_and_its_exit_code_kept() {
    let mut command = sidecar::serve();
    command.args(["--log-events", "memory", "--", "sh", "-c"]);
    let mix = e2e::workload("mix");
    command.arg(format!("{} --iterations 10 && exit 7", mix.display()));
    let output = command.output().expect("started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{stderr}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let truth = stdout
        .lines()
        .find(|line| line.starts_with('{'))
        .expect("a report");
    let truth: Value = serde_json::from_str(truth).expect("JSON");
    let of = |api: &str| {
        stdout
            .lines()
            .filter(|line| line.contains(&format!(" {api}(")))
            .count()
    };
    assert_eq!(truth["calls"]["cudaMalloc"], of("cudaMalloc"));
    // A free has two lines.
    assert_eq!(
        truth["calls"]["cudaFree"].as_u64().expect("frees") * 2,
        of("cudaFree") as u64
    );
    assert_eq!(of("cudaLaunchKernel"), 0);
}

/// As in a pod: nobody says what is to be traced, and the server comes later. A rolling recording
/// goes beside, and says the same.
#[test]
#[expect(clippy::float_cmp, reason = "whole numbers, far below 2^53")]
fn a_process_that_comes_later_and_the_recording_beside() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("comes-later");
    fs::copy(e2e::workload("mix"), &program).expect("copied");
    let segments = folder.path().join("segments");
    let rolling = segments.to_str().expect("UTF-8");
    let sidecar = Sidecar::start(&[
        "--exe",
        "comes-later",
        "--rolling",
        rolling,
        "--disk",
        "8MiB",
    ]);
    let is_ready = || sidecar::get(sidecar.public, "/readyz", "").0 == 200;
    until(|| is_ready().then_some(())).expect("ready without a process");
    let mut command = Command::new(&program);
    command.env("LD_LIBRARY_PATH", e2e::dist().join("fake-cuda"));
    command.args(["--iterations", "30", "--layer", "both"]);
    let mut step = Step::start(command, "load,call,exit");
    let processes = || {
        sidecar
            .metrics(Format::OpenMetrics)
            .sum("cudasnoop_processes", &[])
    };
    until(|| (processes() == 1.0).then_some(())).expect("seen");
    step.go();
    let probed = |library: &str| {
        let series = sidecar.metrics(Format::OpenMetrics);
        series.sum("cudasnoop_probes_attached", &[("library", library)]) > 50.0
    };
    until(|| (probed("libcudart.so.12") && probed("libcuda.so.1")).then_some(())).expect("probed");
    step.go();
    let truth = step.report();
    let mallocs = number(&Value::from(truth_calls(&truth)["cudaMalloc"]));
    let counted = || {
        let series = sidecar.metrics(Format::OpenMetrics);
        series.sum("cudasnoop_api_calls_total", &[("api", "cudaMalloc")])
    };
    until(|| (counted() == mallocs).then_some(())).expect("all are counted");
    let series = sidecar.metrics(Format::Prometheus);
    assert_eq!(series.sum("cudasnoop_recording_writing", &[]), 1.0);
    assert_eq!(
        series.sum("cudasnoop_recording_budget_bytes", &[]),
        8_388_608.0
    );
    sidecar.end(Signal::SIGTERM);
    let files: Vec<_> = fs::read_dir(&segments)
        .expect("segments")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "arrows")
        })
        .collect();
    let [segment] = files.as_slice() else {
        panic!("{files:?}");
    };
    e2e::assert_same_calls(&report(segment), &truth);
}

/// Off, nothing is counted and readiness stays; on, calls are seen again.
#[test]
#[expect(clippy::float_cmp, reason = "whole numbers, far below 2^53")]
fn probes_off_and_on_by_request() {
    let mut step = Step::start(workload_command("mix"), "call,exit");
    let sidecar = Sidecar::start(&["-p", &step.pid()]);
    sidecar.is_traced(&step.pid());
    let state = |(status, text): (u16, Vec<u8>)| {
        assert_eq!(status, 200);
        let state: Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(state["schema"], "cudasnoop.probes/1");
        state["on"].as_bool().expect("a truth value")
    };
    let put = |path| sidecar::request("PUT", sidecar.admin, path, "");
    assert!(state(sidecar.admin("/api/v1/probes")));
    assert_eq!(
        sidecar.admin("/api/v1/probes/off").0,
        405,
        "to look changes nothing"
    );
    assert!(!state(put("/api/v1/probes/off")));
    sidecar.says("all probes are off");
    let series = sidecar.metrics(Format::OpenMetrics);
    let off = [("reason", "switched_off")];
    assert_eq!(
        series.only("cudasnoop_tracing")["labels"]["reason"],
        off[0].1
    );
    assert_eq!(sidecar::get(sidecar.public, "/readyz", "").0, 200);
    assert!(state(put("/api/v1/probes/on")));
    sidecar.says("all probes are on");
    step.go();
    let truth = step.report();
    let mallocs = number(&Value::from(truth_calls(&truth)["cudaMalloc"]));
    let counted = || {
        let series = sidecar.metrics(Format::OpenMetrics);
        series.sum("cudasnoop_api_calls_total", &[("api", "cudaMalloc")])
    };
    until(|| (counted() == mallocs).then_some(())).expect("all are counted");
    sidecar.end(Signal::SIGTERM);
}

#[test]
fn options_come_from_the_environment_and_a_file() {
    let step = Step::start(workload_command("mix"), "call");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cudasnoop.toml");
    fs::write(&file, "listen = \"127.0.0.1:1\"\nevents = [\"memory\"]\n").expect("written");
    let mut command = sidecar::serve();
    // The environment goes before the file, which could not be listened on.
    command
        .env("CUDASNOOP_CONFIG", &file)
        .env("CUDASNOOP_LISTEN", "127.0.0.1:0");
    command.args(["-p", &step.pid()]);
    let sidecar = Sidecar::of(command);
    sidecar.is_traced(&step.pid());
    let (status, bytes) = sidecar.admin("/api/v1/record?seconds=1");
    assert_eq!(status, 200);
    let recording = folder.path().join("run.arrows");
    fs::write(&recording, bytes).expect("written");
    assert_eq!(
        settings(&recording)["events"],
        serde_json::json!(["memory"])
    );
    sidecar.end(Signal::SIGTERM);
    fs::write(&file, "lisen = 1\n").expect("written");
    let mut command = sidecar::serve();
    command.args(["-p", "1", "--config"]).arg(&file);
    let output = command.output().expect("started");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("lisen"));
}

fn settings(recording: &Path) -> Value {
    report(recording)["recording"]["settings"].clone()
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    let mut command = sidecar::serve();
    command.args(["-p", "999999999"]);
    let output = command.output().expect("started");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no process 999999999"));
}

/// `record` and `serve` see the same; here it is that nothing else changed for `record`.
#[test]
fn variables_of_serve_leave_record_alone() {
    let run = e2e::record_with(&[], "mix", &["--iterations", "3"], |command| {
        command.env("CUDASNOOP_EVENTS", "sync");
    });
    let plain = record(&[], "mix", &["--iterations", "3"]);
    assert_eq!(
        settings(&run.file)["events"],
        settings(&plain.file)["events"]
    );
}
