//! What of a process can be read: each file is tried by itself.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use caps::Capability;
use nix::errno::Errno;

use crate::{
    discover::{Mappings, Process},
    doctor::{
        capabilities::{add_command, add_line},
        check::{Check, CheckId},
        confinement::confined,
        locks::Locks,
    },
};

pub(super) fn maps(process: &Process, locks: &Locks) -> Check {
    let (id, file) = (
        CheckId::ProcessMaps,
        format!("/proc/{}/maps", process.pid()),
    );
    let tried = File::open(process.path("maps")).and_then(|mut maps| maps.read(&mut [0]));
    match tried {
        Ok(_) => Check::ok(id, format!("{file} can be read")),
        Err(error) => denied(id, &file, &error, locks),
    }
}

pub(super) fn root(process: &Process, locks: &Locks) -> Check {
    let (id, file) = (
        CheckId::ProcessRoot,
        format!("/proc/{}/root", process.pid()),
    );
    match open_handle(&process.path("root")) {
        Ok(_) => Check::ok(id, format!("{file} can be entered")),
        Err(error) => denied(id, &file, &error, locks),
    }
}

pub(super) fn map_files(process: &Process, mappings: &Mappings) -> Check {
    let id = CheckId::ProcessMapFiles;
    let pid = process.pid();
    let range = mappings.files().iter().find_map(|file| file.ranges.first());
    let Some(range) = range else {
        return Check::ok(id, format!("/proc/{pid}/map_files: no file is mapped"));
    };
    let link = format!("map_files/{:x}-{:x}", range.start, range.end);
    match open_handle(&process.path(&link)) {
        Ok(_) => Check::ok(id, format!("/proc/{pid}/map_files can be followed")),
        Err(error) => {
            let errno = error.raw_os_error().map(Errno::from_raw);
            Check::warning(
                id,
                format!(
                    "/proc/{pid}/map_files: {}: a library that was replaced on disk since it was \
                     mapped cannot be traced",
                    answer(&error)
                ),
            )
            .errno(errno)
            .yaml(add_line(&[Capability::CAP_CHECKPOINT_RESTORE]))
            .shell(add_command(&[Capability::CAP_CHECKPOINT_RESTORE]))
        }
    }
}

/// A handle on what a link of /proc leads to, which is not opened.
fn open_handle(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path)
}

fn denied(id: CheckId, file: &str, error: &io::Error, locks: &Locks) -> Check {
    let errno = error.raw_os_error().map(Errno::from_raw);
    let check = Check::missing(id, format!("{file}: {}", answer(error))).errno(errno);
    if locks.privileges.has(Capability::CAP_SYS_PTRACE) {
        // What is left is a security module.
        return confined(check);
    }
    check
        .yaml(add_line(&[Capability::CAP_SYS_PTRACE]))
        .shell(add_command(&[Capability::CAP_SYS_PTRACE]))
}

/// `EACCES`, or what the error says.
fn answer(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(
        || error.to_string(),
        |raw| format!("{:?}", Errno::from_raw(raw)),
    )
}
