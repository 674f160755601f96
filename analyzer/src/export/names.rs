//! What the ids of a recording mean.

use rustc_hash::FxHashMap;
use trace::fact::{Clock, Process, Settings};
use trace::{EventBatch, Fact};

use super::clock::Anchors;
use crate::demangle;

/// Longest short name of a kernel, characters.
const SHORT: usize = 120;

/// The names of kernels, callers and processes, and the clocks.
///
/// A fact may come after the rows whose ids it explains, so a recording is best read twice: once
/// for its facts ([`Names::learn`] needs the column [`Names::COLUMNS`] alone), once for the export.
#[derive(Clone, Debug, Default)]
pub struct Names {
    kernels: FxHashMap<u32, Kernel>,
    /// By id, the file; `None` for code outside any file.
    callers: FxHashMap<u32, Option<String>>,
    /// By pid, the last one that has begun.
    processes: FxHashMap<u32, Process>,
    clocks: Anchors,
    settings: Option<Settings>,
}

/// A kernel's names.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// As the compiler made it.
    pub(super) name: String,
    /// As people read it.
    pub(super) short: String,
}

impl Names {
    /// The columns that [`Names::learn`] reads.
    pub const COLUMNS: &[&str] = &["text"];

    /// Takes in what the facts of a batch say of ids and clocks.
    pub fn learn(&mut self, batch: &EventBatch) {
        for (_, text) in batch.text().iter() {
            match Fact::parse(text) {
                Some(Fact::Kernel(kernel)) => {
                    if let Some(name) = kernel.name {
                        let known = self.kernels.get(&kernel.id);
                        if known.is_none_or(|known| known.name != name) {
                            let short = demangle::short(&name, SHORT);
                            self.kernels.insert(kernel.id, Kernel { name, short });
                        }
                    }
                }
                Some(Fact::Caller(caller)) => {
                    self.callers.insert(caller.id, caller.module);
                }
                Some(Fact::Clock(clock)) => self.clocks.add(clock),
                Some(Fact::Settings(settings)) => self.settings = Some(settings),
                Some(_) | None => {}
            }
        }
    }

    /// A process has begun; another one may have had its pid.
    pub(super) fn introduce(&mut self, process: &Process) {
        self.processes.insert(process.pid, process.clone());
    }

    pub(super) fn kernel(&self, id: u32) -> Option<&Kernel> {
        self.kernels.get(&id)
    }

    /// The file of a caller.
    pub(super) fn caller(&self, id: u32) -> Option<&str> {
        self.callers.get(&id)?.as_deref()
    }

    pub(super) fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    pub(super) const fn clocks(&self) -> &Anchors {
        &self.clocks
    }

    pub(super) fn first_clock(&self, moment: u64) -> Option<&Clock> {
        self.clocks.nearest(moment)
    }

    pub(super) const fn settings(&self) -> Option<&Settings> {
        self.settings.as_ref()
    }
}
