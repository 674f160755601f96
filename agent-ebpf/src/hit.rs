//! A probe hit: where it is, whose it is, and the thread's state.

use core::arch::asm;

use agent_common::{Cookie, Counters, Site, ThreadState, flags};
use aya_ebpf::{
    EbpfContext as _,
    bindings::bpf_pidns_info,
    helpers::{
        bpf_get_attach_cookie, bpf_get_current_pid_tgid, bpf_get_ns_current_pid_tgid,
        bpf_ktime_get_ns, bpf_probe_read_user,
    },
    programs::ProbeContext,
};

use crate::{
    config,
    maps::{COUNTERS, NEW_THREAD, PROCESSES, SITES, TARGETS, THREADS},
};

/// A hit in a traced process.
pub(crate) struct Hit {
    /// The attach point.
    pub(crate) site: &'static Site,
    /// Index of the site.
    pub(crate) site_index: u32,
    /// The kernel's name of the thread.
    pub(crate) pid_tgid: u64,
    /// The scoped process, 0 with links on all processes.
    pub(crate) scope: u32,
    /// This function's counters on this CPU.
    pub(crate) counters: *mut Counters,
}

/// Adds to a counter of this CPU.
///
/// Atomically: uprobe programs may be preempted by another one on the same CPU. In assembly,
/// since the BPF target of rustc has no atomic read-modify-write.
#[inline(always)]
pub(crate) fn add(counter: *mut u64, amount: u64) {
    // SAFETY: the pointer leads into a value of COUNTERS, which lives as long as the programs
    // and is only accessed like this.
    unsafe { asm!("lock *(u64 *)({0} + 0) += {1}", in(reg) counter, in(reg) amount) };
}

/// Adds to one counter of a hit.
macro_rules! count {
    ($counters:expr, $field:ident, $amount:expr) => {
        // SAFETY: the pointer is one that COUNTERS gave out.
        $crate::hit::add(unsafe { &raw mut (*$counters).$field }, $amount)
    };
}
pub(crate) use count;

impl Hit {
    /// Says where a probe hit is; `None` outside the traced processes.
    #[inline(always)]
    pub(crate) fn new(ctx: &ProbeContext) -> Option<Self> {
        // SAFETY: the helper takes the context that the kernel gave this program.
        let cookie = Cookie::from_bits(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
        let pid_tgid = bpf_get_current_pid_tgid();
        if cookie.pid == 0 && !is_traced(tgid(pid_tgid)) {
            return None;
        }
        let site = SITES.get(cookie.site)?;
        let counters = COUNTERS.get_ptr_mut(u32::from(site.api))?;
        Some(Self {
            site,
            site_index: cookie.site,
            pid_tgid,
            scope: cookie.pid,
            counters,
        })
    }

    /// The thread's state, made at its first hit; `None` if the map is full.
    #[inline(always)]
    pub(crate) fn thread(&self) -> Option<&'static mut ThreadState> {
        if let Some(thread) = THREADS.get_ptr_mut(&self.pid_tgid) {
            // SAFETY: only the thread itself, and its exit, touch its entry.
            return Some(unsafe { &mut *thread });
        }
        new_thread(self.pid_tgid, self.scope)
    }

    /// The thread's state, if it has one.
    #[inline(always)]
    pub(crate) fn known_thread(&self) -> Option<&'static mut ThreadState> {
        // SAFETY: as in `thread`.
        THREADS
            .get_ptr_mut(&self.pid_tgid)
            .map(|thread| unsafe { &mut *thread })
    }
}

#[inline(always)]
fn new_thread(pid_tgid: u64, scope: u32) -> Option<&'static mut ThreadState> {
    let empty = NEW_THREAD.get(0)?;
    THREADS.insert(&pid_tgid, empty, 0).ok()?;
    let thread = THREADS.get_ptr_mut(&pid_tgid)?;
    // SAFETY: as in `Hit::thread`.
    let thread = unsafe { &mut *thread };
    let ids = Ids::current();
    thread.pid = if scope == 0 { ids.pid } else { scope };
    thread.tid = ids.tid;
    thread.flags = if ids.foreign { flags::FOREIGN_PID } else { 0 };
    Some(thread)
}

/// The current task's ids as the agent's pid namespace has them.
pub(crate) struct Ids {
    /// Process.
    pub(crate) pid: u32,
    /// Thread.
    pub(crate) tid: u32,
    /// The task is in another pid namespace than the agent: the thread id is the initial
    /// namespace's, and so is the process id, unless it is `known`.
    pub(crate) foreign: bool,
    /// The process id is the one that the agent's namespace has.
    pub(crate) known: bool,
}

impl Ids {
    /// Of the current task.
    #[inline(always)]
    pub(crate) fn current() -> Self {
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
            return Self {
                pid: ids.tgid,
                tid: ids.pid,
                foreign: false,
                known: true,
            };
        }
        let pid_tgid = bpf_get_current_pid_tgid();
        let tgid = tgid(pid_tgid);
        // A child whose fork was seen: its process id came from the kernel's own tables.
        // SAFETY: the value is copied at once.
        let pid = unsafe { PROCESSES.get(&tgid) }.copied().unwrap_or(0);
        if pid != 0 {
            return Self {
                pid,
                tid: (pid_tgid & 0xffff_ffff) as u32,
                foreign: true,
                known: true,
            };
        }
        Self {
            pid: tgid,
            tid: (pid_tgid & 0xffff_ffff) as u32,
            foreign: true,
            known: false,
        }
    }
}

/// Whether the current process is traced, by the initial namespace's id or, for one that user
/// space named and that has not been met yet, by the agent's namespace's.
#[inline(always)]
pub(crate) fn is_traced(tgid: u32) -> bool {
    // SAFETY: only presence is asked for.
    if unsafe { PROCESSES.get(&tgid) }.is_some() {
        return true;
    }
    let ids = Ids::current();
    // SAFETY: only presence is asked for.
    if ids.foreign || unsafe { TARGETS.get(&ids.pid) }.is_none() {
        return false;
    }
    let _ = PROCESSES.insert(&tgid, &ids.pid, 0);
    true
}

/// Process part of `bpf_get_current_pid_tgid`.
#[inline(always)]
pub(crate) fn tgid(pid_tgid: u64) -> u32 {
    (pid_tgid >> 32) as u32
}

/// Now, ns of `CLOCK_MONOTONIC`.
#[inline(always)]
pub(crate) fn now() -> u64 {
    // SAFETY: no arguments.
    unsafe { bpf_ktime_get_ns() }
}

/// The stack pointer.
#[inline(always)]
pub(crate) fn stack_pointer(ctx: &ProbeContext) -> u64 {
    // SAFETY: the registers are the context.
    unsafe { (*ctx.regs).rsp }
}

/// The address of the probed instruction.
#[inline(always)]
pub(crate) fn instruction_pointer(ctx: &ProbeContext) -> u64 {
    // SAFETY: the registers are the context.
    unsafe { (*ctx.regs).rip }
}

/// The six argument registers.
///
/// All at once, whether they are needed or not: from a read that depends on a condition, the
/// compiler makes one whose address does, and the verifier takes no such address into the
/// context.
#[inline(always)]
pub(crate) fn args(ctx: &ProbeContext) -> [u64; 6] {
    // SAFETY: the registers are the context.
    unsafe {
        let regs = ctx.regs;
        [
            (&raw const (*regs).rdi).read_volatile(),
            (&raw const (*regs).rsi).read_volatile(),
            (&raw const (*regs).rdx).read_volatile(),
            (&raw const (*regs).rcx).read_volatile(),
            (&raw const (*regs).r8).read_volatile(),
            (&raw const (*regs).r9).read_volatile(),
        ]
    }
}

/// The return address at a function's entry.
#[inline(always)]
pub(crate) fn return_address(ctx: &ProbeContext) -> Option<u64> {
    read(stack_pointer(ctx))
}

/// A value in the target's memory.
#[inline(always)]
pub(crate) fn read<T>(address: u64) -> Option<T> {
    if address == 0 {
        return None;
    }
    // SAFETY: the helper checks the address; the caller picks types without invalid bit patterns.
    unsafe { bpf_probe_read_user(core::ptr::with_exposed_provenance(address as usize)) }.ok()
}
