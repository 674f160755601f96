//! podman with a store of its own, on machines as containers and virtual machines for tests have
//! them.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use e2e::{dist, succeed, workload};
use kubernetes_manifests::Pod;
use serde_json::{Value, json};

/// The image of the workloads and the fake CUDA pair.
pub(crate) const WORKLOADS: &str = "localhost/workloads:test";
/// A seccomp profile that allows what newer runtimes allow with `CAP_BPF` and `CAP_PERFMON`.
pub(crate) const ALLOWS_BPF: &str = "allows-bpf.json";
/// One that forbids `bpf()` alone, as older runtimes do.
pub(crate) const FORBIDS_BPF: &str = "forbids-bpf.json";
/// One that forbids `perf_event_open()` alone.
pub(crate) const FORBIDS_PERF: &str = "forbids-perf.json";

/// crun may not raise limits where the machine has no `CAP_SYS_RESOURCE`: they are left out.
const RUNTIME: &str = r#"#!/usr/bin/env python3
import json, os, sys
arguments = sys.argv[1:]
def after(option):
    return arguments[arguments.index(option) + 1]
if "create" in arguments:
    path, of = os.path.join(after("--bundle"), "config.json"), lambda config: config["process"]
elif "exec" in arguments:
    path, of = after("--process"), lambda process: process
else:
    path = None
if path:
    with open(path) as file:
        config = json.load(file)
    of(config).pop("rlimits", None)
    with open(path, "w") as file:
        json.dump(config, file)
os.execvp("crun", ["crun", *arguments])
"#;

/// podman, and what it runs; all gone when dropped.
#[derive(Debug)]
pub(crate) struct Podman {
    folder: tempfile::TempDir,
}

impl Podman {
    /// With the image of cudasnoop that `cargo xtask image` made, and one of the workloads.
    pub(crate) fn new() -> Self {
        let podman = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        let runtime = podman.path("runtime");
        fs::write(&runtime, RUNTIME).expect("written");
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).expect("set");
        podman.write_profiles();
        let image = dist().join("cudasnoop-image.tar");
        assert!(
            image.is_file(),
            "{} is missing: run `cargo xtask image` first",
            image.display()
        );
        podman.does(&["load", "--quiet", "--input", image.to_str().expect("UTF-8")]);
        podman.make_workloads();
        podman
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        // crun refuses cgroups of both versions side by side; without the second one it is content.
        let hide = "if mountpoint -q /sys/fs/cgroup/unified; then \
                    umount /sys/fs/cgroup/unified; fi; exec \"$@\"";
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", hide, "-", "podman"])
            .arg("--root")
            .arg(self.path("root"))
            .arg("--runroot")
            .arg(self.path("run"))
            .arg("--runtime")
            .arg(self.path("runtime"))
            .args(["--storage-driver", "overlay"])
            .args(arguments);
        command
    }

    /// What podman answers; panics where it fails.
    pub(crate) fn does(&self, arguments: &[&str]) -> Output {
        succeed(&mut self.command(arguments))
    }

    /// What it writes when it is given this; panics where it fails.
    pub(crate) fn reads(&self, arguments: &[&str], input: &[u8]) -> String {
        let file = self.path("input");
        fs::write(&file, input).expect("written");
        let mut command = self.command(arguments);
        command.stdin(fs::File::open(&file).expect("opened"));
        String::from_utf8(succeed(&mut command).stdout).expect("UTF-8")
    }

    /// Makes an image of the workloads, the fake CUDA pair and what these need, as the dynamic
    /// linker tells.
    fn make_workloads(&self) {
        let image = self.path("image");
        let copy = |from: &Path, to: &str| {
            let to = image.join(to);
            fs::create_dir_all(to.parent().expect("a folder")).expect("made");
            fs::copy(from, to).expect("copied");
        };
        let mix = workload("mix");
        copy(&mix, "bin/mix");
        for library in ["libcuda.so.1", "libcudart.so.12"] {
            copy(
                &dist().join("fake-cuda").join(library),
                &format!("opt/cuda/{library}"),
            );
        }
        let needed = succeed(Command::new("ldd").arg(&mix)).stdout;
        let needed = String::from_utf8(needed).expect("UTF-8");
        for file in needed
            .split_whitespace()
            .filter(|word| word.starts_with('/'))
        {
            copy(Path::new(file), file.trim_start_matches('/'));
        }
        fs::write(
            image.join("Containerfile"),
            "FROM scratch\nCOPY . /\nENV LD_LIBRARY_PATH=/opt/cuda\n",
        )
        .expect("written");
        self.does(&[
            "build",
            "--quiet",
            "--tag",
            WORKLOADS,
            image.to_str().expect("UTF-8"),
        ]);
    }

    /// Profiles made of podman's own, so that all else is as in a container anywhere.
    fn write_profiles(&self) {
        let default = fs::read("/usr/share/containers/seccomp.json").expect("podman's profile");
        let profiles = [
            (ALLOWS_BPF, &[][..]),
            (FORBIDS_BPF, &["bpf"]),
            (FORBIDS_PERF, &["perf_event_open"]),
        ];
        for (name, forbidden) in profiles {
            let mut profile: Value = serde_json::from_slice(&default).expect("JSON");
            let rules = profile["syscalls"].as_array_mut().expect("a list");
            let both = ["bpf", "perf_event_open"];
            for rule in rules.iter_mut() {
                let names = rule["names"].as_array_mut().expect("a list");
                names.retain(|name| !both.iter().any(|call| name == call));
            }
            for (calls, action) in [
                (
                    both.into_iter()
                        .filter(|call| !forbidden.contains(call))
                        .collect(),
                    json!({"action": "SCMP_ACT_ALLOW"}),
                ),
                (
                    forbidden.to_vec(),
                    json!({"action": "SCMP_ACT_ERRNO", "errnoRet": libc::EPERM}),
                ),
            ] {
                if !calls.is_empty() {
                    let mut rule = action;
                    rule["names"] = json!(calls);
                    rules.push(rule);
                }
            }
            fs::write(self.path(name), profile.to_string()).expect("written");
        }
    }

    /// Runs a pod.
    pub(crate) fn play(&self, name: &str, pod: &Pod) {
        let manifest = self.path(name).with_extension("yaml");
        fs::write(&manifest, pod.manifest()).expect("written");
        self.does(&[
            "kube",
            "play",
            "--quiet",
            "--network",
            "none",
            "--seccomp-profile-root",
            self.folder.path().to_str().expect("UTF-8"),
            manifest.to_str().expect("UTF-8"),
        ]);
    }

    /// What a container has written.
    pub(crate) fn logs(&self, container: &str) -> Output {
        self.does(&["logs", container])
    }

    /// The id of a container's first process, on the machine.
    pub(crate) fn pid(&self, container: &str) -> u32 {
        let answer = self.does(&["inspect", container, "--format", "{{.State.Pid}}"]);
        let pid = String::from_utf8(answer.stdout).expect("UTF-8");
        pid.trim().parse().expect("a process id")
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        // A test that has failed already must not panic again.
        let _ = self
            .command(&["pod", "rm", "--force", "--all", "--time", "0"])
            .output();
    }
}
