//! Ending a process and learning what it took.

use std::{
    fs, io,
    mem::MaybeUninit,
    os::unix::process::ExitStatusExt as _,
    process::{Child, ExitStatus},
    thread,
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

/// How often a running process is asked for its memory.
const LOOK: Duration = Duration::from_millis(5);

/// Waits for the end of a process.
pub(super) fn wait(mut child: Child) -> Result<(ExitStatus, Usage)> {
    drop(child.stdin.take());
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let mut peak_resident = 0;
    loop {
        peak_resident = peak_resident.max(peak_so_far(&child));
        let (status, usage) = (&raw mut status, usage.as_mut_ptr());
        // SAFETY: both pointers lead to locals of the types that the call fills.
        let waited = unsafe { libc::wait4(pid(&child)?, status, libc::WNOHANG, usage) };
        if waited < 0 {
            let error = io::Error::last_os_error();
            return Err(error).with_context(|| format!("waiting for process {}", child.id()));
        }
        if waited > 0 {
            break;
        }
        thread::sleep(LOOK);
    }
    // SAFETY: zeros are a valid value of this structure of integers.
    let usage = unsafe { usage.assume_init() };
    let usage = Usage {
        cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
        peak_resident,
    };
    Ok((ExitStatus::from_raw(status), usage))
}

/// The most memory of a process that was resident at once, bytes; 0 once it has ended. Not
/// `ru_maxrss`, which is never less than what the process that started it had.
fn peak_so_far(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kilobytes.unwrap_or(0_u64) * 1024
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
