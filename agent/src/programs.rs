//! The eBPF programs: loading them, and the maps they share with us.

mod call_program;
#[cfg(test)]
mod stack;
mod state;

use std::{io, os::unix::fs::MetadataExt as _, path::Path, process};

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, HashMap, MapData, MapError, PerCpuArray, RingBuf},
    programs::{ProgramError, RawTracePoint, UProbe},
};
use thiserror::Error;

pub use call_program::CallProgram;
pub use state::{PodSite, State};

use crate::{
    kernel::{
        AttachMode, Features,
        btf::{BtfError, TaskOffsets},
    },
    ring_fill::RingFill,
};

#[cfg(not(target_arch = "x86_64"))]
compile_error!(
    "cudasnoop traces on x86-64 alone: the probe table has the places of arguments in that ABI, and \
     uprobes have crashed arm64 hosts with GPUs; the analyzer builds anywhere"
);

/// The object that `agent-ebpf` compiles to.
static OBJECT: &[u8] = aya::include_bytes_aligned!(env!("CUDASNOOP_EBPF_OBJECT_PATH"));

/// Why the programs could not be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The kernel or the object refused.
    #[error("loading the eBPF programs: {}", chain(.0))]
    Object(#[from] aya::EbpfError),
    /// The kernel refused a program.
    #[error("loading the eBPF program {name}: {}", chain(.source))]
    Program {
        /// Which.
        name: String,
        /// Why.
        source: ProgramError,
    },
    /// A map is not as expected.
    #[error("opening the eBPF map {name}: {source}")]
    Map {
        /// Which.
        name: &'static str,
        /// Why.
        source: MapError,
    },
    /// The ring buffer could not be looked at.
    #[error("looking at the ring buffer: {0}")]
    Ring(#[source] io::Error),
    /// The object lacks something that this build of the agent needs.
    #[error(
        "the embedded eBPF object has no {0}: it is of another version; build again with \
         `cargo xtask build`"
    )]
    Absent(String),
    /// The agent's own pid namespace could not be read.
    #[error("reading the agent's pid namespace, /proc/self/ns/pid: {0}")]
    Namespace(#[source] io::Error),
    /// The kernel's structures are not known.
    #[error(transparent)]
    Btf(#[from] BtfError),
}

/// An error and what caused it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// How the programs are to work.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Single uprobes, or multi links.
    pub mode: AttachMode,
    /// What the kernel can do.
    pub features: Features,
    /// Bytes of the ring buffer: a power of two, at least a page.
    pub ring_bytes: u32,
    /// Entries of the pairing map: threads that may be inside traced processes at once.
    pub threads: u32,
    /// Count only: no records of calls.
    pub count_only: bool,
    /// Stop a traced process that loads a CUDA library until we continue it.
    pub hold: bool,
    /// Tell of new programs of processes that are not traced.
    pub tell_of_starts: bool,
}

/// Loaded programs.
#[derive(Debug)]
pub struct Programs {
    ebpf: Ebpf,
    mode: AttachMode,
    /// Whether forks, execs and exits are seen.
    pub follows_tasks: bool,
    /// Whether the dynamic linker can be watched.
    pub watches_linker: bool,
}

/// Inode of the initial pid namespace (`PROC_PID_INIT_INO` of `linux/proc_ns.h`).
const INITIAL_PID_NAMESPACE: u64 = 0xefff_fffc;

/// Most attach points: symbols times files.
pub const MAX_SITES: u32 = 1 << 14;

impl Programs {
    /// Loads them into the kernel.
    pub fn load(options: &Options) -> Result<Self, LoadError> {
        let Options {
            mode,
            features,
            ring_bytes,
            threads,
            count_only,
            hold,
            tell_of_starts,
        } = *options;
        let namespace = Path::new("/proc/self/ns/pid")
            .metadata()
            .map_err(LoadError::Namespace)?;
        let offsets = TaskOffsets::of_running_kernel();
        if let Err(error) = &offsets {
            tracing::warn!("{error}: children of traced processes are not followed");
        }
        let (namespace_dev, namespace_ino) = (namespace.dev(), namespace.ino());
        let pid = process::id();
        let (half, wake) = (u64::from(ring_bytes) / 2, u64::from(ring_bytes) / 8);
        let (count_only, hold) = (u8::from(count_only), u8::from(hold));
        let tell_of_starts = u8::from(tell_of_starts);
        let in_initial_namespace = u8::from(namespace_ino == INITIAL_PID_NAMESPACE);
        let mut loader = EbpfLoader::new();
        loader
            .map_max_entries("RING", ring_bytes)
            .map_max_entries("THREADS", threads)
            .map_max_entries("SITES", MAX_SITES)
            .override_global("NAMESPACE_DEV", &namespace_dev, true)
            .override_global("NAMESPACE_INO", &namespace_ino, true)
            .override_global("IN_INITIAL_NAMESPACE", &in_initial_namespace, true)
            .override_global("TELL_OF_STARTS", &tell_of_starts, true)
            .override_global("AGENT_PID", &pid, true)
            .override_global("COUNT_ONLY", &count_only, true)
            .override_global("HOLD", &hold, true)
            .override_global("RING_HALF", &half, true)
            .override_global("RING_WAKE", &wake, true);
        let known = offsets.as_ref().ok();
        if let Some(offsets) = known {
            loader
                .override_global("TASK_PID", &offsets.task_pid, true)
                .override_global("TASK_TGID", &offsets.task_tgid, true)
                .override_global("TASK_SIGNAL", &offsets.task_signal, true)
                .override_global("SIGNAL_LIVE", &offsets.signal_live, true)
                .override_global("TASK_GROUP_LEADER", &offsets.task_group_leader, true)
                .override_global("TASK_THREAD_PID", &offsets.task_thread_pid, true)
                .override_global("PID_NUMBERS", &offsets.pid_numbers, true)
                .override_global("PID_LEVEL", &offsets.pid_level, true)
                .override_global("UPID_SIZE", &offsets.upid_size, true)
                .override_global("UPID_NS", &offsets.upid_ns, true)
                .override_global("NAMESPACE_INUM", &offsets.namespace_inum, true);
        }
        let ebpf = loader.load(OBJECT)?;
        drop(loader);
        let mut programs = Self {
            ebpf,
            mode,
            follows_tasks: offsets.is_ok(),
            watches_linker: features.bpf_loop,
        };
        let entries = CallProgram::ALL.map(CallProgram::entry);
        let start = (mode == AttachMode::Scoped).then_some(START_PROGRAM);
        for name in entries.into_iter().chain(RETURN_PROGRAMS).chain(start) {
            programs
                .uprobe(name)?
                .load()
                .map_err(|source| program_error(name, source))?;
        }
        if programs.watches_linker {
            programs
                .uprobe(LINKER_PROGRAM)?
                .load()
                .map_err(|e| program_error(LINKER_PROGRAM, e))?;
        }
        programs.attach_tracepoints()?;
        Ok(programs)
    }

    fn attach_tracepoints(&mut self) -> Result<(), LoadError> {
        let tracepoints = [
            ("process_fork", "sched_process_fork"),
            ("process_exec", "sched_process_exec"),
            ("process_exit", "sched_process_exit"),
        ];
        for (name, tracepoint) in tracepoints {
            let program: &mut RawTracePoint = self
                .ebpf
                .program_mut(name)
                .ok_or_else(|| LoadError::Absent(format!("program {name}")))?
                .try_into()
                .map_err(|source| program_error(name, source))?;
            program
                .load()
                .map_err(|source| program_error(name, source))?;
            program
                .attach(tracepoint)
                .map_err(|source| program_error(name, source))?;
        }
        Ok(())
    }

    /// The form of a uprobe program that this mode attaches.
    pub fn uprobe(&mut self, name: &str) -> Result<&mut UProbe, LoadError> {
        let name = match self.mode {
            AttachMode::Scoped | AttachMode::Shared => format!("{name}_multi"),
            AttachMode::Single => format!("{name}_single"),
        };
        let program = self
            .ebpf
            .program_mut(&name)
            .ok_or_else(|| LoadError::Absent(format!("program {name}")))?;
        program
            .try_into()
            .map_err(|source| LoadError::Program { name, source })
    }

    /// The programs' debug lines, where they were compiled in.
    pub fn ebpf(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }

    /// The records, and how many there are; once.
    pub fn take_ring(&mut self) -> Result<(RingBuf<MapData>, RingFill), LoadError> {
        let map = self.take("RING")?;
        let refused = |source| LoadError::Map {
            name: "RING",
            source,
        };
        let fill = match &map {
            aya::maps::Map::RingBuf(data) => RingFill::of(data).map_err(LoadError::Ring)?,
            _ => return Err(LoadError::Absent("ring buffer RING".to_owned())),
        };
        Ok((RingBuf::try_from(map).map_err(refused)?, fill))
    }

    /// The attach points; once.
    pub fn take_sites(&mut self) -> Result<Array<MapData, PodSite>, LoadError> {
        let map = self.take("SITES")?;
        Array::try_from(map).map_err(|source| LoadError::Map {
            name: "SITES",
            source,
        })
    }

    /// The processes that user space names; once.
    pub fn take_targets(&mut self) -> Result<HashMap<MapData, u32, u32>, LoadError> {
        let map = self.take("TARGETS")?;
        HashMap::try_from(map).map_err(|source| LoadError::Map {
            name: "TARGETS",
            source,
        })
    }

    /// When processes called `cuInit`; once.
    pub fn take_started(&mut self) -> Result<HashMap<MapData, u32, u64>, LoadError> {
        let map = self.take("STARTED")?;
        HashMap::try_from(map).map_err(|source| LoadError::Map {
            name: "STARTED",
            source,
        })
    }

    /// How often all probes fell silent or came back, odd while they are silent; once.
    pub fn take_silences(&mut self) -> Result<Array<MapData, u32>, LoadError> {
        let map = self.take("SILENCES")?;
        Array::try_from(map).map_err(|source| LoadError::Map {
            name: "SILENCES",
            source,
        })
    }

    /// Which classes of probes are looked at; once.
    pub fn take_windows(&mut self) -> Result<Array<MapData, u32>, LoadError> {
        let map = self.take("WINDOWS")?;
        Array::try_from(map).map_err(|source| LoadError::Map {
            name: "WINDOWS",
            source,
        })
    }

    /// Whether the next child is to be traced; once.
    pub fn take_armed(&mut self) -> Result<Array<MapData, u32>, LoadError> {
        let map = self.take("ARMED")?;
        Array::try_from(map).map_err(|source| LoadError::Map {
            name: "ARMED",
            source,
        })
    }

    /// The counters, the pairing map, who captures, and how full `ring` is; once.
    pub fn take_state(&mut self, ring: RingFill) -> Result<State, LoadError> {
        let counters =
            PerCpuArray::try_from(self.take("COUNTERS")?).map_err(|source| LoadError::Map {
                name: "COUNTERS",
                source,
            })?;
        let threads =
            HashMap::try_from(self.take("THREADS")?).map_err(|source| LoadError::Map {
                name: "THREADS",
                source,
            })?;
        let open_captures =
            HashMap::try_from(self.take("OPEN_CAPTURES")?).map_err(|source| LoadError::Map {
                name: "OPEN_CAPTURES",
                source,
            })?;
        let programs = self
            .ebpf
            .programs()
            .filter_map(|(_, program)| program.fd().ok()?.try_clone().ok())
            .collect();
        Ok(State {
            counters,
            threads,
            open_captures,
            ring,
            programs,
        })
    }

    fn take(&mut self, name: &'static str) -> Result<aya::maps::Map, LoadError> {
        self.ebpf
            .take_map(name)
            .ok_or_else(|| LoadError::Absent(format!("map {name}")))
    }
}

fn program_error(name: &str, source: ProgramError) -> LoadError {
    LoadError::Program {
        name: name.to_owned(),
        source,
    }
}

const RETURN_PROGRAMS: [&str; 2] = ["call_return", "lookup_return"];

/// Base name of the program on the dynamic linker.
pub const LINKER_PROGRAM: &str = "mapped_entry";

/// Base name of the program on `cuInit`.
pub const START_PROGRAM: &str = "start_entry";
