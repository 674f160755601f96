//! What becomes of a traced process: children, new programs, its end.

use std::num::NonZeroU32;

use super::{Controller, Traced, choose::has_not_called};
use crate::{
    attach::Scope,
    discover::{Process, Seen},
    kernel::AttachMode,
    session::{clock, drain::Inbox},
};

impl Controller {
    /// A child maps what its parent maps: probes go there before anything is looked at.
    pub(super) fn forked(&mut self, parent: u32, child: u32, timestamp: u64) {
        let (from_start, watched, found, entry_only, is_idle) = self
            .processes
            .get(&parent)
            .map(|parent| {
                let found = parent.found.clone();
                let Traced {
                    from_start,
                    watched,
                    entry_only,
                    is_idle,
                    ..
                } = parent;
                (*from_start, *watched, found, *entry_only, *is_idle)
            })
            .unwrap_or_default();
        let scope = match (self.scope(parent), NonZeroU32::new(child)) {
            (Scope::Process(_), Some(child)) => Scope::Process(child),
            (Scope::Process(_) | Scope::All, _) => Scope::All,
        };
        // The agent's own child is the command, about to exec.
        let is_command = parent == std::process::id();
        // A start that was missed in the parent is missed in the child.
        let from_start = from_start || is_command;
        self.processes.insert(
            child,
            Traced {
                entry_only,
                from_start,
                began: Some(timestamp),
                is_idle,
                watched,
                ..Traced::new(scope)
            },
        );
        if let Err(error) = self.target(child, scope) {
            tracing::warn!("{error}");
        }
        for found in &found {
            self.attach_or_warn(child, found, None);
        }
        if scope != Scope::All && !found.is_empty() && !is_idle {
            self.gap(
                child,
                "forked: its calls before it had probes of its own",
                timestamp,
            );
        }
        if is_command {
            return;
        }
        self.announce_process(child);
        if let Ok(process) = Process::open(child) {
            self.watch_process(&process);
        }
    }

    pub(super) fn executed(&mut self, pid: u32, timestamp: u64) {
        let from_start = self.is_command || has_not_called(pid);
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        process.from_start = from_start;
        process.began = Some(timestamp);
        process.is_idle = false;
        process.seems_ended = false;
        process.seen = Seen::default();
        process.found.clear();
        let running = Process::open(pid);
        if let Ok(process) = &running {
            self.reconsider_returns(process);
        }
        self.announce_process(pid);
        if let Ok(process) = running {
            self.expect_libraries(&process, timestamp);
            let watched = self.watch_process(&process);
            if let Some(process) = self.processes.get_mut(&pid) {
                process.watched = watched;
            }
        }
        // A program that our linker probe is too late for has its libraries by now.
        self.gathering.entry(pid).or_insert_with(clock::monotonic);
    }

    pub(super) fn exited(&mut self, pid: u32) {
        self.gathering.remove(&pid);
        let _ = self.targets.remove(&pid);
        if let Some(process) = self.processes.remove(&pid) {
            self.detacher.detach(process.links.into_values());
        }
        self.leave_shared_links();
        let _ = self.inbox.send(Inbox::Gone { pid });
        if self.ends_with_processes && self.processes.is_empty() {
            self.stop.request();
        }
    }

    /// Where links of each process are the rule, those on all processes go with the last process
    /// that needs them: until then, others on the same files pay for them.
    pub(super) fn leave_shared_links(&mut self) {
        let needed = self.mode != AttachMode::Scoped
            || self
                .processes
                .values()
                .any(|process| process.scope == Scope::All);
        if !needed {
            let shared = self.shared.drain().map(|(_, (_, links))| links);
            let linkers = self.shared_linkers.drain().map(|(_, (_, links))| links);
            self.detacher.detach(shared.chain(linkers));
        }
    }
}
