//! Processes that have CUDA's libraries and do not use them: a compiler's workers, launchers.
//!
//! At each hit of a function, the kernel asks every link that is on it whether the caller is its
//! process (`uprobe_multi_link_handler`). In a loop of nothing but launches, thirty such processes
//! made a hit 40 % dearer (1,160 ns in place of 815, Linux 6.18), and a program that does other
//! things between its calls does not have all those links in its cache. So where many have links on
//! the same files, those that have not called `cuInit` lose theirs until they do. One link on all
//! processes sees that call, of which a process makes a few.

use std::time::{Duration, Instant};

use agent_common::Layer;
use aya::maps::MapError;

use super::{Controller, Traced, clock};
use crate::{
    attach::{Links, Scope},
    discover::Found,
    kernel::AttachMode,
};

/// So many processes with links of their own cost little.
const FEW: usize = 4;

/// The link on a driver's `cuInit`.
pub(super) struct StartWatch {
    pub(super) links: Links,
    /// Since when, ns of `CLOCK_MONOTONIC`.
    since: u64,
}

impl Controller {
    /// How long control may wait until it looks for idle processes.
    pub(super) fn idle_wait(&self) -> Option<Duration> {
        let is_any_idle = || self.processes.values().any(|process| process.is_idle);
        let due = self.looked_for_idle + self.idle_after / 4;
        (self.has_many() || is_any_idle()).then(|| due.saturating_duration_since(Instant::now()))
    }

    /// Whether many processes have libraries that links of their own are for.
    fn has_many(&self) -> bool {
        let processes = self.processes.values();
        let mut own =
            processes.filter(|process| process.scope != Scope::All && !process.found.is_empty());
        self.mode == AttachMode::Scoped && own.nth(FEW).is_some()
    }

    /// Takes the probes off those that have not begun to use CUDA, if it is time to.
    pub(super) fn look_for_idle(&mut self) {
        if self.idle_wait().is_none_or(|wait| !wait.is_zero()) {
            return;
        }
        self.looked_for_idle = Instant::now();
        // Whose record was lost: the ring was full.
        let idle = self.processes.iter().filter(|(_, process)| process.is_idle);
        let begun: Vec<(u32, u64)> = idle
            .filter_map(|(pid, _)| Some((*pid, self.started.get(pid, 0).ok()?)))
            .collect();
        for (pid, timestamp) in begun {
            self.begins_to_use_cuda(pid, timestamp);
        }
        if self.has_many() {
            self.let_idle_ones_wait();
        }
        self.tell_attached();
    }

    fn let_idle_ones_wait(&mut self) {
        let idle = self.processes.iter().filter(|(pid, process)| {
            process.has_own_probes() && self.is_known_not_to_use_cuda(**pid, process)
        });
        let idle: Vec<u32> = idle.map(|(pid, _)| *pid).collect();
        for pid in idle {
            let Some(process) = self.processes.get_mut(&pid) else {
                continue;
            };
            process.is_idle = true;
            let files = process.found.iter().map(|found| found.library.identity());
            let links: Vec<Links> = files
                .filter_map(|file| process.links.remove(&file))
                .collect();
            self.detacher.detach(links);
            tracing::debug!("process {pid} does not use CUDA: its probes wait until it does");
        }
    }

    /// Whether it has been there for a while, its `cuInit` would have been seen, and was not.
    fn is_known_not_to_use_cuda(&self, pid: u32, process: &Traced) -> bool {
        let Some(began) = process.began else {
            return false;
        };
        let is_watched = process.found.iter().all(|found| {
            let watch = self.start_watches.get(&found.library.identity());
            !is_driver(found) || watch.is_some_and(|watch| watch.since < began)
        });
        let age = Duration::from_nanos(clock::monotonic().saturating_sub(began));
        let started = self.started.get(&pid, 0);
        is_watched && age >= self.idle_after && matches!(started, Err(MapError::KeyNotFound))
    }

    /// Watches for the first call of a library, where it is a driver and there are many processes.
    pub(super) fn watch_start(&mut self, found: &Found, scope: Scope) {
        let identity = found.library.identity();
        // It is on all processes: neighbours of a few are left alone.
        let is_wanted = self.has_many() && scope != Scope::All && is_driver(found);
        let Some(offset) = found.library.start.filter(|_| is_wanted) else {
            return;
        };
        if self.start_watches.contains_key(&identity) {
            return;
        }
        let path = found.library.file.attach_path();
        match Links::attach_start(&mut self.programs, offset, &path) {
            Ok(links) => {
                let since = clock::monotonic();
                self.start_watches
                    .insert(identity, StartWatch { links, since });
            }
            Err(error) => tracing::debug!("{error}: idle processes keep their probes"),
        }
    }

    /// Whether an idle process can go without probes on a library that it has mapped: its first call
    /// of a driver must be seen, and other libraries do nothing before that.
    pub(super) fn may_stay_idle(&self, pid: u32, found: &Found) -> bool {
        let is_seen = || self.start_watches.contains_key(&found.library.identity());
        let process = self.processes.get(&pid);
        process.is_some_and(|process| process.is_idle) && (!is_driver(found) || is_seen())
    }

    /// An idle process gets its probes back: it maps a driver whose first call might be missed.
    pub(super) fn wake(&mut self, pid: u32, since: Option<u64>) {
        let process = self.processes.get_mut(&pid);
        let Some(process) = process.filter(|process| process.is_idle) else {
            return;
        };
        process.is_idle = false;
        for found in process.found.clone() {
            self.attach_or_warn(pid, &found, since);
        }
    }

    /// An idle process uses CUDA, since `timestamp`.
    pub(super) fn begins_to_use_cuda(&mut self, pid: u32, timestamp: u64) {
        if !self
            .processes
            .get(&pid)
            .is_some_and(|process| process.is_idle)
        {
            return;
        }
        self.wake(pid, None);
        let reason = "it was idle, and began to use CUDA: until it had its probes back";
        self.gap(pid, reason, timestamp);
    }
}

fn is_driver(found: &Found) -> bool {
    found.library.layers.contains(&Layer::Driver)
}
