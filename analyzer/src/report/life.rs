//! Processes, calls that did not return, and when the recorder did not see all.

use std::collections::BTreeMap;

use agent_common::ApiId;
use trace::{Event, fact};

use super::memory::Doubts;
use super::{Gap, Hold, OpenCall, Process, Untraced};

/// The processes of a recording.
#[derive(Debug, Default)]
pub(super) struct ProcessTable {
    /// By process id, the one that has it now, and those that had it before.
    processes: BTreeMap<u32, Vec<Process>>,
    /// The last one looked up: rows of one process come in runs.
    last: Option<u32>,
}

impl ProcessTable {
    /// A call of this process.
    #[inline]
    pub(super) fn seen(&mut self, pid: u32) {
        if self.last != Some(pid) {
            self.last = Some(pid);
            self.current(pid).has_calls = true;
        }
    }

    /// The recording tells who this process is. It may tell again, after an exec.
    pub(super) fn told(&mut self, told: fact::Process) {
        let fact::Process {
            pid,
            namespace_pid,
            start_time,
            parent,
            exe,
            title,
            command: _,
            from_start,
            visible_devices: _,
            container: _,
            pod_uid: _,
            entry_only,
        } = told;
        // It may be another process with the same id, whose calls are to be seen anew.
        self.last = None;
        let mut process = self.current(pid);
        if process.start_time.is_some_and(|known| known != start_time) {
            self.processes
                .entry(pid)
                .or_default()
                .push(unknown_process(pid));
            process = self.current(pid);
        }
        process.start_time = Some(start_time);
        process.namespace_pid = Some(namespace_pid);
        process.parent.get_or_insert(parent);
        process.exe = Some(exe);
        process.title = Some(title);
        process.from_start.get_or_insert(from_start);
        process.entry_only = entry_only;
    }

    /// The process ended.
    pub(super) fn ended(&mut self, pid: u32, timestamp: u64) {
        self.current(pid).ended_ns = Some(timestamp);
    }

    /// [`super::Report::processes`].
    pub(super) fn finish(self, doubts: &BTreeMap<(u32, Option<u64>), Doubts>) -> Vec<Process> {
        let mut processes: Vec<Process> = self.processes.into_values().flatten().collect();
        for process in &mut processes {
            let of = (process.pid, process.start_time);
            let Doubts {
                unknown_frees,
                lost_frees,
                unread_allocations,
                memory_sampled,
            } = doubts.get(&of).copied().unwrap_or_default();
            process.unknown_frees = unknown_frees;
            process.lost_frees = lost_frees;
            process.unread_allocations = unread_allocations;
            process.memory_sampled = memory_sampled;
        }
        processes
    }

    fn current(&mut self, pid: u32) -> &mut Process {
        let incarnations = self.processes.entry(pid).or_default();
        if incarnations.is_empty() {
            incarnations.push(unknown_process(pid));
        }
        let last = incarnations.len() - 1;
        &mut incarnations[last]
    }
}

fn unknown_process(pid: u32) -> Process {
    Process {
        pid,
        start_time: None,
        namespace_pid: None,
        parent: None,
        exe: None,
        title: None,
        from_start: None,
        entry_only: None,
        ended_ns: None,
        has_calls: false,
        unknown_frees: 0,
        lost_frees: 0,
        unread_allocations: 0,
        memory_sampled: false,
    }
}

impl OpenCall {
    pub(super) fn of(event: &Event) -> Self {
        Self {
            api: event.api.and_then(ApiId::api).map(|api| api.name),
            pid: event.pid,
            tid: event.tid,
            entered_ns: event.timestamp,
            age_ns: event.duration,
            stream: event.stream,
            handle: event.handle,
            address: event.address,
        }
    }
}

impl Untraced {
    pub(super) fn in_module(module: fact::Module) -> impl Iterator<Item = Self> {
        let fact::Module { path, refused, .. } = module;
        refused.into_iter().map(move |(symbol, reason)| Self {
            module: path.clone(),
            symbol,
            reason,
        })
    }
}

impl Gap {
    pub(super) fn of(gap: fact::Gap, at_ns: u64) -> Self {
        let fact::Gap {
            pid,
            reason,
            duration,
        } = gap;
        Self {
            pid,
            at_ns,
            reason,
            duration_ns: duration,
        }
    }
}

impl Hold {
    pub(super) fn of(duration_ns: u64, pid: u32, at_ns: u64) -> Self {
        Self {
            pid,
            at_ns,
            duration_ns,
        }
    }
}
