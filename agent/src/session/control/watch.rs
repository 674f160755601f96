//! Watching dynamic linkers, for libraries that come later.

use std::path::Path;

use agent_common::Site;
use trace::{Fact, fact};

use super::Controller;
use crate::{
    attach::{AttachError, Links, Scope},
    discover::{Linker, Process},
};

impl Controller {
    /// Watches the dynamic linker that a command's executable names.
    pub(super) fn watch_command(&mut self, executable: &Path) {
        match Linker::of_command(executable) {
            Ok(Some(linker)) => {
                self.watch(linker, Scope::All, None);
            }
            Ok(None) => tracing::debug!("{} has no dynamic linker", executable.display()),
            Err(error) => self.unwatched(None, &error.to_string()),
        }
    }

    /// Watches a process's dynamic linker; says whether it was watched already.
    pub(super) fn watch_process(&mut self, process: &Process) -> bool {
        let pid = process.pid();
        match Linker::of_process(process) {
            Ok(Some(linker)) => return self.watch(linker, self.scope(pid), Some(pid)),
            Ok(None) => tracing::debug!("process {pid} has no dynamic linker"),
            Err(error) => self.unwatched(Some(pid), &error.to_string()),
        }
        false
    }

    /// Watches a dynamic linker, once in each scope; says whether it was watched already.
    fn watch(&mut self, linker: Linker, scope: Scope, pid: Option<u32>) -> bool {
        if self.switch.is_off() {
            return false;
        }
        let identity = linker.file.identity();
        let known = match (scope, pid) {
            (Scope::Process(_), Some(pid)) => self
                .processes
                .get(&pid)
                .is_some_and(|process| process.links.contains_key(&identity)),
            (Scope::Process(_) | Scope::All, _) => self.shared_linkers.contains_key(&identity),
        };
        if known {
            return true;
        }
        let Some(distance) = linker.r_debug.filter(|_| self.programs.watches_linker) else {
            let why = "its list of objects cannot be read, or the kernel lacks bpf_loop (5.17)";
            self.unwatched(pid, why);
            return false;
        };
        // The linker's site tells its program where the list of objects is; it counts nothing.
        let site = Site {
            text_before: distance.cast_unsigned(),
            ..Site::of_no_function()
        };
        let path = linker.file.attach_path();
        let links = self
            .sites
            .add(site)
            .map_err(AttachError::from)
            .and_then(|site| {
                Links::attach_linker(&mut self.programs, site, linker.debug_state, &path, scope)
            });
        match (links, scope, pid) {
            (Ok(links), Scope::Process(_), Some(pid)) => {
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.links.insert(identity, links);
                }
            }
            (Ok(links), _, _) => {
                self.shared_linkers.insert(identity, (linker, links));
            }
            (Err(error), _, _) => self.unwatched(pid, &error.to_string()),
        }
        false
    }

    /// Libraries that a process loads later will not be noticed; without a process, those of all.
    fn unwatched(&self, pid: Option<u32>, why: &str) {
        // Who has ended meanwhile loads none.
        if let Some(pid) = pid.filter(|pid| Process::has_ended(*pid)) {
            tracing::debug!("process {pid} is not watched: {why}");
            return;
        }
        let pid = pid.unwrap_or(0);
        let reason = format!("libraries that are loaded later are not noticed: {why}");
        tracing::warn!("{reason}");
        self.fact(
            pid,
            pid,
            &Fact::Gap(fact::Gap {
                pid,
                reason,
                duration: None,
            }),
        );
    }
}
