//! The capabilities that tracing needs.

use caps::{CapSet, Capability, CapsHashSet};

use super::AttachMode;

/// The capabilities that this process has in effect.
#[derive(Clone, Debug)]
pub struct Privileges(CapsHashSet);

impl Privileges {
    /// These capabilities.
    pub const fn new(effective: CapsHashSet) -> Self {
        Self(effective)
    }

    /// Asks the kernel; none where it does not tell.
    pub fn of_this_process() -> Self {
        Self::new(caps::read(None, CapSet::Effective).unwrap_or_default())
    }

    /// Whether `capability` is held, or `CAP_SYS_ADMIN` in its place: the kernel takes that for
    /// those that were split off from it (capabilities(7)).
    pub fn has(&self, capability: Capability) -> bool {
        let split_off = matches!(
            capability,
            Capability::CAP_BPF | Capability::CAP_PERFMON | Capability::CAP_CHECKPOINT_RESTORE
        );
        self.0.contains(&capability) || split_off && self.0.contains(&Capability::CAP_SYS_ADMIN)
    }

    /// What tracing in `mode` needs.
    ///
    /// Measured on Linux 6.18: multi links need BPF and PERFMON, whatever
    /// `kernel.perf_event_paranoid` says; other processes' files need `SYS_PTRACE`; single
    /// uprobes need `SYS_ADMIN` (kernel commit ba677dbe77af).
    pub const fn needed(mode: AttachMode) -> &'static [Capability] {
        match mode {
            AttachMode::Scoped | AttachMode::Shared => &[
                Capability::CAP_BPF,
                Capability::CAP_PERFMON,
                Capability::CAP_SYS_PTRACE,
            ],
            AttachMode::Single => &[
                Capability::CAP_SYS_ADMIN,
                Capability::CAP_BPF,
                Capability::CAP_PERFMON,
                Capability::CAP_SYS_PTRACE,
            ],
        }
    }
}
