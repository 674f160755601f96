//! What `/proc` and `/sys` say of what confines this process.

use std::{fs, path::Path};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use crate::discover::Process;

/// Inode numbers of the initial namespaces (`include/linux/proc_ns.h`), which are ABI.
const INITIAL_USER_NAMESPACE: &str = "user:[4026531837]";
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Whether our own system calls are filtered.
pub(super) fn is_filtered() -> bool {
    Process::open(std::process::id()).is_ok_and(|own| own.is_filtered() == Some(true))
}

/// Whether our capabilities are those of the initial user namespace. Unknown is taken for yes.
pub(super) fn in_initial_user_namespace() -> bool {
    is_namespace("user", INITIAL_USER_NAMESPACE)
}

/// Whether we see all processes of the machine. Unknown is taken for yes.
pub(super) fn in_initial_pid_namespace() -> bool {
    is_namespace("pid", INITIAL_PID_NAMESPACE)
}

fn is_namespace(kind: &str, name: &str) -> bool {
    fs::read_link(Path::new("/proc/self/ns").join(kind)).map_or(true, |link| link == *name)
}

/// The profile or domain that a security module (`AppArmor`, `SELinux`) confines us to.
pub(super) fn security_label() -> Option<String> {
    // Without such a module, reading is EINVAL.
    label(&fs::read("/proc/self/attr/current").ok()?)
}

fn label(current: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(current);
    let text = text.trim_end_matches(['\0', '\n']).trim();
    let selinux_type = text.split(':').nth(2);
    let is_free = matches!(text, "" | "unconfined" | "kernel")
        || text.ends_with("(complain)")
        || matches!(selinux_type, Some("unconfined_t" | "spc_t"));
    (!is_free).then(|| text.to_owned())
}

/// How far the kernel is locked down: `none`, `integrity` or `confidentiality`; `None` where it
/// is not shown.
pub(super) fn lockdown() -> Option<String> {
    chosen(&fs::read_to_string("/sys/kernel/security/lockdown").ok()?)
}

/// What stands in brackets.
fn chosen(choices: &str) -> Option<String> {
    let (_, rest) = choices.split_once('[')?;
    let (choice, _) = rest.split_once(']')?;
    Some(choice.to_owned())
}

/// `kernel.perf_event_paranoid`.
pub(super) fn perf_event_paranoid() -> Option<i32> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    text.trim().parse().ok()
}

/// Bytes of memory that may be locked; `None` for no limit.
pub(super) fn memlock() -> Option<u64> {
    let (soft, _) = getrlimit(Resource::RLIMIT_MEMLOCK).ok()?;
    (soft != RLIM_INFINITY).then_some(soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_confine() {
        assert_eq!(
            label(b"docker-default (enforce)\n").as_deref(),
            Some("docker-default (enforce)")
        );
        assert_eq!(
            label(b"system_u:system_r:container_t:s0:c1,c2\0").as_deref(),
            Some("system_u:system_r:container_t:s0:c1,c2")
        );
        let free = [
            &b"unconfined\n"[..],
            b"",
            b"\0",
            b"\n",
            b"kernel\0",
            b"docker-default (complain)\n",
            b"unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023\0",
            b"system_u:system_r:spc_t:s0\0",
        ];
        for free in free {
            assert_eq!(label(free), None, "{free:?}");
        }
        assert!(label(b"\xff\xff").is_some());
    }

    #[test]
    fn the_choice_in_brackets() {
        assert_eq!(
            chosen("none [integrity] confidentiality\n").as_deref(),
            Some("integrity")
        );
        for odd in ["", "none", "]none[", "[", "none [integrity"] {
            assert_eq!(chosen(odd), None, "{odd}");
        }
    }
}
