//! Looking at what a process maps.

use super::{AttachFailure, Controller};
use crate::{
    discover::{
        MappedFile, MappedIdentity, Mappings, OpenError, Process, ProcessError, Scan, ScanError,
    },
    session::{drain::Inbox, names::Snapshot},
};

impl Controller {
    pub(super) fn mapped(&mut self, pid: u32, timestamp: u64) {
        self.gathering.remove(&pid);
        match self.look(pid, Some(timestamp)) {
            Ok(_) => {}
            Err(error) if Process::has_ended(pid) => tracing::debug!("process {pid}: {error}"),
            Err(error) => tracing::warn!("process {pid}: {error}"),
        }
    }

    pub(super) fn look_at_gathered(&mut self) {
        for (pid, timestamp) in std::mem::take(&mut self.gathering) {
            self.mapped(pid, timestamp);
            self.forget_unseen_end(pid, timestamp);
        }
    }

    /// The kernel tells of the end of a target, not of a process that ended before it was one. What
    /// is found to have ended twice is forgotten: by then the kernel would have told.
    fn forget_unseen_end(&mut self, pid: u32, timestamp: u64) {
        let has_ended = matches!(
            Process::open(pid),
            Err(ProcessError::NoSuchProcess { .. } | ProcessError::Ended { .. })
        );
        let process = self.processes.get_mut(&pid).filter(|_| has_ended);
        let Some(process) = process else { return };
        if process.seems_ended {
            self.exited(pid);
        } else {
            process.seems_ended = true;
            self.gathering.entry(pid).or_insert(timestamp);
        }
    }

    /// Looks at what the process maps and attaches to what is new; says whether it has a CUDA
    /// library. `since`: when calls may have begun that were not seen.
    pub(super) fn look(&mut self, pid: u32, since: Option<u64>) -> Result<bool, AttachFailure> {
        let process = match Process::open(pid) {
            Ok(process) => process,
            // It may end at any time.
            Err(ProcessError::NoSuchProcess { .. } | ProcessError::Ended { .. }) => {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        let Some(traced) = self.processes.get(&pid) else {
            return Ok(false);
        };
        let mappings = Mappings::read(&process)?;
        let mut seen = traced.seen.clone();
        let gone = seen.forget_unmapped(&mappings);
        self.unloaded(pid, &gone);
        let scan = self.libraries.scan(&process, &mappings, &mut seen);
        let is_elsewhere = self.selection.is_some() && is_elsewhere(&scan, &mappings);
        for failure in &scan.failures {
            if !is_elsewhere && Process::open(pid).is_ok() {
                tracing::warn!("process {pid}: not looked into: {failure}");
            } else {
                // It has ended meanwhile, or will be another program soon.
                tracing::debug!("process {pid}: not looked into: {failure}");
            }
        }
        let anything_new = !scan.found.is_empty();
        for found in scan.found {
            self.attach(pid, &found, since)?;
            let Some(process) = self.processes.get_mut(&pid) else {
                return Ok(false);
            };
            process.keep(found);
        }
        if let Ok(program) = process.program() {
            let _ = self.inbox.send(Inbox::Mapped(Snapshot {
                pid,
                program,
                mappings,
            }));
        }
        let Some(traced) = self.processes.get_mut(&pid) else {
            return Ok(false);
        };
        traced.seen = seen;
        if anything_new && let Ok(executable) = process.executable_identity() {
            self.executables.loads(executable, &traced.found);
        }
        Ok(traced.has_cuda())
    }

    /// Files that a process has unmapped: its links on them go.
    pub(super) fn unloaded(&mut self, pid: u32, gone: &[MappedIdentity]) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        for file in gone {
            let Some(at) = process
                .found
                .iter()
                .position(|found| found.mapped == Some(*file))
            else {
                continue;
            };
            let found = process.found.swap_remove(at);
            tracing::debug!("process {pid} has unloaded {}", found.path.display());
            let links = process.links.remove(&found.library.identity());
            self.detacher.detach(links);
        }
    }
}

/// Whether none of a process's files is at its path, but perhaps its program, which the kernel shows
/// wherever it is; and none is named like CUDA's. So it is where a container's first process has yet to
/// become the container's program.
fn is_elsewhere(scan: &Scan, mappings: &Mappings) -> bool {
    let is_replaced =
        |failure: &&ScanError| matches!(failure, ScanError::Open(OpenError::Replaced { .. }));
    let replaced = scan.failures.iter().filter(is_replaced).count();
    let mut files = mappings.files().iter();
    replaced == scan.failures.len()
        && replaced + 1 >= mappings.files().len()
        && !files.any(MappedFile::is_named_like_cuda)
}
