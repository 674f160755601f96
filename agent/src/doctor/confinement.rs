//! What confines this process besides capabilities.

use nix::errno::Errno;

use super::{
    check::{Check, CheckId},
    facts,
    locks::{Locks, Refuser},
    trial::Refused,
};

/// Since then the memory of maps is not counted as locked memory.
const MEMLOCK_UNTIL: (u32, u32) = (5, 11);

impl Locks {
    pub(super) fn user_namespace(&self, refused: Option<(Refused, Refuser)>) -> Check {
        let id = CheckId::UserNamespace;
        match refused {
            Some((Refused { call, errno }, Refuser::UserNamespace)) => Check::missing(
                id,
                format!(
                    "our capabilities are those of a user namespace (rootless, or hostUsers: \
                     false), where the kernel does not count them: {call} answers {errno:?}"
                ),
            )
            .errno(errno)
            .yaml("hostUsers: true")
            .shell("sudo docker run --userns=host"),
            _ if !self.in_initial_user_namespace => Check::warning(
                id,
                "our capabilities are those of a user namespace, not of the machine",
            )
            .yaml("hostUsers: true")
            .shell("sudo docker run --userns=host"),
            _ => Check::ok(
                id,
                "our capabilities are the machine's (initial user namespace)",
            ),
        }
    }

    pub(super) fn seccomp(&self, refused: Option<(Refused, Refuser)>) -> Check {
        let id = CheckId::Seccomp;
        let check = match refused {
            Some((Refused { call, errno }, Refuser::Seccomp)) => {
                let reason = match errno {
                    Errno::ENOSYS => "which is the filter's answer, not an old kernel's",
                    _ => "with the capabilities held",
                };
                Check::missing(
                    id,
                    format!(
                        "the container's seccomp profile forbids {call}: it answers {errno:?}, \
                         {reason}; newer runtimes allow it with CAP_BPF and CAP_PERFMON"
                    ),
                )
                .errno(errno)
            }
            Some(_) if self.filtered => Check::warning(
                id,
                "a seccomp filter is active; whether it lets bpf() through shows only when \
                 nothing else forbids it",
            ),
            Some(_) | None if self.filtered => {
                return Check::ok(id, "a seccomp filter is active, and lets bpf() through");
            }
            Some(_) | None => return Check::ok(id, "no seccomp filter"),
        };
        check
            .yaml("securityContext: {seccompProfile: {type: Unconfined}}")
            .shell("docker run --security-opt seccomp=unconfined")
    }

    pub(super) fn security_module(&self, refused: Option<(Refused, Refuser)>) -> Check {
        let id = CheckId::SecurityModule;
        let Some(label) = &self.security_label else {
            return Check::ok(id, "no security module (AppArmor, SELinux) confines us");
        };
        match refused {
            Some((Refused { call, errno }, Refuser::SecurityModule)) => confined(Check::missing(
                id,
                format!("the security module confines us to {label}: {call} answers {errno:?}"),
            ))
            .errno(errno),
            Some(_) | None => Check::ok(
                id,
                format!("a security module confines us to {label}; it has refused nothing yet"),
            ),
        }
    }

    pub(super) fn is_memlock_short(&self) -> bool {
        let is_counted = self
            .release
            .version()
            .is_some_and(|version| version < MEMLOCK_UNTIL);
        is_counted && self.memlock.is_some()
    }

    pub(super) fn memlock(&self, refused: Option<(Refused, Refuser)>) -> Check {
        let id = CheckId::Memlock;
        let limit = match self.memlock {
            Some(bytes) => analyzer::text::bytes(bytes),
            None => "unlimited".to_owned(),
        };
        if !self.is_memlock_short() {
            return Check::ok(id, format!("locked memory: {limit}, which is enough here"));
        }
        let finding = format!(
            "locked memory: {limit}; below Linux 5.11 maps count as that, and raising the limit \
             needs CAP_SYS_RESOURCE"
        );
        let check = match refused {
            Some((Refused { errno, .. }, Refuser::Memlock)) => {
                Check::missing(id, finding).errno(errno)
            }
            Some(_) | None => Check::warning(id, finding),
        };
        check
            .yaml("securityContext: {capabilities: {add: [SYS_RESOURCE]}}")
            .shell("ulimit -l unlimited")
    }

    pub(super) fn lockdown(&self) -> Check {
        let id = CheckId::Lockdown;
        let shown = facts::lockdown();
        if self.bpf_works() && !self.features.kernel_reads {
            return Check::missing(
                id,
                format!(
                    "the kernel refuses bpf_probe_read_kernel (lockdown: {}): it is locked down \
                     for confidentiality; boot it with lockdown=integrity",
                    shown.as_deref().unwrap_or("not shown")
                ),
            );
        }
        let finding = match shown.as_deref() {
            None => "no lockdown of the kernel is in the way (it is not shown)".to_owned(),
            Some("none") => "the kernel is not locked down".to_owned(),
            Some(level) => format!("the kernel's lockdown is {level}, which lets us read"),
        };
        Check::ok(id, finding)
    }
}

/// The lines that free us from a security module.
pub(super) fn confined(check: Check) -> Check {
    check
        .yaml("securityContext: {appArmorProfile: {type: Unconfined}}")
        .shell("docker run --security-opt apparmor=unconfined --security-opt label=disable")
}
