//! The capabilities that tracing needs, and what to say where they are missing.

use caps::{CapSet, Capability};

use super::AttachMode;

fn has(capability: Capability) -> bool {
    caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false)
}

/// Whether the kernel lets us ask what it can do: without, it seems to be able to do nothing.
pub fn may_ask() -> bool {
    has(Capability::CAP_SYS_ADMIN) || has(Capability::CAP_BPF) && has(Capability::CAP_PERFMON)
}

/// The capabilities that are missing for tracing in this mode, by name.
///
/// Measured on Linux 6.18: multi links need BPF and PERFMON, whatever
/// `kernel.perf_event_paranoid` says; other processes' files need `SYS_PTRACE`; single uprobes
/// need `SYS_ADMIN` (kernel commit ba677dbe77af), which includes the first two.
pub fn missing(mode: AttachMode) -> Vec<&'static str> {
    let admin = has(Capability::CAP_SYS_ADMIN);
    let mut missing = Vec::new();
    if mode == AttachMode::Single && !admin {
        missing.push("CAP_SYS_ADMIN");
    }
    if !admin && !has(Capability::CAP_BPF) {
        missing.push("CAP_BPF");
    }
    if !admin && !has(Capability::CAP_PERFMON) {
        missing.push("CAP_PERFMON");
    }
    if !has(Capability::CAP_SYS_PTRACE) {
        missing.push("CAP_SYS_PTRACE");
    }
    missing
}
