//! Ending a process and learning what it took.

use std::{
    io,
    mem::MaybeUninit,
    os::unix::process::ExitStatusExt as _,
    process::{Child, ExitStatus},
    time::Duration,
};

use anyhow::{Context as _, Result};

/// What a process took from its start to its end, with the children that it waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    /// CPU time, in user space and in the kernel.
    pub(super) cpu: Duration,
    /// The most memory that was resident at once, bytes.
    pub(super) peak_resident: u64,
}

/// Asks a process to end.
pub(super) fn terminate(child: &Child) -> Result<()> {
    // SAFETY: takes numbers only. The process has not been waited for: its id is still its own.
    let result = unsafe { libc::kill(pid(child)?, libc::SIGTERM) };
    if result == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error()).with_context(|| format!("ending process {}", child.id()))
}

/// Waits for the end of a process.
pub(super) fn wait(mut child: Child) -> Result<(ExitStatus, Usage)> {
    drop(child.stdin.take());
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers lead to locals of the types that the call fills.
    let waited = unsafe { libc::wait4(pid(&child)?, &raw mut status, 0, usage.as_mut_ptr()) };
    if waited < 0 {
        let error = io::Error::last_os_error();
        return Err(error).with_context(|| format!("waiting for process {}", child.id()));
    }
    // SAFETY: zeros are a valid value of this structure of integers.
    let usage = unsafe { usage.assume_init() };
    let usage = Usage {
        cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
        // getrusage(2): kilobytes.
        peak_resident: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    };
    Ok((ExitStatus::from_raw(status), usage))
}

fn pid(child: &Child) -> Result<libc::pid_t> {
    libc::pid_t::try_from(child.id()).context("a process id that is none")
}

fn duration(time: libc::timeval) -> Duration {
    let micros = time.tv_sec * 1_000_000 + time.tv_usec;
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_works_has_taken_time_and_memory() {
        let busy = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; exit 3";
        let child = Command::new("sh").args(["-c", busy]).spawn().unwrap();
        let (status, usage) = wait(child).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(
            usage.cpu > Duration::ZERO && usage.peak_resident > 0,
            "{usage:?}"
        );
    }

    #[test]
    fn a_process_is_ended_by_the_signal() {
        let mut sleep = Command::new("sleep");
        let child = sleep.arg("1000").stdin(Stdio::null()).spawn().unwrap();
        terminate(&child).unwrap();
        assert_eq!(wait(child).unwrap().0.signal(), Some(libc::SIGTERM));
    }
}
