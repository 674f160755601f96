//! Child processes by fork, and what they report.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::FromRawFd,
};

use crate::report::Report;

/// A child that will report through a pipe.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    report: File,
}

/// Forks; the child runs `work`, reports and exits. Call it while the process has one thread.
///
/// # Panics
/// When the system refuses a pipe or a process.
pub fn fork(work: impl FnOnce() -> Report) -> Child {
    let mut ends = [0; 2];
    // SAFETY: a pointer to two descriptors.
    let code = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    assert_eq!(code, 0, "no pipe: {}", std::io::Error::last_os_error());
    // SAFETY: two descriptors that nobody else owns.
    let (report, mut answer) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: the process has one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let line = serde_json::to_vec(&work()).expect("a report is plain data");
            answer
                .write_all(&line)
                .expect("the parent reads the report");
            drop(answer);
            // SAFETY: ends the child without the parent's exit handlers.
            unsafe { libc::_exit(0) }
        }
        pid => Child { pid, report },
    }
}

impl Child {
    /// Waits for the child's end: what it did.
    ///
    /// # Panics
    /// When the child did not report, or failed.
    pub fn join(mut self) -> Report {
        let mut line = Vec::new();
        self.report
            .read_to_end(&mut line)
            .expect("the pipe can be read");
        let mut status = 0;
        // SAFETY: our child, and a pointer to a local.
        let waited = unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        assert_eq!((waited, status), (self.pid, 0), "child {} failed", self.pid);
        serde_json::from_slice(&line).expect("the child wrote a report")
    }
}
