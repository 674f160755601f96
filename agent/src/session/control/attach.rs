//! Attaching to a library.

use agent_common::ApiId;
use trace::Fact;

use super::{AttachFailure, Controller};
use crate::{
    attach::{AttachError, Scope},
    discover::{Found, Process},
    kernel::AttachMode,
};

impl Controller {
    pub(super) fn attach_or_warn(&mut self, pid: u32, found: &Found, since: Option<u64>) {
        match self.attach(pid, found, since) {
            Ok(()) => {
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.keep(found.clone());
                }
            }
            // It has ended meanwhile: children that do little live for less than that takes.
            Err(error) if Process::has_ended(pid) => tracing::debug!("process {pid}: {error}"),
            Err(error) => tracing::warn!("process {pid}: {error}"),
        }
    }

    /// Attaches to a library, once in each scope.
    pub(super) fn attach(
        &mut self,
        pid: u32,
        found: &Found,
        since: Option<u64>,
    ) -> Result<(), AttachFailure> {
        // It is found again when probes are switched on.
        if self.switch.is_off() {
            return Ok(());
        }
        if self.may_stay_idle(pid, found) {
            return Ok(());
        }
        self.wake(pid, since);
        let identity = found.library.identity();
        let scope = self.scope(pid);
        let known = match scope {
            Scope::All => self.shared.contains_key(&identity),
            Scope::Process(_) => self
                .processes
                .get(&pid)
                .is_some_and(|process| process.links.contains_key(&identity)),
        };
        if known {
            return Ok(());
        }
        self.watch_start(found, scope);
        let families = self.families.clone();
        let reduced = self.mode == AttachMode::Single;
        let is_traced = |id: ApiId| {
            id.api()
                .is_some_and(|api| api.is_traced_with(&families) && (api.core || !reduced))
        };
        let entry_only = self.is_entry_only(pid, scope);
        if !self.placed.contains_key(&(identity, entry_only)) {
            let placed = self
                .sites
                .add_library(&found.library, entry_only, is_traced)
                .map_err(AttachError::from)?;
            self.placed.insert((identity, entry_only), placed);
        }
        let placed = self
            .placed
            .get(&(identity, entry_only))
            .cloned()
            .unwrap_or_default();
        let links = self.attach_points(found, &placed, scope)?;
        match scope {
            Scope::All => {
                self.shared.insert(identity, (found.clone(), links));
            }
            Scope::Process(_) => {
                if let Some(process) = self.processes.get_mut(&pid) {
                    process.links.insert(identity, links);
                }
            }
        }
        tracing::debug!("process {pid}: probes on {}", found.path.display());
        self.attached.insert(identity);
        if self.announced.insert((identity, found.path.clone())) {
            let mut module = found.library.fact(&found.path, is_traced);
            if reduced {
                let left_out = found.library.points.iter().filter(|point| {
                    !is_traced(point.api)
                        && point
                            .api
                            .api()
                            .is_some_and(|api| api.is_traced_with(&families))
                });
                let reason = "left out with single uprobes, for each takes 0.1 s to detach";
                module
                    .refused
                    .extend(left_out.map(|point| (point.symbol.to_owned(), reason.to_owned())));
            }
            tracing::info!("tracing {} of {}", module.probes.len(), module.path);
            self.fact(pid, pid, &Fact::Module(module));
        }
        let held = self.is_command
            && is_named_like_cuda(found)
            && self
                .processes
                .get(&pid)
                .is_some_and(|process| process.watched);
        // A process that is about to be held for this library has made no call of it yet.
        if let Some(since) = since.filter(|_| !held) {
            self.mapped_too_early(pid, found, since);
        }
        Ok(())
    }

    /// Calls of a library may have been missed, since when it may have been mapped.
    pub(super) fn mapped_too_early(&self, pid: u32, found: &Found, since: u64) {
        let reason = format!("{} was mapped before it had probes", found.path.display());
        self.gap(pid, &reason, since);
    }
}

/// Whether the linker's probe takes the library for CUDA's or PyTorch's (agent-ebpf's
/// `linker.rs`): by the name of its file, or by the one that it gives itself.
fn is_named_like_cuda(found: &Found) -> bool {
    let file = found
        .path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    [file, found.library.soname.clone()]
        .iter()
        .flatten()
        .any(|name| name.starts_with("libcuda") || name.starts_with("libc10"))
}
