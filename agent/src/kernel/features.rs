//! How probes can be attached here.

use std::fmt;

use aya::{
    programs::ProgramType,
    sys::{BpfHelper, UProbeMultiFeature, is_helper_supported, is_uprobe_multi_supported},
};
use clap::ValueEnum;

/// How probes are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AttachMode {
    /// Multi links, one set for each traced process: neighbours on the same file pay nothing.
    /// Needs Linux 6.10, or 6.6 with the back-port that makes a link's pid mean a process.
    Scoped,
    /// Multi links on all processes, and a set of process ids in the kernel: exact across
    /// fork, but every process that calls a probed function pays for the look. Needs Linux 6.6.
    Shared,
    /// One uprobe for each function: for Linux 5.15 to 6.5. Needs `CAP_SYS_ADMIN` and takes
    /// about 0.1 s a probe to detach.
    Single,
}

impl AttachMode {
    /// The name in recordings and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scoped => "scoped",
            Self::Shared => "shared",
            Self::Single => "single",
        }
    }
}

impl fmt::Display for AttachMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the kernel can do, found out by trying. Without the privileges to try, it seems to be
/// able to do nothing.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a feature of its own"
)]
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// `uprobe.multi` links.
    pub multi_links: bool,
    /// A multi link's pid means the whole process.
    pub process_filter: bool,
    /// `bpf_loop`, which the walk over loaded objects needs (5.17).
    pub bpf_loop: bool,
    /// `bpf_get_attach_cookie`, by which a program knows which function was called (5.15).
    pub attach_cookies: bool,
    /// `bpf_probe_read_kernel`, which following forks needs. The kernel refuses it where it is
    /// locked down for confidentiality.
    pub kernel_reads: bool,
}

impl Features {
    /// Asks the kernel.
    pub fn detect() -> Self {
        let multi = |feature| is_uprobe_multi_supported(feature).unwrap_or(false);
        let helper = |helper| is_helper_supported(ProgramType::KProbe, helper).unwrap_or(false);
        Self {
            multi_links: multi(UProbeMultiFeature::LinkCreation),
            process_filter: multi(UProbeMultiFeature::ProcessScopedPidFilter),
            bpf_loop: helper(BpfHelper::BPF_FUNC_loop),
            attach_cookies: helper(BpfHelper::BPF_FUNC_get_attach_cookie),
            kernel_reads: helper(BpfHelper::BPF_FUNC_probe_read_kernel),
        }
    }

    /// The best mode for processes that run already (`command` false), or for a command that
    /// we start and must not miss a call of.
    pub fn attach_mode(&self, command: bool) -> AttachMode {
        match (self.multi_links, self.process_filter && !command) {
            (false, _) => AttachMode::Single,
            (true, true) => AttachMode::Scoped,
            (true, false) => AttachMode::Shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_never_scoped() {
        let all = Features {
            multi_links: true,
            process_filter: true,
            bpf_loop: true,
            attach_cookies: true,
            kernel_reads: true,
        };
        assert_eq!(all.attach_mode(false), AttachMode::Scoped);
        assert_eq!(all.attach_mode(true), AttachMode::Shared);
        let old = Features {
            multi_links: false,
            process_filter: false,
            ..all
        };
        assert_eq!(old.attach_mode(false), AttachMode::Single);
        let without_filter = Features {
            process_filter: false,
            ..all
        };
        assert_eq!(without_filter.attach_mode(false), AttachMode::Shared);
    }
}
