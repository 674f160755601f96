//! A process: what of it can be read, what of its libraries is probed, what is risky.

mod compatibility;
mod files;
mod versions;

use std::path::{Path, PathBuf};

use agent_common::Layer;

use super::{
    check::{Check, CheckId},
    locks::Locks,
};
use crate::attach::{EntryOnly, NoReturns};
use crate::discover::{self, Found, Libraries, Mappings, Process, ProcessError, Scan, Seen};

/// A process that was looked at.
#[derive(Clone, Debug)]
pub struct Examined {
    /// Its id in our pid namespace.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// The libraries that are traced.
    pub libraries: Vec<Coverage>,
    /// What was found.
    pub checks: Vec<Check>,
}

/// How much of a library is probed: how many symbols of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// Its path, as the process sees it.
    pub path: PathBuf,
    /// What it implements.
    pub layers: Vec<Layer>,
    /// Symbols that get a probe.
    pub probed: usize,
    /// Of them, those whose probe the kernel single-steps.
    pub costly: usize,
    /// Symbols that are there and cannot have a probe.
    pub refused: usize,
    /// Symbols that this version lacks.
    pub missing: usize,
}

impl Coverage {
    fn of(found: &Found) -> Self {
        let Found { library, path, .. } = found;
        Self {
            path: path.clone(),
            layers: library.layers.clone(),
            probed: library.points.len(),
            costly: library
                .points
                .iter()
                .filter(|point| !point.emulated)
                .count(),
            refused: library.refused.len(),
            missing: library.missing.len(),
        }
    }
}

/// The visible processes that map a library which is named like CUDA's, by id.
pub(super) fn with_cuda() -> Vec<Process> {
    let mut pids = discover::pids().unwrap_or_default();
    pids.sort_unstable();
    pids.into_iter()
        .filter_map(|pid| Process::open(pid).ok())
        .filter(|process| Mappings::read(process).is_ok_and(|mappings| maps_cuda(&mappings)))
        .collect()
}

fn maps_cuda(mappings: &Mappings) -> bool {
    let mut files = mappings.files().iter();
    files.any(|file| file_name(&file.path).starts_with("libcuda"))
}

/// Whether there are such processes.
pub(super) fn presence(count: usize) -> Check {
    let id = CheckId::Processes;
    match count {
        0 => Check::warning(
            id,
            "no visible process maps a CUDA library: none has loaded one yet, it is linked \
             statically, or its process is in a pid namespace that we do not see",
        ),
        1 => Check::ok(id, "1 visible process maps a CUDA library"),
        several => Check::ok(
            id,
            format!("{several} visible processes map CUDA libraries"),
        ),
    }
}

impl Examined {
    pub(super) fn look_at(process: &Process, locks: &Locks) -> Self {
        let mut checks = vec![files::maps(process, locks), files::root(process, locks)];
        let mut libraries = Vec::new();
        match Mappings::read(process) {
            Ok(mappings) => {
                checks.push(files::map_files(process, &mappings));
                let scan = Libraries::default().scan(process, &mappings, &mut Seen::default());
                checks.push(traced(&scan, maps_cuda(&mappings)));
                checks.push(compatibility::driver(&scan.found));
                checks.extend(compatibility::of_runtimes(&scan.found));
                libraries = scan.found.iter().map(Coverage::of).collect();
            }
            // As was said of the file.
            Err(ProcessError::Denied { .. }) => {}
            Err(error) => checks.push(Check::missing(CheckId::Libraries, error.to_string())),
        }
        checks.push(leader(process));
        checks.push(return_probes(process));
        Self {
            pid: process.pid(),
            command: process.command(),
            libraries,
            checks,
        }
    }
}

/// What of the libraries can be traced. `is_expected`: a file is named like CUDA's.
fn traced(scan: &Scan, is_expected: bool) -> Check {
    let id = CheckId::Libraries;
    let Scan { found, failures } = scan;
    let not_read = match failures.as_slice() {
        [] => String::new(),
        [one] => format!("; a mapped file could not be looked into: {one}"),
        [first, rest @ ..] => format!(
            "; {} mapped files could not be looked into, the first: {first}",
            rest.len() + 1
        ),
    };
    let probed: usize = found.iter().map(|found| found.library.points.len()).sum();
    let libraries = if found.len() == 1 {
        "library"
    } else {
        "libraries"
    };
    match (found.len(), failures.is_empty()) {
        (0, false) if is_expected => Check::missing(
            id,
            format!("it maps CUDA libraries, and none can be traced{not_read}"),
        ),
        (0, _) => Check::warning(
            id,
            format!(
                "it maps no CUDA library now: it has not loaded one yet, or it is no CUDA \
                 program{not_read}"
            ),
        ),
        (count, true) => Check::ok(
            id,
            format!("{probed} functions probed in {count} {libraries}"),
        ),
        (count, false) => Check::warning(
            id,
            format!("{probed} functions probed in {count} {libraries}{not_read}"),
        ),
    }
}

fn leader(process: &Process) -> Check {
    let id = CheckId::LeaderThread;
    if process.leader_exited() {
        Check::warning(
            id,
            "its leader thread has exited: links that belong to it would catch nothing, so it is \
             attached to in shared mode, which costs its neighbours a little",
        )
    } else {
        Check::ok(id, "its leader thread is alive")
    }
}

fn return_probes(process: &Process) -> Check {
    let id = CheckId::ReturnProbes;
    let Some(reason) = EntryOnly::Auto.reason(process) else {
        return Check::ok(id, "return probes are safe");
    };
    let finding =
        format!("calls are probed at entry alone, so that they are counted and no more: {reason}");
    let check = Check::warning(id, finding);
    match reason {
        NoReturns::Filter => check
            .yaml("securityContext: {seccompProfile: {type: Unconfined}}")
            .shell("docker run --security-opt seccomp=unconfined"),
        NoReturns::Go | NoReturns::Asked | NoReturns::Shared => check,
    }
}

/// The last part of a path; empty where there is none.
fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
