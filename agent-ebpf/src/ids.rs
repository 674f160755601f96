//! Process and thread ids, as the agent's pid namespace has them.

use agent_common::OWN_LINKS;
use aya_ebpf::{
    bindings::bpf_pidns_info,
    helpers::{bpf_get_current_pid_tgid, bpf_get_current_task, bpf_get_ns_current_pid_tgid},
};

use crate::{
    config, hit,
    kernel::{field, read},
    maps::PROCESSES,
};

/// The current task's ids.
pub(crate) struct Ids {
    /// Process.
    pub(crate) pid: u32,
    /// Thread.
    pub(crate) tid: u32,
    /// The task has no ids in the agent's namespace, or they could not be found out: the thread
    /// id is the initial namespace's, and so is the process id, unless it is `known`.
    pub(crate) foreign: bool,
    /// The process id is the one that the agent's namespace has.
    pub(crate) known: bool,
}

impl Ids {
    /// Of the current task.
    #[inline(always)]
    pub(crate) fn current() -> Self {
        let pid_tgid = bpf_get_current_pid_tgid();
        let (tgid, tid) = (hit::tgid(pid_tgid), (pid_tgid & 0xffff_ffff) as u32);
        if config::in_initial_namespace() != 0 {
            return Self::of_the_agents_namespace(tgid, tid);
        }
        let mut ids = bpf_pidns_info { pid: 0, tgid: 0 };
        // SAFETY: the helper fills the struct, whose size it is told.
        let result = unsafe {
            bpf_get_ns_current_pid_tgid(
                config::namespace_dev(),
                config::namespace_ino(),
                &raw mut ids,
                size_of::<bpf_pidns_info>() as u32,
            )
        };
        if result == 0 {
            return Self::of_the_agents_namespace(ids.tgid, ids.pid);
        }
        // That helper knows a task's own namespace alone: this one's may lie inside of ours.
        // SAFETY: no arguments.
        let task = unsafe { bpf_get_current_task() };
        let thread = namespace_pid(task);
        let leader = field(task, config::task_group_leader()).map_or(0, namespace_pid);
        if thread != 0 && leader != 0 {
            return Self::of_the_agents_namespace(leader, thread);
        }
        // A child whose fork was seen.
        // SAFETY: the value is copied at once.
        let pid = unsafe { PROCESSES.get(&tgid) }.copied().unwrap_or(0) & !OWN_LINKS;
        Self {
            pid: if pid == 0 { tgid } else { pid },
            tid,
            foreign: true,
            known: pid != 0,
        }
    }

    #[inline(always)]
    fn of_the_agents_namespace(pid: u32, tid: u32) -> Self {
        Self {
            pid,
            tid,
            foreign: false,
            known: true,
        }
    }
}

/// Deepest nesting of pid namespaces that is looked through (the kernel allows 32).
const MAX_NAMESPACES: u64 = 8;

/// The id that the agent's namespace has for a task, which has one in its own namespace and in
/// each one around it; 0 where it has none.
#[inline(never)]
pub(crate) fn namespace_pid(task: u64) -> u32 {
    find(task).unwrap_or(0)
}

#[inline(always)]
fn find(task: u64) -> Option<u32> {
    let pid: u64 = field(task, config::task_thread_pid())?;
    let level: u32 = field(pid, config::pid_level())?;
    for index in 0..MAX_NAMESPACES {
        if index > u64::from(level) {
            break;
        }
        let upid = pid + config::pid_numbers() + index * config::upid_size();
        let namespace: u64 = field(upid, config::upid_ns())?;
        let inum: u32 = field(namespace, config::namespace_inum())?;
        if u64::from(inum) == config::namespace_ino() {
            // `struct upid` begins with `nr`.
            return read(upid);
        }
    }
    None
}
