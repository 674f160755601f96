//! `doctor` names what is missing, and nothing else; `record` fails with the same words.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use e2e::{cudasnoop, dist, go_program, workload};
use serde_json::Value;

/// A process with the fake CUDA libraries loaded, until it is dropped.
struct Target(Child);

impl Target {
    fn start() -> Self {
        Self::with(&workload("mix"), &dist().join("fake-cuda"))
    }

    fn with(program: &Path, libraries: &Path) -> Self {
        let mut child = Command::new(program)
            .args(["--wait", "call", "--layer", "both"])
            .env("LD_LIBRARY_PATH", libraries)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().expect("piped"))
            .read_line(&mut line)
            .expect("a line");
        assert!(line.starts_with("ready"), "{line}");
        Self(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("waited");
    }
}

/// `cudasnoop`, started by another program.
fn through(program: &[&str]) -> Command {
    let mut command = Command::new(program[0]);
    command
        .args(&program[1..])
        .arg(dist().join("cudasnoop"))
        .stdin(Stdio::null());
    command
}

/// `cudasnoop` with these capabilities alone.
fn with_capabilities(names: &[&str]) -> Command {
    let mut set = "-all".to_owned();
    for name in names {
        set = format!("{set},+{name}");
    }
    let bounding = format!("--bounding-set={set}");
    through(&["setpriv", &bounding, "--inh-caps=-all", "--"])
}

fn diagnose(command: &mut Command, arguments: &[&str]) -> (Output, Value) {
    let output = command
        .arg("doctor")
        .args(arguments)
        .arg("--json")
        .output()
        .expect("started");
    let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    assert_eq!(diagnosis["schema"], "cudasnoop.doctor/1");
    let code = output.status.code().expect("it exits");
    assert_eq!(diagnosis["works"], code == 0, "exit code {code}");
    (output, diagnosis)
}

fn checks(part: &Value) -> &[Value] {
    part["checks"].as_array().expect("checks")
}

/// The ids of the checks that came out so.
fn ids<'a>(part: &'a Value, state: &str) -> Vec<&'a str> {
    checks(part)
        .iter()
        .filter(|check| check["state"] == state)
        .map(|check| check["id"].as_str().expect("an id"))
        .collect()
}

fn check<'a>(part: &'a Value, id: &str) -> &'a Value {
    checks(part)
        .iter()
        .find(|check| check["id"] == id)
        .unwrap_or_else(|| panic!("no {id} in {part}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// `record` says what the check says.
fn assert_record_fails_with(record: &mut Command, check: &Value) {
    let output = record
        .args(["record", "-o", "/dev/null", "--", "/bin/true"])
        .output()
        .expect("started");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    for key in ["finding", "yaml", "shell"] {
        assert!(
            said.contains(text(&check[key])),
            "{key} of {check} in: {said}"
        );
    }
}

const NEEDED: [&str; 3] = ["bpf", "perfmon", "sys_ptrace"];

#[test]
fn each_capability_in_turn() {
    let (_, all) = diagnose(&mut with_capabilities(&NEEDED), &[]);
    assert_eq!(ids(&all, "missing"), [""; 0]);
    assert_eq!(all["attach_mode"], "scoped");
    for name in NEEDED {
        let others: Vec<&str> = NEEDED.into_iter().filter(|other| *other != name).collect();
        let (_, diagnosis) = diagnose(&mut with_capabilities(&others), &[]);
        let id = format!("cap_{name}");
        assert_eq!(ids(&diagnosis, "missing"), [id.as_str()]);
        let check = check(&diagnosis, &id);
        let add = format!("capabilities: {{add: [{}]}}", name.to_uppercase());
        assert!(text(&check["yaml"]).contains(&add), "{check}");
        assert_record_fails_with(&mut with_capabilities(&others), check);
    }
}

#[test]
fn what_helps_is_a_warning_only() {
    let (_, diagnosis) = diagnose(&mut with_capabilities(&NEEDED), &[]);
    for id in ["cap_checkpoint_restore", "cap_sys_nice"] {
        assert_eq!(check(&diagnosis, id)["state"], "warning");
    }
    let with_them = [&NEEDED[..], &["checkpoint_restore", "sys_nice"]].concat();
    let (_, diagnosis) = diagnose(&mut with_capabilities(&with_them), &[]);
    for id in ["cap_checkpoint_restore", "cap_sys_nice"] {
        assert_eq!(check(&diagnosis, id)["state"], "ok");
    }
}

#[test]
fn single_uprobes_need_another_capability() {
    let output = with_capabilities(&NEEDED)
        .args(["record", "-o", "/dev/null", "--attach", "single"])
        .args(["--", "/bin/true"])
        .output()
        .expect("started");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("CAP_SYS_ADMIN is not held: perf_event_open() answers EACCES"),
        "{said}"
    );
}

/// `cudasnoop` under a filter that answers one system call with an error.
fn filtered(call: i64, errno: i32) -> Command {
    let instruction = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: u16::try_from(code).expect("16 bits"),
        jt: 0,
        jf,
        k,
    };
    let answer = libc::SECCOMP_RET_ERRNO | u32::try_from(errno).expect("positive");
    let mut program = [
        // The number of the call is the first field of `struct seccomp_data`.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        instruction(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            1,
            u32::try_from(call).expect("positive"),
        ),
        instruction(libc::BPF_RET | libc::BPF_K, 0, answer),
        instruction(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let mut command = cudasnoop();
    let install = move || {
        let filter = libc::sock_fprog {
            len: 4,
            filter: program.as_mut_ptr(),
        };
        // SAFETY: the kernel copies the program, which lives until after the call.
        let result = unsafe {
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const filter,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    // SAFETY: one system call, no memory is allocated.
    unsafe { command.pre_exec(install) };
    command
}

#[test]
fn a_seccomp_filter_is_named() {
    for (errno, name) in [(libc::EPERM, "EPERM"), (libc::ENOSYS, "ENOSYS")] {
        let (_, diagnosis) = diagnose(&mut filtered(libc::SYS_bpf, errno), &[]);
        assert_eq!(ids(&diagnosis, "missing"), ["seccomp"]);
        let check = check(&diagnosis, "seccomp");
        assert_eq!(check["errno"], name);
        assert!(text(&check["yaml"]).contains("seccompProfile: {type: Unconfined}"));
        assert_eq!(diagnosis["attach_mode"], Value::Null);
        assert_record_fails_with(&mut filtered(libc::SYS_bpf, errno), check);
    }
    // One that lets bpf() through is in nobody's way.
    let (_, diagnosis) = diagnose(&mut filtered(libc::SYS_swapon, libc::EPERM), &[]);
    assert_eq!(ids(&diagnosis, "missing"), [""; 0]);
    assert!(text(&check(&diagnosis, "seccomp")["finding"]).contains("a seccomp filter is active"));
}

#[test]
fn capabilities_of_a_user_namespace_do_not_count() {
    let rootless = ["unshare", "--user", "--map-root-user", "--"];
    let (_, diagnosis) = diagnose(&mut through(&rootless), &[]);
    assert_eq!(ids(&diagnosis, "missing"), ["user_namespace"]);
    let check = check(&diagnosis, "user_namespace");
    assert_record_fails_with(&mut through(&rootless), check);
}

#[test]
fn a_pid_namespace_of_our_own_shows_no_neighbours() {
    let alone = ["unshare", "--pid", "--fork", "--mount-proc", "--"];
    let (_, diagnosis) = diagnose(&mut through(&alone), &[]);
    let found = check(&diagnosis, "pid_namespace");
    assert_eq!(found["state"], "warning");
    assert_eq!(found["yaml"], "shareProcessNamespace: true");
    let (_, diagnosis) = diagnose(&mut cudasnoop(), &[]);
    assert_eq!(check(&diagnosis, "pid_namespace")["state"], "ok");
}

/// Path and counts of each library, as `doctor` and `probes --check` have them.
fn coverage(report: &Value, count: impl Fn(&Value) -> u64) -> Vec<(String, [u64; 4])> {
    let mut rows: Vec<_> = report["libraries"]
        .as_array()
        .expect("libraries")
        .iter()
        .map(|library| {
            let counts = ["probed", "costly", "refused", "missing"];
            (
                text(&library["path"]).to_owned(),
                counts.map(|key| count(&library[key])),
            )
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn coverage_is_that_of_the_libraries() {
    let target = Target::start();
    let (_, diagnosis) = diagnose(&mut cudasnoop(), &["--pid", &target.pid()]);
    let process = &diagnosis["processes"][0];
    assert_eq!(process["pid"].to_string(), target.pid());
    let checked = e2e::succeed(cudasnoop().args(["probes", "--check", &target.pid(), "--json"]));
    let checked: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    let found = coverage(process, |count| count.as_u64().expect("a count"));
    assert_eq!(found.len(), 2);
    assert_eq!(
        found,
        coverage(&checked, |list| list.as_array().expect("a list").len()
            as u64)
    );
    assert_eq!(ids(process, "missing"), [""; 0]);
    // Nobody asked about it, and it is found.
    let (_, all) = diagnose(&mut cudasnoop(), &[]);
    let pids: Vec<String> = all["processes"]
        .as_array()
        .expect("processes")
        .iter()
        .map(|process| process["pid"].to_string())
        .collect();
    assert!(pids.contains(&target.pid()), "{pids:?}");
}

#[test]
fn files_of_a_process_are_tried_one_by_one() {
    let target = Target::start();
    let arguments = ["--pid", &target.pid()];
    let errno =
        |diagnosis: &Value, id: &str| check(&diagnosis["processes"][0], id)["errno"].clone();
    let files = ["process_maps", "process_root", "process_map_files"];
    let (_, all) = diagnose(&mut cudasnoop(), &arguments);
    assert_eq!(files.map(|id| errno(&all, id)), [const { Value::Null }; 3]);
    // The measured answers of Linux to those who lack SYS_PTRACE and CHECKPOINT_RESTORE.
    let (_, three) = diagnose(&mut with_capabilities(&NEEDED), &arguments);
    assert_eq!(errno(&three, "process_root"), Value::Null);
    assert_eq!(errno(&three, "process_map_files"), "EPERM");
    let (_, two) = diagnose(&mut with_capabilities(&NEEDED[..2]), &arguments);
    assert_eq!(errno(&two, "process_root"), "EACCES");
    assert_eq!(
        ids(&two["processes"][0], "missing"),
        ["process_root", "libraries"]
    );
}

/// The fake libraries, the driver's under the name of its file in this version.
fn libraries_of_driver(folder: &Path, version: &str) {
    let fakes = dist().join("fake-cuda");
    fs::copy(
        fakes.join("libcudart.so.12"),
        folder.join("libcudart.so.12"),
    )
    .expect("copied");
    let file = format!("libcuda.so.{version}");
    fs::copy(fakes.join("libcuda.so.1"), folder.join(&file)).expect("copied");
    std::os::unix::fs::symlink(&file, folder.join("libcuda.so.1")).expect("linked");
}

#[test]
fn a_driver_that_is_too_old_for_the_runtime() {
    for (version, missing) in [
        ("470.57.02", &["cuda_compatibility"][..]),
        ("525.60.13", &[]),
        ("580.159.04", &[]),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        libraries_of_driver(folder.path(), version);
        let target = Target::with(&workload("mix"), folder.path());
        let (_, diagnosis) = diagnose(&mut cudasnoop(), &["--pid", &target.pid()]);
        let process = &diagnosis["processes"][0];
        assert_eq!(ids(process, "missing"), missing, "{version}");
        let driver = text(&check(process, "driver")["finding"]);
        assert!(driver.contains(version), "{driver}");
    }
}

#[test]
fn return_probes_in_a_go_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = go_program(folder.path());
    let state = |program: &Path| {
        let target = Target::with(program, &dist().join("fake-cuda"));
        let (_, diagnosis) = diagnose(&mut cudasnoop(), &["--pid", &target.pid()]);
        check(&diagnosis["processes"][0], "return_probes")["state"].clone()
    };
    assert_eq!(state(&program), "warning");
    assert_eq!(state(&workload("mix")), "ok");
    // One that calls CUDA's libraries does so on a stack that stays.
    let calls_libraries = folder.path().join("mix");
    e2e::succeed(
        Command::new("objcopy")
            .args(["--add-section", ".go.buildinfo=/dev/null"])
            .arg(workload("mix"))
            .arg(&calls_libraries),
    );
    assert_eq!(state(&calls_libraries), "ok");
}

#[test]
fn a_process_that_is_not_there() {
    let output = cudasnoop()
        .args(["doctor", "--json", "--pid", "4194303"])
        .output()
        .expect("started");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("there is no process 4194303"), "{said}");
    let wrong = cudasnoop().args(["doctor", "--pid", "x"]).output();
    assert_eq!(wrong.expect("started").status.code(), Some(2));
}

#[test]
fn as_another_user() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("set");
    let copy = folder.path().join("cudasnoop");
    fs::copy(dist().join("cudasnoop"), &copy).expect("copied");
    let target = Target::start();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--clear-groups", "--"])
        .arg(copy);
    let (_, diagnosis) = diagnose(&mut command, &["--pid", &target.pid()]);
    assert_eq!(
        ids(&diagnosis, "missing"),
        ["cap_bpf", "cap_perfmon", "cap_sys_ptrace"]
    );
    let yaml = text(&check(&diagnosis, "cap_bpf")["yaml"]);
    assert_eq!(
        yaml,
        "securityContext: {runAsUser: 0, capabilities: {add: [BPF, PERFMON, SYS_PTRACE]}}"
    );
    assert_eq!(
        ids(&diagnosis["processes"][0], "missing"),
        ["process_maps", "process_root"]
    );
}

#[test]
fn text_fits_the_terminal_and_has_no_colour_elsewhere() {
    let target = Target::start();
    let output = with_capabilities(&["bpf"])
        .args(["doctor", "--pid", &target.pid()])
        .output()
        .expect("started");
    assert_eq!(output.status.code(), Some(1));
    let page = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(!page.contains('\x1b'));
    // Lines to copy are in one piece.
    let is_to_copy = |line: &str| {
        let line = line.trim_start();
        line.starts_with("$ ") || line.starts_with("securityContext:")
    };
    for line in page.lines().filter(|line| !is_to_copy(line)) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(
        page.contains("  missing  CAP_PERFMON is not held"),
        "{page}"
    );
    assert!(page.contains("Tracing cannot work here"), "{page}");
}
