//! Which processes we see, and may look into.

use std::{fs, io, path::PathBuf};

use caps::Capability;
use nix::errno::Errno;

use super::{
    check::{Check, CheckId, State},
    confinement::confined,
    facts,
    locks::Locks,
};
use crate::discover;

/// What the processes of this pid namespace are to us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Neighbours {
    visible: usize,
    /// In another mount namespace than ours: as a rule, in another container.
    elsewhere: usize,
    /// Those that the kernel does not let us look into, and what it said.
    refused: usize,
    errno: Option<Errno>,
}

impl Neighbours {
    fn look() -> io::Result<Self> {
        let namespace = |pid: u32| fs::read_link(PathBuf::from(format!("/proc/{pid}/ns/mnt")));
        let own = namespace(std::process::id())?;
        let mut neighbours = Self::default();
        for pid in discover::pids()? {
            match namespace(pid) {
                Ok(theirs) => neighbours.elsewhere += usize::from(theirs != own),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    neighbours.refused += 1;
                    neighbours.errno = error.raw_os_error().map(Errno::from_raw);
                }
                // It has ended.
                Err(_) => continue,
            }
            neighbours.visible += 1;
        }
        Ok(neighbours)
    }
}

/// Which processes are visible: all of the machine's, the pod's, or our container's own.
pub(super) fn pid_namespace(locks: &Locks) -> Check {
    let neighbours = match Neighbours::look() {
        Ok(neighbours) => neighbours,
        Err(error) => {
            let errno = error.raw_os_error().map(Errno::from_raw);
            return Check::missing(CheckId::PidNamespace, format!("cannot list /proc: {error}"))
                .errno(errno);
        }
    };
    judge(neighbours, facts::in_initial_pid_namespace(), locks)
}

fn judge(neighbours: Neighbours, is_initial: bool, locks: &Locks) -> Check {
    let id = CheckId::PidNamespace;
    let Neighbours {
        visible,
        elsewhere,
        refused,
        errno,
    } = neighbours;
    let processes = format!("{visible} {}", plural(visible, "process", "processes"));
    let mut check = if is_initial {
        Check::ok(
            id,
            format!("initial pid namespace: {processes}, all of the machine's, are visible"),
        )
    } else if elsewhere + refused > 0 {
        Check::ok(
            id,
            format!("shared pid namespace: {processes}, of other containers too, are visible"),
        )
    } else {
        Check::warning(
            id,
            format!(
                "the container's own pid namespace: {processes} visible, none of another \
                 container; a command of our own can be traced, no other container's"
            ),
        )
        .yaml("shareProcessNamespace: true")
        .shell("docker run --pid=container:NAME")
    };
    // Without the capability, its own check says so.
    if refused > 0 && locks.privileges.has(Capability::CAP_SYS_PTRACE) {
        let answer = errno.map_or_else(|| "no".to_owned(), |errno| format!("{errno:?}"));
        check.errno = errno;
        check.finding = format!(
            "{}; {refused} may not be looked into ({answer})",
            check.finding
        );
        if let Some(label) = &locks.security_label {
            check.finding = format!(
                "{}: a security module confines us to {label}",
                check.finding
            );
            check.state = State::Warning;
            check = confined(check);
        }
    }
    check
}

fn plural<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}
