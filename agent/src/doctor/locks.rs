//! What may forbid tracing: capabilities, namespaces, filters, security modules, lockdown.
//!
//! Several of them answer alike. `EPERM` from bpf(2) may be a capability that is not held, one
//! that is held in a user namespace of our own, or a seccomp filter; `ENOSYS` is a filter much
//! more often than a kernel without the call. So what refused is told from all of it together.

use std::fmt;

use caps::Capability;
use nix::errno::Errno;

use super::{
    check::{Check, CheckId, State},
    facts,
    trial::{self, Refused},
};
use crate::kernel::{AttachMode, Features, Privileges, Release};

/// What this process may do, found out by trying.
#[derive(Clone, Debug)]
pub struct Locks {
    pub(super) release: Release,
    pub(super) privileges: Privileges,
    pub(super) features: Features,
    /// Whether the kernel has ring buffers; or what it said.
    pub(super) bpf: Result<bool, Refused>,
    /// A seccomp filter is on us.
    pub(super) filtered: bool,
    pub(super) in_initial_user_namespace: bool,
    /// What a security module confines us to.
    pub(super) security_label: Option<String>,
    /// Bytes; `None` for no limit.
    pub(super) memlock: Option<u64>,
}

/// What stands in the way of a session: the checks that found something missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked(pub Vec<Check>);

impl std::error::Error for Locked {}

impl fmt::Display for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(checks) = self;
        let findings: Vec<&str> = checks.iter().map(|check| check.finding.as_str()).collect();
        write!(f, "tracing cannot start: {}", findings.join("; "))?;
        let mut said: Vec<&str> = Vec::new();
        for check in checks {
            let lines = [&check.fix.yaml, &check.fix.shell];
            for (line, place) in lines.into_iter().zip(["in Kubernetes", "in a shell"]) {
                if let Some(line) = line.as_deref().filter(|line| !said.contains(line)) {
                    write!(f, "\nhint: {place}: {line}")?;
                    said.push(line);
                }
            }
        }
        f.write_str("\nhint: `cudasnoop doctor` checks everything")
    }
}

/// Who refused a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refuser {
    Capability,
    UserNamespace,
    Seccomp,
    SecurityModule,
    Memlock,
    Kernel,
    Unknown,
}

impl Locks {
    /// Tries.
    pub fn try_all(features: Features) -> Self {
        Self {
            release: Release::running(),
            privileges: Privileges::of_this_process(),
            features,
            bpf: trial::bpf(),
            filtered: facts::is_filtered(),
            in_initial_user_namespace: facts::in_initial_user_namespace(),
            security_label: facts::security_label(),
            memlock: facts::memlock(),
        }
    }

    /// The kernel's release.
    pub const fn release(&self) -> &Release {
        &self.release
    }

    /// Whether maps and programs can be made. If not, the kernel seems to be able to do nothing.
    pub const fn bpf_works(&self) -> bool {
        self.bpf.is_ok()
    }

    /// Fails with what is missing for tracing in `mode`.
    pub fn allow(&self, mode: AttachMode) -> Result<(), Locked> {
        let mut checks = self.checks(mode);
        checks.retain(|check| check.state == State::Missing);
        if checks.is_empty() {
            Ok(())
        } else {
            Err(Locked(checks))
        }
    }

    /// All checks. One is left out where it could not be made, and another says why.
    pub fn checks(&self, mode: AttachMode) -> Vec<Check> {
        let perf_event = match mode {
            AttachMode::Scoped | AttachMode::Shared => None,
            AttachMode::Single => Some(trial::perf_event()),
        };
        let refused = self
            .bpf
            .err()
            .or(perf_event.and_then(Result::err))
            .map(|refused| (refused, self.refuser(refused, mode)));
        let mut checks = vec![self.kernel(refused)];
        checks.extend(self.needed_capabilities(mode, refused));
        checks.extend(self.optional_capabilities());
        checks.push(self.user_namespace(refused));
        checks.push(self.seccomp(refused));
        checks.push(self.security_module(refused));
        checks.push(self.memlock(refused));
        checks.extend(self.bpf(refused));
        checks.push(self.lockdown());
        checks.extend(Self::perf_event(perf_event, refused));
        checks
    }

    fn refuser(&self, refused: Refused, mode: AttachMode) -> Refuser {
        let holds_all = Privileges::needed(mode)
            .iter()
            .filter(|capability| **capability != Capability::CAP_SYS_PTRACE)
            .all(|capability| self.privileges.has(*capability));
        match refused.errno {
            Errno::ENOSYS if self.filtered => Refuser::Seccomp,
            Errno::ENOSYS => Refuser::Kernel,
            Errno::EPERM | Errno::EACCES if !holds_all => Refuser::Capability,
            Errno::EPERM if !self.in_initial_user_namespace => Refuser::UserNamespace,
            Errno::EPERM if self.is_memlock_short() => Refuser::Memlock,
            // SELinux's answer; AppArmor knows nothing of bpf().
            Errno::EACCES if self.security_label.is_some() => Refuser::SecurityModule,
            Errno::EPERM | Errno::EACCES if self.filtered => Refuser::Seccomp,
            _ => Refuser::Unknown,
        }
    }

    fn kernel(&self, refused: Option<(Refused, Refuser)>) -> Check {
        let Self {
            release, features, ..
        } = self;
        let machine = std::env::consts::ARCH;
        if let Some((Refused { call, errno }, Refuser::Kernel)) = refused {
            let finding = format!(
                "Linux {release}: {call} answers {errno:?}: the kernel is built without it, or \
                 this is a sandbox (gVisor) that has none"
            );
            return Check::missing(CheckId::Kernel, finding).errno(errno);
        }
        let too_old = "cudasnoop needs Linux 5.15, or a back-port of attach cookies";
        let is_old = release.version().is_some_and(|version| version < (5, 15));
        match self.bpf {
            Ok(has_ring) if !has_ring || !features.attach_cookies => Check::missing(
                CheckId::Kernel,
                format!("Linux {release} is too old: {too_old}"),
            ),
            Err(_) if is_old => Check::warning(
                CheckId::Kernel,
                format!("Linux {release} may be too old: {too_old}"),
            ),
            Ok(_) | Err(_) => Check::ok(CheckId::Kernel, format!("Linux {release}, {machine}")),
        }
    }

    /// Left out where another check says who refused.
    fn bpf(&self, refused: Option<(Refused, Refuser)>) -> Option<Check> {
        match (self.bpf, refused) {
            (Ok(_), _) => Some(Check::ok(
                CheckId::Bpf,
                "bpf(): maps can be created and programs loaded",
            )),
            (Err(Refused { call, errno }), Some((_, Refuser::Unknown))) => Some(
                Check::missing(
                    CheckId::Bpf,
                    format!(
                        "{call} answers {errno:?}, and neither capabilities nor a seccomp filter \
                         explain it: the kernel's log may"
                    ),
                )
                .errno(errno)
                .shell("dmesg | tail"),
            ),
            (Err(_), _) => None,
        }
    }

    fn perf_event(
        tried: Option<Result<(), Refused>>,
        refused: Option<(Refused, Refuser)>,
    ) -> Option<Check> {
        let id = CheckId::PerfEvent;
        let paranoid = facts::perf_event_paranoid()
            .map_or_else(|| "unknown".to_owned(), |level| level.to_string());
        match (tried, refused) {
            (None, _) => Some(Check::ok(
                id,
                format!(
                    "kernel.perf_event_paranoid is {paranoid}, which matters to single uprobes only"
                ),
            )),
            (Some(Ok(())), _) => Some(Check::ok(
                id,
                format!("single uprobes can be opened; kernel.perf_event_paranoid is {paranoid}"),
            )),
            (Some(Err(Refused { call, errno })), Some((_, Refuser::Unknown))) => Some(
                Check::missing(
                    id,
                    format!(
                        "{call} answers {errno:?} for single uprobes; kernel.perf_event_paranoid \
                         is {paranoid}"
                    ),
                )
                .errno(errno)
                .shell("sysctl -w kernel.perf_event_paranoid=2"),
            ),
            (Some(Err(_)), _) => None,
        }
    }
}
