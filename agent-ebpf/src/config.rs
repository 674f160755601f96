//! What user space sets before it loads the programs.

use core::ptr;

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident, $reader:ident: $type:ty;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            static $name: $type = 0;

            $(#[$doc])*
            #[inline(always)]
            pub(crate) fn $reader() -> $type {
                // SAFETY: a read of a static. Volatile, because user space replaces the value
                // in the object file and the compiler must not assume the one written here.
                unsafe { ptr::read_volatile(&raw const $name) }
            }
        )*
    };
}

settings! {
    /// Device number of the agent's pid namespace file (`/proc/self/ns/pid`).
    NAMESPACE_DEV, namespace_dev: u64;
    /// Inode of the agent's pid namespace file.
    NAMESPACE_INO, namespace_ino: u64;
    /// 1: that is the initial namespace, whose ids the kernel gives without being asked for others.
    IN_INITIAL_NAMESPACE, in_initial_namespace: u8;
    /// The agent's own process id in that namespace.
    AGENT_PID, agent_pid: u32;
    /// 1: count only, put nothing in the ring.
    COUNT_ONLY, count_only: u8;
    /// 1: stop a process that has mapped a CUDA library until the agent continues it.
    HOLD, hold: u8;
    /// 1: tell of new programs of processes that are not traced.
    TELL_OF_STARTS, tell_of_starts: u8;
    /// Bytes in the ring from which on hot functions find it full.
    RING_HALF, ring_half: u64;
    /// Bytes in the ring from which on the reader is woken, and not only looks by itself: a power of two.
    RING_WAKE, ring_wake: u64;
    /// Offset of `task_struct.pid`.
    TASK_PID, task_pid: u64;
    /// Offset of `task_struct.tgid`.
    TASK_TGID, task_tgid: u64;
    /// Offset of `task_struct.signal`.
    TASK_SIGNAL, task_signal: u64;
    /// Offset of `signal_struct.live`.
    SIGNAL_LIVE, signal_live: u64;
    /// Offset of `task_struct.group_leader`.
    TASK_GROUP_LEADER, task_group_leader: u64;
    /// Offset of `task_struct.thread_pid`.
    TASK_THREAD_PID, task_thread_pid: u64;
    /// Offset of `pid.numbers`.
    PID_NUMBERS, pid_numbers: u64;
    /// Offset of `pid.level`.
    PID_LEVEL, pid_level: u64;
    /// Bytes of `struct upid`.
    UPID_SIZE, upid_size: u64;
    /// Offset of `upid.ns`.
    UPID_NS, upid_ns: u64;
    /// Offset of `pid_namespace.ns.inum`.
    NAMESPACE_INUM, namespace_inum: u64;
}
