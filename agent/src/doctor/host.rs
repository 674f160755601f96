//! The machine, and our rights on it.

use super::{
    check::{Check, CheckId},
    locks::Locks,
    neighbours,
};
use crate::kernel::{
    AttachMode, Features, Release,
    btf::{TaskOffsets, VMLINUX},
};

/// What concerns the machine.
#[derive(Clone, Debug)]
pub struct Host {
    /// How running processes would be traced; `None` where nothing can be tried.
    pub mode: Option<AttachMode>,
    /// What was found.
    pub checks: Vec<Check>,
    pub(super) locks: Locks,
}

impl Host {
    /// Its kernel.
    pub const fn release(&self) -> &Release {
        self.locks.release()
    }

    pub(super) fn examine() -> Self {
        let features = Features::detect();
        let locks = Locks::try_all(features);
        let mode = locks.bpf_works().then(|| features.attach_mode(false));
        // Without a trial: what most kernels can do.
        let mut checks = locks.checks(mode.unwrap_or(AttachMode::Scoped));
        checks.push(attach_mode(mode));
        if mode.is_some() {
            checks.push(late_libraries(features));
        }
        checks.push(btf());
        checks.push(neighbours::pid_namespace(&locks));
        Self {
            mode,
            checks,
            locks,
        }
    }
}

fn attach_mode(mode: Option<AttachMode>) -> Check {
    let id = CheckId::AttachMode;
    match mode {
        None => Check::warning(id, "how probes are attached is not known until bpf() works"),
        Some(AttachMode::Scoped) => Check::ok(
            id,
            "scoped attaching: links that belong to one process; neighbours pay nothing",
        ),
        Some(AttachMode::Shared) => Check::warning(
            id,
            "shared attaching: links on all processes, so that each which calls a probed function \
             pays a little; Linux 6.10 has links that belong to one process",
        ),
        Some(AttachMode::Single) => Check::warning(
            id,
            "single uprobes: few functions, CAP_SYS_ADMIN, and 0.1 s a probe to detach; Linux 6.6 \
             has multi links",
        ),
    }
}

fn late_libraries(features: Features) -> Check {
    let id = CheckId::LateLibraries;
    if features.bpf_loop {
        Check::ok(id, "libraries that a process loads later are noticed")
    } else {
        Check::warning(
            id,
            "libraries that a process loads later are not noticed: bpf_loop needs Linux 5.17",
        )
    }
}

fn btf() -> Check {
    let id = CheckId::Btf;
    match TaskOffsets::of_running_kernel() {
        Ok(_) => Check::ok(id, format!("{VMLINUX} is there: children are followed")),
        Err(error) => Check::warning(
            id,
            format!("{error}: children of traced processes are not followed"),
        ),
    }
}
