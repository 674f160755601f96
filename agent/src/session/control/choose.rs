//! Processes that were not named, but chosen by what they are.

use super::{Controller, Traced};
use crate::discover::{self, MappedFile, Mappings, Process, ProcessError};

/// Whether a process cannot have called CUDA: it maps none of its libraries.
pub(super) fn has_not_called(pid: u32) -> bool {
    let mappings = Process::open(pid).and_then(|process| Mappings::read(&process));
    mappings.is_ok_and(|mappings| {
        let mut files = mappings.files().iter();
        !files.any(MappedFile::is_named_like_cuda)
    })
}

impl Controller {
    /// Traces all running processes that are chosen.
    pub(super) fn choose(&mut self) {
        let pids = match discover::pids() {
            Ok(pids) => pids,
            Err(error) => {
                tracing::warn!("running processes are not found: reading /proc: {error}");
                return;
            }
        };
        for pid in pids {
            if self.is_chosen(pid) {
                match self.add(pid) {
                    Ok(true) => tracing::info!("process {pid} is traced"),
                    // It may load a CUDA library yet.
                    Ok(false) => tracing::debug!("process {pid} is watched"),
                    Err(error) => tracing::warn!("process {pid} is not traced: {error}"),
                }
            }
        }
        let fit = self.processes.len();
        tracing::info!("{fit} running processes fit; waiting for more");
    }

    fn is_chosen(&self, pid: u32) -> bool {
        self.selection
            .as_ref()
            .zip(Process::open(pid).ok())
            .is_some_and(|(selection, process)| selection.matches(&process))
    }

    /// A process that was not traced runs a new program, since `timestamp`.
    pub(super) fn started(&mut self, pid: u32, timestamp: u64) {
        if self.processes.contains_key(&pid) {
            self.executed(pid, timestamp);
        } else if self.is_chosen(pid)
            && let Err(error) = self.adopt(pid, timestamp, Some(timestamp))
        {
            // It may have ended already.
            tracing::debug!("process {pid} is not traced: {error}");
        }
    }

    /// Traces a process that may have called CUDA since `timestamp`. `began`: when, if it was seen.
    fn adopt(
        &mut self,
        pid: u32,
        timestamp: u64,
        began: Option<u64>,
    ) -> Result<(), super::AttachFailure> {
        let process = Process::open(pid)?;
        let from_start = has_not_called(pid);
        let scope = self.scope_of(&process);
        let traced = Traced {
            from_start,
            began,
            entry_only: self.no_returns(&process, scope),
            ..Traced::new(scope)
        };
        self.enter(&process, traced, Some(timestamp))?;
        tracing::debug!("process {pid} is watched");
        // Children that it had before it was a target: later ones the kernel tells of.
        for child in process.children().unwrap_or_default() {
            if !self.processes.contains_key(&child)
                && let Err(error) = self.adopt(child, timestamp, None)
            {
                tracing::debug!("process {child} is not traced: {error}");
            }
        }
        Ok(())
    }

    /// A process runs a new program, since `timestamp`: what that was seen to load before gets
    /// its probes now.
    pub(super) fn expect_libraries(&mut self, process: &Process, timestamp: u64) {
        let pid = process.pid();
        let expected = match process.executable_identity() {
            Ok(executable) => self.executables.expected(executable).to_vec(),
            Err(ProcessError::NoSuchProcess { .. }) => return,
            Err(error) => {
                tracing::debug!("process {pid}: {error}");
                return;
            }
        };
        if expected.is_empty() {
            return;
        }
        for found in &expected {
            self.attach_or_warn(pid, found, None);
        }
        let Ok(mappings) = Mappings::read(process) else {
            return;
        };
        for found in expected {
            if mappings.files().iter().any(|file| file.path == found.path) {
                self.mapped_too_early(pid, &found, timestamp);
            }
        }
    }
}
