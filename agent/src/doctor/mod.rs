//! What keeps CUDA calls from being traced here, and the line that helps.
//!
//! Each check asks the kernel by trying: a map is created, a program loaded, a file opened. What
//! stands in the way of a session, the session says in the same words ([`Locks`]).

mod capabilities;
mod check;
mod confinement;
mod facts;
mod host;
mod locks;
mod neighbours;
mod process;
#[cfg(test)]
mod tests;
mod trial;

pub use check::{Check, CheckId, Fix, State};
pub use host::Host;
pub use locks::{Locked, Locks};
pub use process::{Coverage, Examined};

use crate::discover::{Process, ProcessError};

/// What was found.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// What concerns the machine and our rights on it.
    pub host: Host,
    /// The process that was asked about; else all that are visible and map a library that is
    /// named like CUDA's, by process id.
    pub processes: Vec<Examined>,
    /// Whether one process was asked about.
    pub is_about_one: bool,
}

impl Diagnosis {
    /// Looks at the machine and at process `pid`, or at what is there.
    pub fn make(pid: Option<u32>) -> Result<Self, ProcessError> {
        let asked = pid.map(Process::open).transpose()?;
        let mut host = Host::examine();
        let is_about_one = asked.is_some();
        let processes = match asked {
            Some(process) => vec![process],
            None => process::with_cuda(),
        };
        let processes: Vec<Examined> = processes
            .iter()
            .map(|process| Examined::look_at(process, &host.locks))
            .collect();
        if !is_about_one {
            host.checks.push(process::presence(processes.len()));
        }
        Ok(Self {
            host,
            processes,
            is_about_one,
        })
    }

    /// The checks that decide whether tracing works: those of the machine, and those of the
    /// process that was asked about.
    pub fn deciding(&self) -> impl Iterator<Item = &Check> {
        let of_process = self.processes.iter().filter(|_| self.is_about_one);
        self.host
            .checks
            .iter()
            .chain(of_process.flat_map(|process| &process.checks))
    }

    /// How many of them came out as `state`.
    pub fn count(&self, state: State) -> usize {
        self.deciding().filter(|check| check.state == state).count()
    }

    /// Whether nothing that is needed is missing.
    pub fn works(&self) -> bool {
        self.count(State::Missing) == 0
    }
}
