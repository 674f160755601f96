//! Who is blamed for what the kernel answers, on machines that we do not have.

use caps::{Capability, CapsHashSet};
use nix::errno::Errno;

use super::{
    check::{CheckId, State},
    locks::Locks,
    trial::Refused,
};
use crate::kernel::{AttachMode, Features, Privileges, Release};

/// A machine on which all is well.
fn machine() -> Locks {
    let capabilities = Privileges::needed(AttachMode::Scoped).iter().copied();
    Locks {
        release: Release::new("6.18.0"),
        privileges: Privileges::new(capabilities.collect()),
        features: Features {
            multi_links: true,
            process_filter: true,
            bpf_loop: true,
            attach_cookies: true,
            kernel_reads: true,
        },
        bpf: Ok(true),
        filtered: false,
        in_initial_user_namespace: true,
        security_label: None,
        memlock: None,
    }
}

fn answers(errno: Errno) -> Result<bool, Refused> {
    Err(Refused {
        call: "bpf(BPF_MAP_CREATE)",
        errno,
    })
}

fn missing(locks: &Locks) -> Vec<(CheckId, Option<Errno>)> {
    locks
        .checks(AttachMode::Scoped)
        .into_iter()
        .filter(|check| check.state == State::Missing)
        .map(|check| (check.id, check.errno))
        .collect()
}

#[test]
fn nothing_is_missing_where_all_is_well() {
    assert_eq!(missing(&machine()), []);
    assert_eq!(machine().allow(AttachMode::Scoped), Ok(()));
}

#[test]
fn one_answer_has_many_causes() {
    let refused = |errno, change: &dyn Fn(&mut Locks)| {
        let mut locks = machine();
        locks.bpf = answers(errno);
        change(&mut locks);
        let missing = missing(&locks);
        assert!(missing.iter().all(|(_, answer)| *answer == Some(errno)));
        missing.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    let filter = |locks: &mut Locks| locks.filtered = true;
    let rootless = |locks: &mut Locks| locks.in_initial_user_namespace = false;
    let selinux = |locks: &mut Locks| locks.security_label = Some("container_t".to_owned());
    let few_caps = |locks: &mut Locks| {
        locks.filtered = true;
        let held = [Capability::CAP_PERFMON, Capability::CAP_SYS_PTRACE];
        locks.privileges = Privileges::new(CapsHashSet::from(held));
    };
    let old = |locks: &mut Locks| {
        locks.release = Release::new("5.10.0");
        locks.memlock = Some(65_536);
    };
    assert_eq!(refused(Errno::EPERM, &filter), [CheckId::Seccomp]);
    assert_eq!(refused(Errno::ENOSYS, &filter), [CheckId::Seccomp]);
    assert_eq!(refused(Errno::EACCES, &filter), [CheckId::Seccomp]);
    assert_eq!(refused(Errno::EPERM, &rootless), [CheckId::UserNamespace]);
    assert_eq!(refused(Errno::EACCES, &selinux), [CheckId::SecurityModule]);
    // A profile lets bpf() through once the capability is there.
    assert_eq!(refused(Errno::EPERM, &few_caps), [CheckId::CapBpf]);
    assert_eq!(refused(Errno::EPERM, &old), [CheckId::Memlock]);
    // No filter: a sandbox, or a kernel without the call.
    assert_eq!(refused(Errno::ENOSYS, &|_| ()), [CheckId::Kernel]);
    for odd in [
        Errno::EPERM,
        Errno::EACCES,
        Errno::ENOMEM,
        Errno::UnknownErrno,
    ] {
        assert_eq!(refused(odd, &|_| ()), [CheckId::Bpf], "{odd:?}");
    }
}

#[test]
fn a_filter_is_not_blamed_before_the_capability_is_there() {
    let mut locks = machine();
    locks.filtered = true;
    locks.privileges = Privileges::new(CapsHashSet::new());
    locks.bpf = answers(Errno::EPERM);
    let found: Vec<CheckId> = missing(&locks).into_iter().map(|(id, _)| id).collect();
    assert_eq!(
        found,
        [CheckId::CapBpf, CheckId::CapPerfmon, CheckId::CapSysPtrace]
    );
    let seccomp = locks
        .checks(AttachMode::Scoped)
        .into_iter()
        .find(|check| check.id == CheckId::Seccomp);
    assert_eq!(seccomp.map(|check| check.state), Some(State::Warning));
}

#[test]
fn what_a_kernel_lacks_is_asked_of_it() {
    // A back-port counts, whatever the release says; its lack, too.
    let mut locks = machine();
    locks.release = Release::new("5.14.0-503.el9.x86_64");
    assert_eq!(missing(&locks), []);
    locks.features.attach_cookies = false;
    assert_eq!(missing(&locks), [(CheckId::Kernel, None)]);
    let mut locks = machine();
    locks.bpf = Ok(false);
    assert_eq!(missing(&locks), [(CheckId::Kernel, None)]);
    let mut locks = machine();
    locks.features.kernel_reads = false;
    assert_eq!(missing(&locks), [(CheckId::Lockdown, None)]);
}

#[test]
fn an_obstacle_says_its_line_once() {
    let mut locks = machine();
    locks.privileges = Privileges::new(CapsHashSet::from([Capability::CAP_SYS_PTRACE]));
    locks.bpf = answers(Errno::EPERM);
    let error = locks.allow(AttachMode::Scoped).expect_err("locked");
    let text = error.to_string();
    assert!(text.contains("CAP_BPF is not held: bpf(BPF_MAP_CREATE) answers EPERM"));
    assert!(text.contains("CAP_PERFMON is not held"), "{text}");
    assert_eq!(
        text.matches("capabilities: {add: [BPF, PERFMON]}").count(),
        1
    );
}

#[test]
fn sys_admin_stands_for_what_was_split_off_from_it() {
    let admin = Privileges::new(CapsHashSet::from([Capability::CAP_SYS_ADMIN]));
    assert!(admin.has(Capability::CAP_BPF) && admin.has(Capability::CAP_PERFMON));
    assert!(!admin.has(Capability::CAP_SYS_PTRACE));
}
