//! The rare facts: what a recording knows besides calls. Each is a row of kind `fact`
//! whose `text` column holds it as one JSON object, tagged by `fact`.

use serde::{Deserialize, Serialize};

/// A fact. New kinds may come; readers skip what they do not know ([`Fact::parse`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Fact {
    /// A process is traced from here on.
    Process(Process),
    /// A traced process forked a child, which is traced too.
    Fork {
        /// The child's process id.
        child: u32,
    },
    /// A traced process replaced its program.
    Exec,
    /// A traced process ended.
    Exit,
    /// A traced process was found to be gone, or is no longer traced: its end was not seen.
    Vanished,
    /// A library is traced.
    Module(Module),
    /// Which device an ordinal means.
    Device(Device),
    /// What a kernel id means.
    Kernel(Kernel),
    /// What a caller id means.
    Caller(Caller),
    /// The same moment on three clocks.
    Clock(Clock),
    /// Calls may have been missed in this stretch.
    Gap(Gap),
    /// The process was stopped while probes were attached to a library it was loading.
    Hold {
        /// How long, ns.
        duration: u64,
    },
    /// How the recorder was set.
    Settings(Settings),
    /// The final account of one function.
    Account(Account),
    /// Hits that the kernel did not run a program for.
    RecursionMisses {
        /// How many.
        count: u64,
    },
    /// A part of what was known when this part of the recording began.
    Checkpoint {
        /// As the memory ledger writes and reads it.
        part: serde_json::Value,
    },
    /// The recording is a segment of a rolling one; always its first row.
    Segment(Segment),
    /// Families of calls were traced in a stretch of time, and not in the time before it.
    Window(Window),
    /// From now on PyTorch's reports come in windows: its blocks are not known any more.
    TorchSampled,
    /// From now on the process's memory calls come in windows: what it holds is not known any more.
    MemorySampled,
    /// Rows that could not be written: they are in no segment.
    Unwritten(Unwritten),
    /// The recording, or this segment of it, ended as it should; always the last row.
    End,
}

impl Fact {
    /// Reads the `text` of a fact row; `None` for a fact of a later version.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The `text` of a fact row.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A traced process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Process id in the recorder's pid namespace.
    pub pid: u32,
    /// The process id that it has in its own, innermost namespace.
    pub namespace_pid: u32,
    /// Clock ticks after boot when it started: with `pid`, its identity.
    pub start_time: u64,
    /// Its parent.
    pub parent: u32,
    /// Its executable, as the process itself sees the path.
    pub exe: String,
    /// Its title: argument 0, or what `setproctitle` made of it (`VLLM::EngineCore`).
    pub title: String,
    /// Its command line, cut at 4,096 bytes.
    pub command: String,
    /// Whether it was traced from before its first CUDA call on.
    pub from_start: bool,
    /// `CUDA_VISIBLE_DEVICES` of its environment when it started: which devices its ordinals
    /// mean. `None` where it is not set, or could not be read.
    #[serde(default)]
    pub visible_devices: Option<String>,
    /// The id of its container, from its cgroup: 64 hex digits. `None` outside of containers.
    #[serde(default)]
    pub container: Option<String>,
    /// The uid of its Kubernetes pod, from its cgroup. `None` where the cgroup does not tell.
    #[serde(default)]
    pub pod_uid: Option<String>,
    /// Why its calls were probed at entry alone: they are counted, but results, durations and what
    /// they did to memory are not known. `None`: returns were probed, too.
    #[serde(default)]
    pub entry_only: Option<String>,
}

/// A library file with probes on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Module {
    /// Path, as the process that maps it sees it.
    pub path: String,
    /// Device number of the file.
    pub dev: u64,
    /// Inode of the file.
    pub inode: u64,
    /// Build id, hex, where the file has one.
    pub build_id: Option<String>,
    /// Names of the traced symbols.
    pub probes: Vec<String>,
    /// Symbols of the table that the file lacks, for the layer that it belongs to.
    pub missing: Vec<String>,
    /// Symbols that are there and yet not traced, each with the reason.
    pub refused: Vec<(String, String)>,
}

/// What a process calls a device by its ordinal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The process whose ordinal it is.
    pub pid: u32,
    /// The ordinal, as `cudaSetDevice` takes it.
    pub ordinal: i32,
    /// `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, as `nvidia-smi -L` has it; for a part of a
    /// device (MIG) that of the part. `None` where nothing told.
    pub uuid: Option<String>,
    /// As `nvidia-smi` has it; `None` where nothing told.
    pub pci_bus_id: Option<String>,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// The id in the `kernel` column.
    pub id: u32,
    /// The name as the compiler made it; `None` while unknown. Never an address.
    pub name: Option<String>,
    /// File that the kernel is in, where known.
    pub module: Option<String>,
    /// The host stub or driver handle it was seen by; in JSON a hexadecimal string.
    #[serde(with = "hexadecimal")]
    pub handle: u64,
}

/// Where calls come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Caller {
    /// The id in the `caller` column.
    pub id: u32,
    /// File of the calling code; `None` for code outside any file (JIT).
    pub module: Option<String>,
}

/// One moment on three clocks, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// `CLOCK_MONOTONIC`, the clock of the events.
    pub monotonic: u64,
    /// `CLOCK_BOOTTIME`: runs on in suspend.
    pub boottime: u64,
    /// `CLOCK_REALTIME`: since 1970, UTC.
    pub realtime: u64,
}

/// A stretch in which calls may have been missed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// The process concerned.
    pub pid: u32,
    /// Why.
    pub reason: String,
    /// Its length, ns, where it is known.
    pub duration: Option<u64>,
}

/// How the recorder was set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// cudasnoop's version.
    pub version: String,
    /// Kernel release.
    pub kernel: String,
    /// Host name.
    pub host: String,
    /// `scoped`, `shared` or `single`.
    pub attach: String,
    /// Families traced.
    pub events: Vec<String>,
    /// Ring buffer, bytes.
    pub ring_bytes: u64,
    /// Whether launches are probed at return too.
    pub launch_returns: bool,
    /// The share of a thread's time that probes may take. With it, launches, copies and waits are
    /// traced in windows: see [`Window`]. `None`: all is traced all the time.
    #[serde(default)]
    pub max_overhead: Option<f64>,
    /// Whether the recorder started the process (and so missed nothing).
    pub command: Option<Vec<String>>,
    /// The pod that the recorder runs in. `None` outside of Kubernetes, or where the manifest does
    /// not say.
    #[serde(default)]
    pub pod: Option<Pod>,
    /// The kernel's id of the boot whose clocks these are. `None` in recordings of the first
    /// versions.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// The recorder's pid namespace, which process ids are of: its number in `/proc/self/ns/pid`.
    /// `None` in recordings of the first versions.
    #[serde(default)]
    pub pid_namespace: Option<u64>,
}

/// A Kubernetes pod, as its manifest tells its containers (the downward API).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// `metadata.name`, from `POD_NAME`.
    pub name: Option<String>,
    /// `metadata.namespace`, from `POD_NAMESPACE`.
    pub namespace: Option<String>,
    /// `metadata.uid`, from `POD_UID`.
    pub uid: Option<String>,
    /// `spec.nodeName`, from `NODE_NAME`.
    pub node: Option<String>,
}

/// Where a segment stands in a rolling recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Its number, from 1; it goes on when the recorder is started again.
    pub number: u64,
    /// Events before it, in all segments, whether they are still there or not. What a segment
    /// begins with, a repetition, does not count.
    pub events_before: u64,
    /// The kernel's id of the boot whose clocks and process ids these are.
    pub boot_id: String,
    /// Facts that hold and are not repeated, since there are too many.
    pub forgotten_facts: u64,
}

/// A stretch in which families of calls were traced that otherwise are not, for the sake of an
/// overhead budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// When it opened, ns of `CLOCK_MONOTONIC`.
    pub since: u64,
    /// When it closed.
    pub until: u64,
    /// Families that were traced in it alone.
    pub families: Vec<String>,
    /// How many calls each call in it stands for: the time from the end of the window before to
    /// its own end, by its length.
    pub weight: f64,
}

/// Rows that could not be written, between the segment before and this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unwritten {
    /// How many.
    pub events: u64,
    /// `disk_full`, `disk_slow`, `disk_error` or `over_budget`.
    pub cause: String,
}

/// The account of one function over the whole recording:
/// `made = reported + lost_ring + lost_pairing + abandoned + in_flight`.
///
/// Over a segment of a rolling recording: `carried_in + made = reported + lost_ring +
/// lost_pairing + abandoned + in_flight + carried_out`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The function.
    pub api: String,
    /// Calls entered, counted in the kernel.
    pub made: u64,
    /// Driver calls folded into the runtime call that made them; not in `made`.
    pub folded: u64,
    /// Calls with a row of kind `call`.
    pub reported: u64,
    /// Calls whose record found the ring buffer full.
    pub lost_ring: u64,
    /// Calls that found no place in the pairing map.
    pub lost_pairing: u64,
    /// Calls with a row of kind `abandoned`.
    pub abandoned: u64,
    /// Calls with a row of kind `in_flight`.
    pub in_flight: u64,
    /// Rows of kind `begin`, and names, that found the ring buffer full.
    pub lost_extra: u64,
    /// Calls made before the segment that had no row yet: they had not returned, or their
    /// record was in the ring buffer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub carried_in: u64,
    /// Likewise, when the segment ended: their rows are in a later one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub carried_out: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Addresses in JSON: strings, since many readers round numbers beyond 53 bits.
mod hexadecimal {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{value:#x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
        let text = String::deserialize(source)?;
        let digits = text.strip_prefix("0x").unwrap_or(&text);
        u64::from_str_radix(digits, 16).map_err(D::Error::custom)
    }
}
