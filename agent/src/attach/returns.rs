//! Whether the returns of a process's calls can be probed without harm to it.

use std::sync::OnceLock;

use clap::ValueEnum;
use thiserror::Error;

use crate::{
    discover::Process,
    kernel::{Release, return_probes},
};

/// Which processes are probed at the entry of calls alone: calls are counted, PyTorch's reports
/// are whole, but what a call returns (addresses, results, durations) is not seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EntryOnly {
    /// Those that return probes might harm.
    #[default]
    Auto,
    /// All.
    Always,
    /// None, whatever that does to them.
    Never,
}

/// Why a process is probed at entries alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoReturns {
    /// It was asked for.
    #[error("--entry-only was given")]
    Asked,
    /// A return probe's way back is a system call that its filter may forbid.
    #[error(
        "it has a seccomp filter, which on this kernel may forbid return probes their way back and \
         so crash it"
    )]
    Filter,
    /// The probed functions may run on stacks that move.
    #[error("it is a Go program with CUDA in its own file, and Go moves stacks")]
    Go,
    /// Another process has one of these reasons, and the same links.
    #[error("it shares links with a process that return probes might harm")]
    Shared,
}

impl EntryOnly {
    /// Why `process` is to be probed at entries alone, if it is.
    pub fn reason(self, process: &Process) -> Option<NoReturns> {
        match self {
            Self::Always => Some(NoReturns::Asked),
            Self::Never => None,
            Self::Auto => danger(process, filters_are_met),
        }
    }
}

/// What return probes might do to `process`. Whether filters are met on this kernel is asked only
/// where it has one.
fn danger(process: &Process, filters_are_met: impl FnOnce() -> bool) -> Option<NoReturns> {
    if process.is_filtered() == Some(true) && filters_are_met() {
        Some(NoReturns::Filter)
    } else {
        process.is_go_with_cuda().then_some(NoReturns::Go)
    }
}

/// Tried once, by a child of our own: the kernel stays the same.
fn filters_are_met() -> bool {
    static MET: OnceLock<bool> = OnceLock::new();
    *MET.get_or_init(|| {
        let own = Process::open(std::process::id());
        let filtered = own.is_ok_and(|own| own.is_filtered() == Some(true));
        return_probes::meets_filters(filtered, &Release::running())
    })
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::CommandExt as _,
        process::{Child, Command},
    };

    use super::*;

    /// A child with a filter that forbids nothing it does.
    fn filtered_child() -> Child {
        let mut command = Command::new("sleep");
        command.arg("60");
        let filter = || {
            nix::sys::prctl::set_no_new_privs()?;
            return_probes::filter(9999)
        };
        // SAFETY: system calls alone; nothing is allocated.
        unsafe { command.pre_exec(filter) };
        command.spawn().expect("started")
    }

    #[test]
    fn a_filter_matters_where_the_kernel_asks_it() {
        let own = Process::open(std::process::id()).expect("we live");
        let not_asked = || panic!("only filtered processes raise the question");
        if own.is_filtered() == Some(false) {
            assert_eq!(danger(&own, not_asked), None);
        }
        let mut child = filtered_child();
        let process = Process::open(child.id()).expect("it lives");
        assert_eq!(process.is_filtered(), Some(true));
        assert_eq!(danger(&process, || true), Some(NoReturns::Filter));
        assert_eq!(danger(&process, || false), None);
        child.kill().expect("killed");
        child.wait().expect("collected");
    }

    #[test]
    fn a_choice_goes_before_what_is_found() {
        let own = Process::open(std::process::id()).expect("we live");
        assert_eq!(EntryOnly::Always.reason(&own), Some(NoReturns::Asked));
        assert_eq!(EntryOnly::Never.reason(&own), None);
    }
}
