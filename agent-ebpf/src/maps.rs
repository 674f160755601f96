//! The maps, by the names that user space finds them under.

use agent_common::{Counters, MAX_APIS, Site, ThreadState};
use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap, LruHashMap, PerCpuArray, RingBuf},
};

/// The records. User space sets the size.
#[map]
pub(crate) static RING: RingBuf = RingBuf::with_byte_size(1 << 24, 0);

/// The attach points, by the index in the cookie. User space sets the size.
#[map]
pub(crate) static SITES: Array<Site> = Array::with_max_entries(1 << 14, 0);

/// Each function's counters, by API id.
#[map]
pub(crate) static COUNTERS: PerCpuArray<Counters> = PerCpuArray::with_max_entries(MAX_APIS, 0);

/// The pairing map: threads inside a traced process. User space sets the size.
#[map]
pub(crate) static THREADS: HashMap<u64, ThreadState> = HashMap::with_max_entries(8192, 0);

/// One all-zero thread, the source for new entries: it is too large for the stack.
#[map]
pub(crate) static NEW_THREAD: Array<ThreadState> = Array::with_max_entries(1, 0);

/// How often all probes fell silent or came back; odd while they are silent.
#[map]
pub(crate) static SILENCES: Array<u32> = Array::with_max_entries(1, 0);

/// Which classes of probes are looked at: [`agent_common::Windows`].
#[map]
pub(crate) static WINDOWS: Array<u32> = Array::with_max_entries(1, 0);

/// Traced processes by thread group id of the initial pid namespace; the value is the process
/// id in the agent's namespace, 0 while unknown, and perhaps [`agent_common::OWN_LINKS`].
#[map]
pub(crate) static PROCESSES: HashMap<u32, u32> = HashMap::with_max_entries(1 << 16, 0);

/// Traced processes by process id in the agent's namespace: what user space knows of them. The
/// value is as in [`PROCESSES`].
#[map]
pub(crate) static TARGETS: HashMap<u32, u32> = HashMap::with_max_entries(1 << 16, 0);

/// 1 at index 0: the agent's next child is to be traced.
#[map]
pub(crate) static ARMED: Array<u32> = Array::with_max_entries(1, 0);

/// Host stub by process, and the driver handle that it was last passed on as.
#[map]
pub(crate) static KERNEL_PAIRS: LruHashMap<KernelKey, u64> =
    LruHashMap::with_max_entries(1 << 14, 0);

/// A host stub of one process.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelKey {
    /// Thread group id of the initial pid namespace.
    pub(crate) tgid: u64,
    /// Address of the host stub.
    pub(crate) function: u64,
}

/// Processes that have captures of streams open, and how many: by thread group id.
#[map]
pub(crate) static OPEN_CAPTURES: HashMap<u32, u32> = HashMap::with_max_entries(1 << 12, 0);

/// When processes called `cuInit` that are traced, or may be, by process id in the agent's
/// namespace.
#[map]
pub(crate) static STARTED: HashMap<u32, u64> = HashMap::with_max_entries(1 << 16, 0);

/// The last object of a process's link map that was looked at, by thread group id.
#[map]
pub(crate) static LINK_MAPS: LruHashMap<u32, u64> = LruHashMap::with_max_entries(1 << 12, 0);

/// Where path names are read to for their length; nobody reads it.
#[map]
pub(crate) static PATH_SCRATCH: Array<[u8; 4096]> = Array::with_max_entries(1, 0);
