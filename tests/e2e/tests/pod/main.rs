//! A real pod, of the manifest that is shipped: the sidecar beside a workload, with the three
//! capabilities and no more.

mod network;
mod podman;
mod text;
mod tutorial;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write as _,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use e2e::{last_json, truth_calls};
use kubernetes_manifests::{Pod, SIDECAR, WORKLOAD};
use network::get;
use nix::{sys::stat::Mode, unistd::mkfifo};
use podman::{ALLOWS_BPF, FORBIDS_BPF, FORBIDS_PERF, Podman, WORKLOADS};
use serde_json::{Value, json};
use tutorial::Step;

const METRICS: u16 = 9410;
/// Long enough for anything that is going to happen at all.
const PATIENCE: Duration = Duration::from_mins(1);

fn until<T>(what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(state) if Instant::now() > end => panic!("{what}: {state}"),
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Named pipes by which workloads in containers are let go on.
struct Gates(tempfile::TempDir);

impl Gates {
    const INSIDE: &str = "/gate";

    fn new(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in names {
            mkfifo(&folder.path().join(name), Mode::S_IRWXU).expect("made");
        }
        Self(folder)
    }

    fn outside(&self) -> &str {
        self.0.path().to_str().expect("UTF-8")
    }

    fn open(&self, name: &str) {
        let mut pipe = File::options()
            .write(true)
            .open(self.0.path().join(name))
            .expect("it waits");
        writeln!(pipe).expect("written");
    }
}

/// The pod of the k3s overlay with a workload that waits at its gate.
fn pod(name: &str, gates: &Gates, iterations: &str) -> Pod {
    let gate = format!("{}/{name}", Gates::INSIDE);
    let command = [
        "/bin/mix",
        "--iterations",
        iterations,
        "--leak",
        "5",
        "--wait",
        "call,exit",
        "--gate",
        &gate,
    ];
    Pod::of_overlay("k3s", name).workload(WORKLOADS, &command, (gates.outside(), Gates::INSIDE))
}

fn container(pod: &str, name: &str) -> String {
    format!("{pod}-{name}")
}

/// Waits until a container has said this, on either output.
fn says(podman: &Podman, container: &str, words: &str) {
    until(&format!("{container} says `{words}`"), || {
        let logs = podman.logs(container);
        let said = [logs.stdout, logs.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        said.contains(words)
            .then_some(())
            .ok_or_else(|| said.into_owned())
    });
}

/// What a workload did, when it has done it.
fn report(podman: &Podman, gates: &Gates, pod: &str) -> Value {
    let container = container(pod, WORKLOAD);
    says(podman, &container, "ready call");
    gates.open(pod);
    says(podman, &container, "ready exit");
    last_json(&podman.logs(&container).stdout)
}

/// How many bytes of the code of the process's CUDA libraries are not those of their files: where
/// a probe is, there is a breakpoint.
fn changed_code(pid: u32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("readable");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("readable");
    let mut looked_at = 0;
    let mut changed = 0;
    for line in maps.lines().filter(|line| line.contains("/libcuda")) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [range, "r-xp", offset, _, _, path] = fields.as_slice() else {
            continue;
        };
        let number = |digits: &str| u64::from_str_radix(digits, 16).expect("hex");
        let (start, end) = range.split_once('-').expect("a range");
        let length = usize::try_from(number(end) - number(start)).expect("64 bits");
        let mut now = vec![0; length];
        memory
            .read_exact_at(&mut now, number(start))
            .expect("readable");
        let file = fs::read(inside(pid, path)).expect("readable");
        let offset = usize::try_from(number(offset)).expect("64 bits");
        changed += now
            .iter()
            .zip(&file[offset..])
            .filter(|(now, then)| now != then)
            .count();
        looked_at += 1;
    }
    assert_eq!(looked_at, 2, "{maps}");
    changed
}

fn inside(pid: u32, path: &str) -> PathBuf {
    Path::new(&format!("/proc/{pid}/root")).join(path.trim_start_matches('/'))
}

fn count(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn the_sidecar_counts_its_pod_and_leaves_the_neighbour_alone() {
    let podman = Podman::new();
    let gates = Gates::new(&["model", "neighbour"]);
    let mut shipped = pod("model", &gates, "40").sidecar_seccomp(ALLOWS_BPF);
    assert_eq!(
        shipped.capabilities(),
        json!({"add": ["BPF", "PERFMON", "SYS_PTRACE"], "drop": ["ALL"]})
    );
    podman.play("model", &shipped);
    let neighbour = pod("neighbour", &gates, "70").only(WORKLOAD);
    podman.play("neighbour", &neighbour);
    let sidecar = container("model", SIDECAR);
    // Which of them came first is no matter.
    says(&podman, &sidecar, "of /opt/cuda/libcudart.so.12");

    let beside = report(&podman, &gates, "neighbour");
    let truth = report(&podman, &gates, "model");
    let expected: BTreeMap<String, f64> = truth_calls(&truth)
        .into_iter()
        .filter(|(api, _)| api.starts_with("cuda"))
        .map(|(api, count)| (api, f64::from(u32::try_from(count).expect("small"))))
        .collect();
    assert_ne!(truth_calls(&beside), truth_calls(&truth));

    // Metrics, as Prometheus would scrape them.
    let pid = podman.pid(&sidecar);
    let series = until("all calls are counted", || {
        let (status, body) = get(pid, METRICS, "/metrics").ok_or("no answer")?;
        assert_eq!(status, 200);
        let body = String::from_utf8(body).expect("UTF-8");
        let series = text::parse(&body);
        let counted = text::calls(&series, "/bin/mix");
        (counted == expected)
            .then_some(series)
            .ok_or_else(|| format!("{counted:?} of {expected:?}"))
    });
    let sum = |name: &str| text::sum(&series, name, &[]);
    let traced = sum("cudasnoop_processes");
    assert!(text::is(traced, 1.0), "{traced} processes");
    assert!(text::is(sum("cudasnoop_events_lost_total"), 0.0));
    assert!(text::is(
        text::sum(&series, "cudasnoop_tracing", &[("reason", "")]),
        1.0
    ));
    let live = count(&truth["live_bytes"]);
    assert!(live > 0.0);
    assert!(text::is(sum("cudasnoop_memory_live_bytes"), live));
    assert!(text::is(sum("cudasnoop_recording_writing"), 1.0));
    // Which container, although the sidecar sees no name of it.
    let id = podman.does(&[
        "inspect",
        &container("model", WORKLOAD),
        "--format",
        "{{.Id}}",
    ]);
    let id = String::from_utf8(id.stdout).expect("UTF-8");
    let home = [("process", "/bin/mix"), ("container_id", id.trim())];
    assert!(text::is(
        text::sum(&series, "cudasnoop_process_info", &home),
        1.0
    ));

    // The log shows the memory calls, one line each.
    let lines = podman.logs(&sidecar).stdout;
    let lines = String::from_utf8(lines).expect("UTF-8");
    let mallocs = lines.lines().filter(|line| line.contains("cudaMalloc("));
    assert!(text::is(
        f64::from(u32::try_from(mallocs.count()).expect("small")),
        expected["cudaMalloc"]
    ));

    follow_the_tutorial(&podman, &sidecar, pid);

    // The neighbour runs the same code, and not a byte of it is changed.
    let [traced, untraced] =
        ["model", "neighbour"].map(|pod| podman.pid(&container(pod, WORKLOAD)));
    let inode = |pid| {
        let library = inside(pid, "/opt/cuda/libcudart.so.12");
        fs::metadata(library).expect("there").ino()
    };
    assert_eq!(inode(traced), inode(untraced));
    assert!(changed_code(traced) > 50);
    assert_eq!(changed_code(untraced), 0);

    gates.open("model");
    gates.open("neighbour");
}

/// Does what docs/tutorial.md says, in this pod. The API is on its loopback, as
/// `kubectl port-forward` reaches it.
fn follow_the_tutorial(podman: &Podman, sidecar: &str, pid: u32) {
    let mut recording = Vec::new();
    let steps = tutorial::steps();
    let reads = steps.iter().filter(|step| matches!(step, Step::Read(_)));
    assert!(steps.len() > 10 && reads.count() > 1, "{steps:?}");
    for step in steps {
        match &step {
            Step::Run(command) => {
                let exec = ["exec", sidecar].into_iter();
                let exec = exec.chain(command.iter().map(String::as_str));
                podman.does(&exec.collect::<Vec<_>>());
            }
            Step::Read(command) => {
                assert!(!recording.is_empty(), "recorded before {step:?}");
                let exec = ["exec", "--interactive", sidecar].into_iter();
                let exec = exec.chain(command.iter().map(String::as_str));
                let said = podman.reads(&exec.collect::<Vec<_>>(), &recording);
                assert!(said.contains("/bin/mix"), "{step:?}: {said}");
            }
            Step::Get(port, path) => {
                let (status, body) = get(pid, *port, path).expect("an answer");
                assert_eq!(status, 200, "{step:?}");
                if path.contains("/record?") {
                    recording = body;
                }
            }
        }
    }
}

/// Plays a pod of the sidecar alone; its id on the machine.
fn alone(podman: &Podman, name: &str, pod: Pod) -> u32 {
    podman.play(name, &pod.only(SIDECAR));
    let pid = podman.pid(&container(name, SIDECAR));
    until("it listens", || {
        get(pid, METRICS, "/healthz")
            .map(|(status, _)| assert_eq!(status, 200))
            .ok_or_else(|| "no answer".to_owned())
    });
    pid
}

/// Status and text.
fn ask(pid: u32, path: &str) -> (u16, String) {
    let (status, body) = get(pid, METRICS, path).expect("an answer");
    (status, String::from_utf8(body).expect("UTF-8"))
}

/// It is alive, says what is missing and the line that helps, and restarts nothing.
fn assert_names(podman: &Podman, name: &str, pid: u32, reason: &str, words: [&str; 2]) {
    let said = until("it says why", || match ask(pid, "/readyz") {
        (503, said) if said.contains("tracing cannot start") => Ok(said),
        (status, said) => Err(format!("{status}: {said}")),
    });
    let logs = podman.logs(&container(name, SIDECAR)).stderr;
    let logs = String::from_utf8(logs).expect("UTF-8");
    for word in words {
        assert!(said.contains(word), "no `{word}` in {said}");
        assert!(logs.contains(word), "no `{word}` in {logs}");
    }
    let (_, metrics) = ask(pid, "/metrics");
    let off = format!("cudasnoop_tracing{{reason=\"{reason}\"}} 0");
    assert!(metrics.contains(&off), "no `{off}` in {metrics}");
}

#[test]
fn each_capability_that_is_missing_is_named() {
    let podman = Podman::new();
    for capability in ["BPF", "PERFMON", "SYS_PTRACE"] {
        let name = capability.to_lowercase().replace('_', "-");
        let pod = Pod::of_overlay("k3s", &name)
            .without_capability(capability)
            .sidecar_seccomp(ALLOWS_BPF);
        let pid = alone(&podman, &name, pod);
        let reason = format!("cap_{}", capability.to_lowercase());
        let finding = format!("CAP_{capability} is not held");
        let line = format!("securityContext: {{capabilities: {{add: [{capability}]}}}}");
        assert_names(&podman, &name, pid, &reason, [&finding, &line]);
    }
}

#[test]
fn a_seccomp_profile_that_forbids_bpf_is_named() {
    let podman = Podman::new();
    let pod = Pod::of_overlay("k3s", "forbidden").sidecar_seccomp(FORBIDS_BPF);
    let pid = alone(&podman, "forbidden", pod);
    let words = [
        "the container's seccomp profile forbids bpf",
        "securityContext: {seccompProfile: {type: Unconfined}}",
    ];
    assert_names(&podman, "forbidden", pid, "seccomp", words);
    // Multi links do without perf_event_open().
    let pod = Pod::of_overlay("k3s", "allowed").sidecar_seccomp(FORBIDS_PERF);
    let pid = alone(&podman, "allowed", pod);
    until("it traces", || match ask(pid, "/readyz") {
        (200, _) => Ok(()),
        (status, said) => Err(format!("{status}: {said}")),
    });
}
