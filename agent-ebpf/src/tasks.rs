//! Traced processes' lives: forks, execs, exits; and the ends of threads.
//!
//! Raw tracepoints, whose arguments are kernel structures. Which offsets their fields have is
//! told by user space, from the kernel's own BTF.

use agent_common::{Header, MAX_DEPTH, RecordKind, TASKS, TaskRecord};
use aya_ebpf::{
    bindings::BPF_RB_FORCE_WAKEUP,
    helpers::{bpf_get_current_pid_tgid, bpf_probe_read_kernel},
    macros::raw_tracepoint,
    programs::RawTracePointContext,
};

use crate::{
    calls, config,
    hit::{self, Ids, count, is_traced, now},
    maps::{ARMED, COUNTERS, LINK_MAPS, OPEN_CAPTURES, PROCESSES, RING, THREADS},
};

/// `sched_process_fork(parent, child)`, before the child runs.
#[raw_tracepoint(tracepoint = "sched_process_fork")]
pub(crate) fn process_fork(ctx: RawTracePointContext) -> i32 {
    let _ = on_fork(ctx.arg::<u64>(1));
    0
}

#[inline(always)]
fn on_fork(child: u64) -> Option<()> {
    let pid: u32 = kernel(child, config::task_pid())?;
    let tgid: u32 = kernel(child, config::task_tgid())?;
    if pid != tgid {
        return None;
    }
    let ids = Ids::current();
    if !is_traced(hit::tgid(bpf_get_current_pid_tgid())) && !disarm(&ids) {
        // Ids are used again: what a past process left behind must not count for this one.
        let _ = PROCESSES.remove(&tgid);
        return None;
    }
    let namespace_pid = namespace_pid(child).unwrap_or(tgid);
    let _ = PROCESSES.insert(&tgid, &namespace_pid, 0);
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

/// Deepest nesting of pid namespaces that is looked through (the kernel allows 32).
const MAX_NAMESPACES: u64 = 8;

/// The process id that the agent's namespace has for a task: a task has one in its own
/// namespace and in each one around it.
#[inline(always)]
fn namespace_pid(task: u64) -> Option<u32> {
    let pid: u64 = kernel(task, config::task_thread_pid())?;
    let level: u32 = kernel(pid, config::pid_level())?;
    for index in 0..MAX_NAMESPACES {
        if index > u64::from(level) {
            break;
        }
        let upid = pid + config::pid_numbers() + index * config::upid_size();
        let namespace: u64 = kernel(upid, config::upid_ns())?;
        let inum: u32 = kernel(namespace, config::namespace_inum())?;
        if u64::from(inum) == config::namespace_ino() {
            // `struct upid` begins with `nr`.
            return read_kernel(upid);
        }
    }
    None
}

/// `sched_process_exec(task, old_pid, bprm)`.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
pub(crate) fn process_exec(ctx: RawTracePointContext) -> i32 {
    let pid_tgid = bpf_get_current_pid_tgid();
    if !is_traced(hit::tgid(pid_tgid)) {
        return 0;
    }
    // The new program has the leader's id, whichever thread called.
    let old_pid = ctx.arg::<u64>(1) & 0xffff_ffff;
    let _ = THREADS.remove(&((pid_tgid & !0xffff_ffff) | old_pid));
    let _ = THREADS.remove(&pid_tgid);
    let _ = LINK_MAPS.remove(&hit::tgid(pid_tgid));
    emit(RecordKind::Exec, &Ids::current(), 0);
    0
}

/// `sched_process_exit(task)`, once for each thread.
#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub(crate) fn process_exit(ctx: RawTracePointContext) -> i32 {
    let pid_tgid = bpf_get_current_pid_tgid();
    if let Some(thread) = THREADS.get_ptr_mut(&pid_tgid) {
        // SAFETY: the entry is this thread's own.
        let thread = unsafe { &mut *thread };
        for _ in 0..MAX_DEPTH {
            calls::abandon_top(thread);
        }
        let _ = THREADS.remove(&pid_tgid);
    }
    let tgid = hit::tgid(pid_tgid);
    // SAFETY: only presence is asked for.
    if unsafe { PROCESSES.get(&tgid) }.is_none() && !is_traced(tgid) {
        return 0;
    }
    if is_last_thread(ctx.arg::<u64>(0), pid_tgid) {
        emit(RecordKind::Exit, &Ids::current(), 0);
        let _ = PROCESSES.remove(&tgid);
        let _ = LINK_MAPS.remove(&tgid);
        let _ = OPEN_CAPTURES.remove(&tgid);
    }
    0
}

/// Whether the process ends with this thread: `signal->live` has been counted down before the
/// tracepoint (kernel/exit.c, `do_exit`).
#[inline(always)]
fn is_last_thread(task: u64, pid_tgid: u64) -> bool {
    let live = kernel::<u64>(task, config::task_signal())
        .and_then(|signal| kernel::<i32>(signal, config::signal_live()));
    match live {
        Some(live) => live == 0,
        None => hit::tgid(pid_tgid) == (pid_tgid & 0xffff_ffff) as u32,
    }
}

#[inline(always)]
fn emit(kind: RecordKind, ids: &Ids, child: u64) {
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

/// A field of a kernel structure; `None` where its offset is not known (0).
#[inline(always)]
fn kernel<T>(structure: u64, offset: u64) -> Option<T> {
    if offset == 0 {
        return None;
    }
    read_kernel(structure.wrapping_add(offset))
}

/// An integer in the kernel's memory.
#[inline(always)]
fn read_kernel<T>(address: u64) -> Option<T> {
    // SAFETY: the helper checks the address; only integers are read.
    unsafe { bpf_probe_read_kernel(core::ptr::with_exposed_provenance(address as usize)) }.ok()
}
