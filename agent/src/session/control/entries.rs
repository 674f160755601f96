//! Processes that are probed at the entry of calls alone.

use super::Controller;
use crate::{
    attach::{Links, NoReturns, Scope},
    discover::{Found, Process},
};

impl Controller {
    /// Why a process with links of this scope is to be probed at entries alone, if it is.
    pub(super) fn no_returns(&mut self, process: &Process, scope: Scope) -> Option<NoReturns> {
        let reason = self.entry_only.reason(process);
        match scope {
            Scope::Process(_) => {}
            Scope::All => {
                if let Some(reason) = reason {
                    self.share_entries_only(process.pid(), reason);
                }
            }
        }
        let shared = matches!(scope, Scope::All) && self.shared_entry_only.is_some();
        let reason = reason.or(shared.then_some(NoReturns::Shared));
        if let Some(reason) = reason {
            self.entries_only = true;
            if reason != NoReturns::Asked {
                let pid = process.pid();
                tracing::warn!("process {pid} is probed at the entry of calls alone: {reason}");
            }
        }
        reason
    }

    /// The process runs another program.
    pub(super) fn reconsider_returns(&mut self, process: &Process) {
        let pid = process.pid();
        let scope = self.scope(pid);
        let reason = self.no_returns(process, scope);
        let Some(traced) = self.processes.get_mut(&pid) else {
            return;
        };
        if traced.entry_only.is_some() != reason.is_some() {
            // What it had for the program before would go on.
            let links: Vec<Links> = traced.links.drain().map(|(_, links)| links).collect();
            self.detacher.detach(links);
        }
        if let Some(traced) = self.processes.get_mut(&pid) {
            traced.entry_only = reason;
        }
    }

    /// Which of a library's sites the links of a process take.
    pub(super) fn is_entry_only(&self, pid: u32, scope: Scope) -> bool {
        match scope {
            Scope::All => self.shared_entry_only.is_some(),
            Scope::Process(_) => self
                .processes
                .get(&pid)
                .is_some_and(|process| process.entry_only.is_some()),
        }
    }

    /// From now on links on all processes have no return probes, for the sake of one that they
    /// might harm.
    fn share_entries_only(&mut self, pid: u32, reason: NoReturns) {
        if self.shared_entry_only.is_some() {
            return;
        }
        self.shared_entry_only = Some(reason);
        let since = super::clock::monotonic();
        let shared: Vec<(Found, Links)> = self.shared.drain().map(|(_, shared)| shared).collect();
        if shared.is_empty() {
            return;
        }
        let (found, links): (Vec<Found>, Vec<Links>) = shared.into_iter().unzip();
        Links::detach_all(links);
        for found in &found {
            self.attach_or_warn(pid, found, None);
        }
        let mut others = Vec::new();
        for (&other, process) in &mut self.processes {
            if process.scope == Scope::All && process.entry_only.is_none() {
                process.entry_only = Some(NoReturns::Shared);
                others.push(other);
            }
        }
        for other in others {
            self.announce_process(other);
            self.gap(other, "its return probes were taken off", since);
        }
    }
}
