//! Traced processes' lives: forks, execs, exits; and the ends of threads.
//!
//! Raw tracepoints, whose arguments are kernel structures.

use agent_common::{Header, OWN_LINKS, RecordKind, TASKS, TaskRecord};
use aya_ebpf::{
    bindings::BPF_RB_FORCE_WAKEUP, helpers::bpf_get_current_pid_tgid, macros::raw_tracepoint,
    programs::RawTracePointContext,
};

use crate::{
    calls, config,
    hit::{self, count, is_traced, now, traced},
    ids::{Ids, namespace_pid},
    kernel::field,
    maps::{ARMED, COUNTERS, LINK_MAPS, OPEN_CAPTURES, PROCESSES, RING, STARTED, THREADS},
};

/// `sched_process_fork(parent, child)`, before the child runs.
#[raw_tracepoint(tracepoint = "sched_process_fork")]
pub(crate) fn process_fork(ctx: RawTracePointContext) -> i32 {
    let _ = on_fork(ctx.arg::<u64>(1));
    0
}

#[inline(always)]
fn on_fork(child: u64) -> Option<()> {
    let pid: u32 = field(child, config::task_pid())?;
    let tgid: u32 = field(child, config::task_tgid())?;
    if pid != tgid {
        return None;
    }
    let ids = Ids::current();
    let parent = traced(hit::tgid(bpf_get_current_pid_tgid()));
    let parent = if parent.is_none() && disarm(&ids) {
        Some(0)
    } else {
        parent
    };
    let Some(parent) = parent else {
        // Ids are used again: what a past process left behind must not count for this one.
        let _ = PROCESSES.remove(&tgid);
        return None;
    };
    let namespace_pid = match namespace_pid(child) {
        0 => tgid,
        pid => pid,
    };
    let _ = PROCESSES.insert(&tgid, &(namespace_pid | parent & OWN_LINKS), 0);
    // CUDA does not survive a fork: whatever its parent did, the child has not begun.
    let _ = STARTED.remove(&namespace_pid);
    emit(RecordKind::Fork, &ids, u64::from(namespace_pid));
    None
}

/// Whether the current task is the agent, about to start the command that it traces.
#[inline(always)]
fn disarm(ids: &Ids) -> bool {
    if ids.foreign || ids.pid != config::agent_pid() {
        return false;
    }
    let Some(armed) = ARMED.get_ptr_mut(0) else {
        return false;
    };
    // SAFETY: a value of an array map; only user space and this program, which runs in the
    // agent itself, write it.
    unsafe {
        if *armed == 0 {
            return false;
        }
        *armed = 0;
    }
    true
}

/// `sched_process_exec(task, old_pid, bprm)`.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
pub(crate) fn process_exec(ctx: RawTracePointContext) -> i32 {
    let pid_tgid = bpf_get_current_pid_tgid();
    if !is_traced(hit::tgid(pid_tgid)) {
        tell_of_start();
        return 0;
    }
    // The new program has the leader's id, whichever thread called.
    let old_pid = ctx.arg::<u64>(1) & 0xffff_ffff;
    let _ = THREADS.remove(&((pid_tgid & !0xffff_ffff) | old_pid));
    let _ = THREADS.remove(&pid_tgid);
    let _ = LINK_MAPS.remove(&hit::tgid(pid_tgid));
    let ids = Ids::current();
    let _ = STARTED.remove(&ids.pid);
    emit(RecordKind::Exec, &ids, 0);
    0
}

/// Somebody may want to trace it.
#[inline(always)]
fn tell_of_start() {
    if config::tell_of_starts() == 0 {
        return;
    }
    let ids = Ids::current();
    let _ = STARTED.remove(&ids.pid);
    if !ids.foreign {
        emit(RecordKind::Started, &ids, 0);
    }
}

/// `sched_process_exit(task)`, once for each thread.
#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub(crate) fn process_exit(ctx: RawTracePointContext) -> i32 {
    let pid_tgid = bpf_get_current_pid_tgid();
    if let Some(thread) = THREADS.get_ptr_mut(&pid_tgid) {
        // SAFETY: the entry is this thread's own.
        calls::abandon_all(unsafe { &mut *thread });
        let _ = THREADS.remove(&pid_tgid);
    }
    let tgid = hit::tgid(pid_tgid);
    // SAFETY: only presence is asked for.
    if unsafe { PROCESSES.get(&tgid) }.is_none() && !is_traced(tgid) {
        leave_unknown(ctx.arg::<u64>(0), pid_tgid);
        return 0;
    }
    if is_last_thread(ctx.arg::<u64>(0), pid_tgid) {
        let ids = Ids::current();
        let _ = STARTED.remove(&ids.pid);
        emit(RecordKind::Exit, &ids, 0);
        let _ = PROCESSES.remove(&tgid);
        let _ = LINK_MAPS.remove(&tgid);
        let _ = OPEN_CAPTURES.remove(&tgid);
    }
    0
}

/// The end of a process that might have been traced.
#[inline(always)]
fn leave_unknown(task: u64, pid_tgid: u64) {
    if config::tell_of_starts() == 0 {
        return;
    }
    let ids = Ids::current();
    // SAFETY: only presence is asked for.
    if unsafe { STARTED.get(&ids.pid) }.is_some() && is_last_thread(task, pid_tgid) {
        let _ = STARTED.remove(&ids.pid);
    }
}

/// Whether the process ends with this thread: `signal->live` has been counted down before the
/// tracepoint (kernel/exit.c, `do_exit`).
#[inline(always)]
fn is_last_thread(task: u64, pid_tgid: u64) -> bool {
    let live = field::<u64>(task, config::task_signal())
        .and_then(|signal| field::<i32>(signal, config::signal_live()));
    match live {
        Some(live) => live == 0,
        None => hit::tgid(pid_tgid) == (pid_tgid & 0xffff_ffff) as u32,
    }
}

/// Tells user space of the current process.
#[inline(always)]
pub(crate) fn emit(kind: RecordKind, ids: &Ids, child: u64) {
    let Some(mut entry) = RING.reserve::<TaskRecord>(0) else {
        if let Some(counters) = COUNTERS.get_ptr_mut(u32::from(TASKS.0)) {
            count!(counters, lost_extra, 1);
        }
        return;
    };
    entry.write(TaskRecord {
        header: Header {
            timestamp: now(),
            pid: ids.pid,
            tid: ids.tid,
            kind: kind as u8,
            reserved: 0,
            api: 0,
            flags: 0,
        },
        child,
    });
    entry.submit(BPF_RB_FORCE_WAKEUP.into());
}
