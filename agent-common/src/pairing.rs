//! The pairing map's value: what the kernel keeps of a thread between the entry of a
//! call and its return.

use crate::{value::MAX_VALUES, windows::CLASSES};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Deepest nesting of probed calls on one thread that is kept apart. The real libraries
/// nest two (runtime, driver); the rest is room for callbacks.
pub const MAX_DEPTH: u32 = 4;

/// A call that has been entered.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Pending {
    /// ns of `CLOCK_MONOTONIC` at entry.
    pub timestamp: u64,
    /// The stack pointer at entry: the return address lies there. A later probe hit at or
    /// above it proves that this call is over.
    pub stack_pointer: u64,
    /// The return address; 0 where not read.
    pub caller: u64,
    /// As in [`crate::LongCallRecord`], but for pointers to results, which stand in their
    /// place until the return.
    pub args: [u64; MAX_VALUES],
    /// The [`crate::ApiId`].
    pub api: u16,
    /// The enclosing call's [`crate::ApiId`] plus one; 0 for none.
    pub parent: u16,
    /// Bits of [`crate::flags`].
    pub flags: u32,
    /// The function's [`crate::Layer`], as a number.
    pub layer: u8,
    /// The function's [`crate::Effect`], as a number.
    pub effect: u8,
    /// 1 if `args` go beyond [`crate::SHORT_VALUES`].
    pub long: u8,
    /// 1 if the call is folded into an enclosing one and makes no event.
    pub folded: u8,
    /// 1 for a hot function.
    pub hot: u8,
    /// The function's [`crate::ProbeClass`], as a number.
    pub class: u8,
    /// Zero.
    pub reserved: [u8; 2],
}

/// A thread, keyed by what `bpf_get_current_pid_tgid` returns.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ThreadState {
    /// Process id in the agent's pid namespace.
    pub pid: u32,
    /// Thread id, likewise.
    pub tid: u32,
    /// [`crate::flags::FOREIGN_PID`] where those two are the initial namespace's.
    pub flags: u32,
    /// How many of `calls` are pending.
    pub depth: u32,
    /// Site index plus one of the runtime call, probed at entry only, that was entered last; 0 for
    /// none, and once a launch's driver launch has been seen.
    pub runtime_site: u32,
    /// How often probes had fallen silent or come back when the thread was last seen: what is
    /// pending from before can have returned unseen.
    pub silences: u32,
    /// How often it was met at the entry of calls, by [`crate::ProbeClass`]; wraps around.
    pub entries: [u32; CLASSES],
    /// Likewise at returns.
    pub returns: [u32; CLASSES],
    /// [`crate::Windows::epoch`] when the thread was last seen.
    pub epoch: u32,
    /// Zero.
    pub reserved: u32,
    /// That call's probe address.
    pub runtime_ip: u64,
    /// That call's stack pointer at entry.
    pub runtime_stack_pointer: u64,
    /// The host stub, if it is a launch.
    pub launch_function: u64,
    /// The calls, outermost first.
    pub calls: [Pending; MAX_DEPTH as usize],
}
