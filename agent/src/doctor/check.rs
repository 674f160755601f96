//! One thing that was checked.

use nix::errno::Errno;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    Ok,
    /// Tracing works, but less well, or with a risk.
    Warning,
    /// Something that is needed is not there.
    Missing,
}

impl State {
    /// The word in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Missing => "missing",
        }
    }
}

/// The lines that put something right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fix {
    /// A line of a Kubernetes manifest.
    pub yaml: Option<String>,
    /// A shell command.
    pub shell: Option<String>,
}

/// Something that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What.
    pub id: CheckId,
    /// How it came out.
    pub state: State,
    /// In words.
    pub finding: String,
    /// What the kernel answered, where it refused.
    pub errno: Option<Errno>,
    /// What to do about it.
    pub fix: Fix,
}

impl Check {
    pub(super) fn new(id: CheckId, state: State, finding: impl Into<String>) -> Self {
        Self {
            id,
            state,
            finding: finding.into(),
            errno: None,
            fix: Fix::default(),
        }
    }

    pub(super) fn ok(id: CheckId, finding: impl Into<String>) -> Self {
        Self::new(id, State::Ok, finding)
    }

    pub(super) fn warning(id: CheckId, finding: impl Into<String>) -> Self {
        Self::new(id, State::Warning, finding)
    }

    pub(super) fn missing(id: CheckId, finding: impl Into<String>) -> Self {
        Self::new(id, State::Missing, finding)
    }

    pub(super) fn errno(mut self, errno: impl Into<Option<Errno>>) -> Self {
        self.errno = errno.into();
        self
    }

    pub(super) fn yaml(mut self, line: impl Into<String>) -> Self {
        self.fix.yaml = Some(line.into());
        self
    }

    pub(super) fn shell(mut self, command: impl Into<String>) -> Self {
        self.fix.shell = Some(command.into());
        self
    }
}

/// Declares the checks with their names, so that none is left out of [`CheckId::ALL`].
macro_rules! checks {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// What is checked. Names are stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CheckId {
            $($(#[$doc])* $variant,)+
        }

        impl CheckId {
            /// All.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name in JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

checks! {
    /// The kernel has what is needed.
    Kernel = "kernel",
    /// `CAP_BPF`.
    CapBpf = "cap_bpf",
    /// `CAP_PERFMON`.
    CapPerfmon = "cap_perfmon",
    /// `CAP_SYS_PTRACE`.
    CapSysPtrace = "cap_sys_ptrace",
    /// `CAP_SYS_ADMIN`, where single uprobes are all that the kernel has.
    CapSysAdmin = "cap_sys_admin",
    /// `CAP_CHECKPOINT_RESTORE`.
    CapCheckpointRestore = "cap_checkpoint_restore",
    /// `CAP_SYS_NICE`.
    CapSysNice = "cap_sys_nice",
    /// The user namespace that capabilities count in.
    UserNamespace = "user_namespace",
    /// A system call filter on us.
    Seccomp = "seccomp",
    /// `AppArmor`, `SELinux`.
    SecurityModule = "security_module",
    /// Memory that may be locked.
    Memlock = "memlock",
    /// Maps and programs can be made.
    Bpf = "bpf",
    /// Lockdown of the kernel.
    Lockdown = "lockdown",
    /// `kernel.perf_event_paranoid`.
    PerfEvent = "perf_event",
    /// How probes are attached.
    AttachMode = "attach_mode",
    /// Libraries that a process loads later.
    LateLibraries = "late_libraries",
    /// The kernel's type information.
    Btf = "btf",
    /// Which processes are visible.
    PidNamespace = "pid_namespace",
    /// Whether one of them maps a CUDA library.
    Processes = "processes",
    /// `/proc/PID/maps`.
    ProcessMaps = "process_maps",
    /// `/proc/PID/root`.
    ProcessRoot = "process_root",
    /// `/proc/PID/map_files`.
    ProcessMapFiles = "process_map_files",
    /// The libraries that are traced.
    Libraries = "libraries",
    /// The NVIDIA driver.
    Driver = "driver",
    /// Whether it is new enough for the CUDA runtime.
    CudaCompatibility = "cuda_compatibility",
    /// The leader thread.
    LeaderThread = "leader_thread",
    /// Probes at return.
    ReturnProbes = "return_probes",
}
