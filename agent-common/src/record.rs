//! The records in the ring buffer.
//!
//! Every record begins with a [`Header`]; its kind says what follows. All are plain
//! bytes without padding (`zerocopy` proves it when this crate compiles), and user
//! space reads them as hostile input.

use crate::value::{MAX_VALUES, SHORT_VALUES};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What a record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// A finished call, or one probed at entry only: [`CallRecord`].
    Call = 1,
    /// A free has begun: [`CallRecord`] without result and duration.
    Begin = 2,
    /// The thread died, or jumped out, inside the call: [`CallRecord`]; duration until then.
    Abandoned = 3,
    /// A kernel handle's name: [`NameRecord`].
    KernelName = 4,
    /// A runtime launch passed this host stub to the driver as this handle: [`CallRecord`]
    /// with `args = [host stub, driver handle, ..]`. Once per pair.
    KernelPair = 5,
    /// A traced process forked: [`TaskRecord`] of the child.
    Fork = 6,
    /// A traced process replaced its program: [`TaskRecord`].
    Exec = 7,
    /// A traced process ended: [`TaskRecord`].
    Exit = 8,
    /// The dynamic linker finished mapping objects: [`TaskRecord`].
    Mapped = 9,
    /// As `Mapped`, and the process stands stopped until the agent continues it.
    Held = 10,
    /// The program made a kernel known to the runtime: [`CallRecord`] with `args = [host stub,
    /// address of the kernel's name, ..]`. No call in the accounts, for a large program makes
    /// tens of thousands of them before it begins.
    Registered = 11,
    /// A process that is not traced runs a new program: [`TaskRecord`]. Told where user space
    /// chooses among all processes that it can see.
    Started = 12,
    /// A traced process calls `cuInit` for the first time: [`TaskRecord`].
    CudaStarted = 13,
}

impl RecordKind {
    /// The kind with this number.
    pub const fn from_u8(kind: u8) -> Option<Self> {
        Some(match kind {
            1 => Self::Call,
            2 => Self::Begin,
            3 => Self::Abandoned,
            4 => Self::KernelName,
            5 => Self::KernelPair,
            6 => Self::Fork,
            7 => Self::Exec,
            8 => Self::Exit,
            9 => Self::Mapped,
            10 => Self::Held,
            11 => Self::Registered,
            12 => Self::Started,
            13 => Self::CudaStarted,
            _ => return None,
        })
    }
}

/// What could not be read or is not as usual. Kept in the recording as they are: the
/// bits are part of the trace format.
pub mod flags {
    /// The symbol was the per-thread-default-stream twin (`_ptsz`, `_ptds`).
    pub const PER_THREAD_STREAM: u32 = 1 << 0;
    /// A nested driver call of the same effect was folded into this runtime call.
    pub const DRIVER_SEEN: u32 = 1 << 1;
    /// The caller's return address could not be read.
    pub const CALLER_UNREAD: u32 = 1 << 2;
    /// An argument on the stack or behind a pointer could not be read: those fields are null.
    pub const ARGS_UNREAD: u32 = 1 << 3;
    /// A result behind a pointer (`*out`) could not be read: that field is null.
    pub const OUT_UNREAD: u32 = 1 << 4;
    /// The record of this free's entry was lost, so this is the first one hears of it.
    pub const BEGIN_LOST: u32 = 1 << 5;
    /// Process and thread id are those of the initial pid namespace, not of the agent's.
    pub const FOREIGN_PID: u32 = 1 << 6;
    /// The name was longer than the record holds.
    pub const NAME_CUT: u32 = 1 << 7;
    /// The call's return was seen: its result and duration are known.
    pub const RETURNED: u32 = 1 << 8;
    /// The stream was being captured: the call put work into a graph, and ran nothing.
    pub const CAPTURED: u32 = 1 << 9;
    /// The stream may have been captured: records that would tell were lost.
    pub const CAPTURE_UNCLEAR: u32 = 1 << 10;
}

/// A bit beside [`flags`] that is in the kernel's records only: the values are those of
/// [`crate::Api::values_before_13`].
pub const BEFORE_13: u32 = 0x8000_0000;

/// How each record begins.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Header {
    /// When the call was entered, ns of `CLOCK_MONOTONIC`.
    pub timestamp: u64,
    /// Process id in the agent's pid namespace (see [`flags::FOREIGN_PID`]).
    pub pid: u32,
    /// Thread id, likewise.
    pub tid: u32,
    /// A [`RecordKind`].
    pub kind: u8,
    /// Zero.
    pub reserved: u8,
    /// The function's [`crate::ApiId`]; 0 and meaningless in task records.
    pub api: u16,
    /// Bits of [`flags`].
    pub flags: u32,
}

/// Bytes of [`Header`].
pub const HEADER_LEN: usize = size_of::<Header>();

/// One call.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct CallRecord {
    /// Kind, time, thread and function.
    pub header: Header,
    /// ns between entry and return; meaningless without [`flags::RETURNED`], but in an
    /// abandoned call its age.
    pub duration: u64,
    /// The return address at entry: who called. 0 where not read.
    pub caller: u64,
    /// `cudaError_t` or `CUresult`; meaningless without [`flags::RETURNED`].
    pub result: i32,
    /// The [`crate::ApiId`] of the call that this one happened in, plus one; 0 for none.
    pub parent: u16,
    /// Zero.
    pub reserved: u16,
    /// The call's first values, in the order of [`crate::Api::values`]; with a shape of its own
    /// ([`crate::Shape`]):
    ///
    /// | shape | 0 | 1 | 2 | 3 | 4 | 5 |
    /// |---|---|---|---|---|---|---|
    /// | launch | function | grid x, y | grid z, block x | block y, z | shared | stream |
    /// | kernel lookup | handle | library or module | | | | |
    /// | torch report | block | size (signed) | allocated | reserved | device | |
    ///
    /// Pairs of 32-bit values: the first in the low half ([`crate::launch`]).
    pub args: [u64; SHORT_VALUES],
}

/// A call with more values.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct LongCallRecord {
    /// As every call.
    pub call: CallRecord,
    /// The values after those in [`CallRecord::args`].
    pub more: [u64; MAX_VALUES - SHORT_VALUES],
}

impl LongCallRecord {
    /// Of the bytes of a call record, long or short; `None` for too few bytes.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if let Ok((record, _)) = Self::read_from_prefix(bytes) {
            return Some(record);
        }
        let (call, _) = CallRecord::read_from_prefix(bytes).ok()?;
        Some(Self {
            call,
            more: [0; MAX_VALUES - SHORT_VALUES],
        })
    }

    /// All values.
    pub fn values(&self) -> [u64; MAX_VALUES] {
        let mut values = [0; MAX_VALUES];
        let (first, rest) = values.split_at_mut(SHORT_VALUES);
        first.copy_from_slice(&self.call.args);
        rest.copy_from_slice(&self.more);
        values
    }
}

/// Longest kernel name that is kept whole, bytes. The longest of torch 2.14 has 2,301.
pub const KERNEL_NAME_CAPACITY: usize = 2560;

/// A kernel handle and the name it was looked up by.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct NameRecord {
    /// Kind, time, thread and function.
    pub header: Header,
    /// `CUfunction` or `CUkernel`.
    pub handle: u64,
    /// What it was looked up in: the module or library of a lookup by name, the `CUkernel` of
    /// `cuKernelGetFunction`; 0 where its name alone was asked for.
    pub origin: u64,
    /// Bytes of the name that were read, without the terminating NUL; 0 where there is no name.
    pub length: u64,
    /// The name, `length` bytes of it.
    pub name: [u8; KERNEL_NAME_CAPACITY],
}

/// A change in a traced process's life.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct TaskRecord {
    /// Kind, time and thread; for a fork, those of the parent.
    pub header: Header,
    /// For a fork, the child's process id in the agent's pid namespace; else 0.
    pub child: u64,
}
