//! System calls that are tried.

use std::{
    fs, io,
    os::fd::{FromRawFd as _, OwnedFd},
};

use aya::{
    maps::MapType,
    programs::{ProgramError, ProgramType},
    sys::{SyscallError, is_map_supported, is_program_supported},
};
use nix::errno::Errno;

/// The type of the kernel's perf events for single uprobes.
const UPROBE_TYPE: &str = "/sys/bus/event_source/devices/uprobe/type";

/// A system call that was not allowed, or not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) call: &'static str,
    pub(super) errno: Errno,
}

impl Refused {
    fn new(call: &'static str, error: &io::Error) -> Self {
        let errno = error
            .raw_os_error()
            .map_or(Errno::UnknownErrno, Errno::from_raw);
        Self { call, errno }
    }
}

/// Creates a ring buffer and loads a program; whether the kernel has ring buffers.
pub(super) fn bpf() -> Result<bool, Refused> {
    let has_ring = is_map_supported(MapType::RingBuf).map_err(|error| {
        let SyscallError { io_error, .. } = error;
        Refused::new("bpf(BPF_MAP_CREATE)", &io_error)
    })?;
    match is_program_supported(ProgramType::KProbe) {
        Err(ProgramError::SyscallError(SyscallError { io_error, .. })) => {
            Err(Refused::new("bpf(BPF_PROG_LOAD)", &io_error))
        }
        // The kernel has kprobe programs since 4.1; nothing else is an answer of its.
        Ok(_) | Err(_) => Ok(has_ring),
    }
}

/// Asks for a single uprobe on no file: whoever may have one is told that the path is none.
pub(super) fn perf_event() -> Result<(), Refused> {
    const CALL: &str = "perf_event_open()";
    // `struct perf_event_attr` of <linux/perf_event.h>: `type` and `size` first; the path of a
    // uprobe, further on, stays null.
    #[repr(C)]
    struct Attributes {
        kind: u32,
        size: u32,
        rest: [u64; 15],
    }
    let kind = fs::read_to_string(UPROBE_TYPE).map_err(|error| Refused::new(CALL, &error))?;
    let attributes = Attributes {
        kind: kind.trim().parse().unwrap_or_default(),
        size: 128,
        rest: [0; 15],
    };
    let (own_process, any_cpu, no_group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
    let no_flags: libc::c_ulong = 0;
    // SAFETY: the kernel reads `size` bytes of `attributes`, which is that large, and writes
    // nothing for a size that it knows.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            own_process,
            any_cpu,
            no_group,
            no_flags,
        )
    };
    if let Ok(descriptor) = i32::try_from(result)
        && descriptor >= 0
    {
        // SAFETY: a descriptor that the kernel has just given us, and nobody else knows.
        drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
        return Ok(());
    }
    match Refused::new(CALL, &io::Error::last_os_error()) {
        refused @ Refused {
            errno: Errno::EACCES | Errno::EPERM | Errno::ENOSYS,
            ..
        } => Err(refused),
        Refused { .. } => Ok(()),
    }
}
