//! The eBPF programs' own debug lines (`--ebpf-log`), for those who work on the programs.

use std::{
    os::fd::{AsFd as _, BorrowedFd},
    thread,
};

use aya::Ebpf;
use aya_log::EbpfLogger;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Passes the lines on to the log, from a thread, until the process ends.
pub(crate) fn start(ebpf: &mut Ebpf) {
    let mut logger = match EbpfLogger::init(ebpf) {
        Ok(logger) => logger,
        Err(error) => {
            tracing::warn!(
                "--ebpf-log: {error}: this build has no debug lines in its eBPF programs; make \
                 one with `cargo xtask build --ebpf-log`"
            );
            return;
        }
    };
    let forward = move || {
        while wait_for_lines(logger.as_fd()) {
            logger.flush();
        }
    };
    if let Err(error) = thread::Builder::new()
        .name("ebpf-log".to_owned())
        .spawn(forward)
    {
        tracing::warn!("--ebpf-log: {error}");
    }
}

/// False if it cannot wait.
fn wait_for_lines(lines: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(lines, PollFlags::POLLIN)];
    matches!(
        poll(&mut fds, PollTimeout::NONE),
        Ok(_) | Err(nix::Error::EINTR)
    )
}
