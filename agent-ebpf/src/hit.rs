//! A probe hit: where it is, whose it is, and the thread's state.

use core::arch::asm;

use agent_common::{
    CLASSES, Cookie, Counters, OWN_LINKS, ProbeClass, Site, ThreadState, Windows, flags,
};
use aya_ebpf::{
    EbpfContext as _,
    helpers::{
        bpf_get_attach_cookie, bpf_get_current_pid_tgid, bpf_ktime_get_ns, bpf_probe_read_user,
    },
    programs::ProbeContext,
};

use crate::{
    calls,
    ids::Ids,
    maps::{COUNTERS, NEW_THREAD, PROCESSES, SILENCES, SITES, TARGETS, THREADS, WINDOWS},
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
    /// How often probes fell silent or came back.
    silences: u32,
    /// Which classes of probes are looked at.
    windows: Windows,
    /// The thread's state; null before its first hit.
    thread: *mut ThreadState,
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
    /// A hit at a call's entry; `None` while those of its class are passed over.
    #[inline(always)]
    pub(crate) fn entry(ctx: &ProbeContext) -> Option<Self> {
        let hit = Self::new(ctx)?;
        // SAFETY: only the thread itself, and its exit, touch its entry.
        if let Some(thread) = unsafe { hit.thread.as_mut() } {
            meet(&mut thread.entries, hit.site.class);
        }
        (!hit.windows.is_closed(hit.site.class)).then_some(hit)
    }

    /// Whether entries of a class are passed over.
    #[inline(always)]
    pub(crate) fn passes_over(&self, class: ProbeClass) -> bool {
        self.windows.is_closed(class as u8)
    }

    /// A hit at a call's return.
    #[inline(always)]
    pub(crate) fn at_return(ctx: &ProbeContext) -> Option<Self> {
        let hit = Self::new(ctx)?;
        // SAFETY: as in `entry`.
        if let Some(thread) = unsafe { hit.thread.as_mut() } {
            meet(&mut thread.returns, hit.site.class);
        }
        Some(hit)
    }

    /// Says where a probe hit is; `None` outside the traced processes, and while all probes are
    /// silent.
    #[inline(always)]
    pub(crate) fn new(ctx: &ProbeContext) -> Option<Self> {
        // SAFETY: the helper takes the context that the kernel gave this program.
        let cookie = Cookie::from_bits(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
        let pid_tgid = bpf_get_current_pid_tgid();
        let silences = *SILENCES.get(0)?;
        if silences % 2 != 0 {
            return None;
        }
        if cookie.pid == 0 && traced(tgid(pid_tgid))? & OWN_LINKS != 0 {
            return None;
        }
        let site = SITES.get(cookie.site)?;
        let counters = COUNTERS.get_ptr_mut(u32::from(site.api))?;
        let thread = THREADS
            .get_ptr_mut(&pid_tgid)
            .unwrap_or(core::ptr::null_mut());
        Some(Self {
            site,
            site_index: cookie.site,
            pid_tgid,
            scope: cookie.pid,
            silences,
            windows: Windows(*WINDOWS.get(0)?),
            thread,
            counters,
        })
    }

    /// The thread's state, made at its first hit; `None` if the map is full.
    #[inline(always)]
    pub(crate) fn thread(&self) -> Option<&'static mut ThreadState> {
        // SAFETY: as in `entry`.
        if let Some(thread) = unsafe { self.thread.as_mut() } {
            if thread.silences != self.silences {
                thread.silences = self.silences;
                thread.runtime_site = 0;
                calls::abandon_all(thread);
            }
            if thread.epoch != self.windows.epoch() {
                thread.epoch = self.windows.epoch();
                calls::abandon_sampled(thread, self.windows);
            }
            return Some(thread);
        }
        new_thread(self)
    }

    /// The thread's state, if it has one.
    #[inline(always)]
    pub(crate) fn known_thread(&self) -> Option<&'static mut ThreadState> {
        // SAFETY: as in `entry`.
        unsafe { self.thread.as_mut() }
    }
}

/// Counts a hit on a thread.
#[inline(always)]
fn meet(hits: &mut [u32; CLASSES], class: u8) {
    if let Some(hits) = hits.get_mut(usize::from(class)) {
        *hits = hits.wrapping_add(1);
    }
}

#[inline(always)]
fn new_thread(hit: &Hit) -> Option<&'static mut ThreadState> {
    let empty = NEW_THREAD.get(0)?;
    THREADS.insert(&hit.pid_tgid, empty, 0).ok()?;
    let thread = THREADS.get_ptr_mut(&hit.pid_tgid)?;
    // SAFETY: as in `Hit::thread`.
    let thread = unsafe { &mut *thread };
    let ids = Ids::current();
    thread.silences = hit.silences;
    thread.epoch = hit.windows.epoch();
    meet(&mut thread.entries, hit.site.class);
    thread.pid = if hit.scope == 0 { ids.pid } else { hit.scope };
    thread.tid = ids.tid;
    thread.flags = if ids.foreign { flags::FOREIGN_PID } else { 0 };
    Some(thread)
}

/// What the set of traced processes has for the current one: by the initial namespace's id or,
/// for one that user space named and that has not been met yet, by the agent's namespace's.
#[inline(always)]
pub(crate) fn traced(tgid: u32) -> Option<u32> {
    // SAFETY: the value is copied at once.
    if let Some(process) = unsafe { PROCESSES.get(&tgid) } {
        return Some(*process);
    }
    let ids = Ids::current();
    if ids.foreign {
        return None;
    }
    // SAFETY: the value is copied at once.
    let process = unsafe { TARGETS.get(&ids.pid) }.copied()?;
    let _ = PROCESSES.insert(&tgid, &process, 0);
    Some(process)
}

/// Whether the current process is traced.
#[inline(always)]
pub(crate) fn is_traced(tgid: u32) -> bool {
    traced(tgid).is_some()
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
