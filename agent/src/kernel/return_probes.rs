//! Whether a seccomp filter meets the kernel's own way back from a return probe.
//!
//! A return probe replaces a return address by that of a trampoline. On x86-64, since Linux 6.11,
//! the trampoline makes a system call (uretprobe), and a filter that knows nothing of it forbids
//! it: the process crashes. Later kernels let it pass every filter (commit cf6cb56ef244, 6.14);
//! which of the older ones have that, too, their release does not tell. So it is tried, by a
//! child of our own: the call ends with SIGILL when it is made from anywhere but the trampoline.

use std::{
    io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::Command,
};

use nix::sys::prctl::{set_dumpable, set_no_new_privs};

use super::Release;

/// `__NR_uretprobe` of x86-64, where alone it exists.
const URETPROBE: u32 = 335;
/// An answer that no kernel gives to it.
const OURS: i32 = libc::ENOTUNIQ;

/// How a system call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The kernel took it: from the wrong place.
    Killed,
    /// A filter of ours answered.
    Filtered,
    /// Something else did.
    Other,
}

/// Whether return probes crash a process whose filter forbids what it does not know.
/// `filtered`: there is a filter on us, so that we cannot try without one.
pub fn meets_filters(filtered: bool, release: &Release) -> bool {
    if cfg!(not(target_arch = "x86_64")) || outcome(URETPROBE, true) != Outcome::Filtered {
        return false;
    }
    if filtered {
        release.version().is_none_or(|version| version >= (6, 11))
    } else {
        outcome(URETPROBE, false) == Outcome::Killed
    }
}

/// Makes a system call without arguments in a child, which runs no program.
fn outcome(call: u32, with_filter: bool) -> Outcome {
    let attempt = move || {
        // It leaves no core file, and no report of a crash.
        set_dumpable(false)?;
        if with_filter {
            set_no_new_privs()?;
            filter(call)?;
        }
        // SAFETY: a call without arguments, which touches no memory of ours.
        unsafe { libc::syscall(libc::c_long::from(call)) };
        Err(io::Error::last_os_error())
    };
    let mut command = Command::new("/proc/self/exe");
    // SAFETY: system calls alone; nothing is allocated.
    unsafe { command.pre_exec(attempt) };
    match command.status() {
        Ok(status) if status.signal() == Some(libc::SIGILL) => Outcome::Killed,
        Err(error) if error.raw_os_error() == Some(OURS) => Outcome::Filtered,
        Ok(_) | Err(_) => Outcome::Other,
    }
}

/// Has the calling process get [`OURS`] for a system call.
pub(crate) fn filter(call: u32) -> io::Result<()> {
    // <linux/bpf_common.h>: LD | W | ABS; JMP | JEQ | K; RET | K.
    const LOAD: u16 = 0x20;
    const SKIP_UNLESS_EQUAL: u16 = 0x15;
    const ANSWER: u16 = 0x06;
    let instruction = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let mut program = [
        // The number of the call: the first field of `struct seccomp_data`.
        instruction(LOAD, 0, 0),
        instruction(SKIP_UNLESS_EQUAL, 1, call),
        instruction(ANSWER, 0, libc::SECCOMP_RET_ERRNO | OURS as u32),
        instruction(ANSWER, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: 4,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel copies the program, which lives until after the call.
    let result = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const filter,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_met_or_passed() {
        let number = |call| u32::try_from(call).expect("positive");
        // One that exists and is met by filters; one that does not exist.
        assert_eq!(outcome(number(libc::SYS_getuid), true), Outcome::Filtered);
        assert_eq!(outcome(number(libc::SYS_getuid), false), Outcome::Other);
        assert_eq!(outcome(9999, true), Outcome::Filtered);
        assert_eq!(outcome(9999, false), Outcome::Other);
        let release = Release::running();
        let passes = release.version().expect("a version") >= (6, 14);
        if passes && cfg!(target_arch = "x86_64") {
            assert_eq!(outcome(URETPROBE, true), Outcome::Killed);
            assert_eq!(outcome(URETPROBE, false), Outcome::Killed);
            assert!(!meets_filters(false, &release));
        } else {
            assert!(release.version() < Some((6, 14)), "{release}");
        }
    }
}
