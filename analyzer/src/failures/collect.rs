//! From rows to failures.

use std::collections::{BTreeMap, VecDeque};

use agent_common::{ApiId, Effect, Layer};
use rustc_hash::FxHashMap;

use super::refusals::{self, Watch};
use super::{Call, Failure, FunctionFailures, Refusals};
use crate::cuda_error;
use crate::report::{Kept, LeftOut, Row};

/// `cudaErrorNotReady`: an answer, not an error.
const NOT_READY: i32 = 600;

/// Calls that are kept of each process, for the time when one fails.
const RECENT: usize = 16;

/// Launches likewise.
const RECENT_LAUNCHES: usize = 8;

/// Most processes that are followed, ever: those that ended keep their place.
const PROCESSES: usize = 4096;

/// Most codes that are told apart in a process.
const CODES: usize = 32;

/// Looks for failing calls.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    processes: Vec<Process>,
    by_pid: FxHashMap<u32, usize>,
    /// The last one looked up: rows of one process come in runs.
    last: Option<(u32, usize)>,
    /// Calls of processes beyond [`PROCESSES`].
    unwatched: u64,
}

#[derive(Debug, Default)]
struct Process {
    pid: u32,
    recent: VecDeque<Past>,
    launches: VecDeque<Past>,
    failures: Vec<Seen>,
    refusals: Watch,
    results: u64,
    failed: u64,
    /// Failures with a code beyond [`CODES`].
    untold: u64,
}

/// A failure, and how many calls there had been up to it.
#[derive(Debug)]
struct Seen {
    code: i32,
    layer: Layer,
    first: Past,
    by_function: BTreeMap<&'static str, u64>,
    before: Vec<Past>,
    launches_before: Vec<Past>,
    results: u64,
    failed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Past {
    api: ApiId,
    tid: u32,
    at: u64,
    result: Option<i32>,
    size: Option<i64>,
    kernel: Option<u32>,
}

impl Collector {
    /// Takes in a call.
    #[inline]
    pub(crate) fn call(&mut self, id: ApiId, effect: Effect, row: &Row<'_>) {
        let Some(process) = self.process(row.pid()) else {
            self.unwatched += 1;
            return;
        };
        let past = Past {
            api: id,
            tid: row.tid(),
            at: row.timestamp(),
            result: row.result(),
            size: row.signed_size(),
            kernel: row.kernel(),
        };
        let at = (past.tid, past.at);
        process.refusals.call(effect, past.result, row.size(), at);
        let fails = past.result.filter(|code| *code != 0 && *code != NOT_READY);
        process.results += u64::from(past.result.is_some());
        process.failed += u64::from(fails.is_some());
        if let Some(code) = fails {
            process.fails(code, past);
        }
        if effect == Effect::ErrorText
            && let Some(code) = row.option().and_then(|code| i32::try_from(code).ok())
            && !matches!(code, 0 | NOT_READY)
        {
            process.is_told(code, past);
        }
        if effect == Effect::Launch {
            push(&mut process.launches, RECENT_LAUNCHES, past);
        }
        if effect != Effect::TorchReport {
            push(&mut process.recent, RECENT, past);
        }
    }

    /// A process ended: what has its id from now on is another one.
    pub(crate) fn ended(&mut self, pid: u32) {
        self.last = None;
        if let Some(index) = self.by_pid.remove(&pid) {
            let process = &mut self.processes[index];
            process.recent = VecDeque::new();
            process.launches = VecDeque::new();
        }
    }

    /// What was more than is kept.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = LeftOut> {
        let sum = |of: fn(&Process) -> u64| self.processes.iter().map(of).sum();
        let untold = sum(|process| process.untold);
        let forgotten = sum(|process| process.refusals.forgotten());
        let all = [
            LeftOut::of(Kept::FailingProcesses, PROCESSES, self.unwatched),
            LeftOut::of(Kept::ErrorCodes, CODES, untold),
            LeftOut::of(Kept::OpenRefusals, refusals::OPEN, forgotten),
        ];
        all.into_iter().flatten()
    }

    /// All failures, in order of the first one, with the names that kernels turned out to have.
    pub(crate) fn finish(
        self,
        kernel: impl Fn(u32) -> Option<String>,
    ) -> (Vec<Failure>, Vec<Refusals>) {
        let (mut failures, mut refusals) = (Vec::new(), Vec::new());
        for process in self.processes {
            let Process {
                pid,
                recent: _,
                launches: _,
                failures: seen,
                refusals: watch,
                results,
                failed,
                untold: _,
            } = process;
            refusals.extend(watch.finish(pid));
            failures.extend(
                seen.into_iter()
                    .map(|seen| seen.finish(pid, (results, failed), &kernel)),
            );
        }
        failures.sort_by_key(|failure| failure.first.at_ns);
        (failures, refusals)
    }

    #[inline]
    fn process(&mut self, pid: u32) -> Option<&mut Process> {
        let index = match self.last {
            Some((last, index)) if last == pid => index,
            _ => {
                let index = match self.by_pid.get(&pid) {
                    Some(index) => *index,
                    None if self.processes.len() < PROCESSES => {
                        self.processes.push(Process {
                            pid,
                            ..Process::default()
                        });
                        self.by_pid.insert(pid, self.processes.len() - 1);
                        self.processes.len() - 1
                    }
                    None => return None,
                };
                self.last = Some((pid, index));
                index
            }
        };
        self.processes.get_mut(index)
    }
}

impl Process {
    /// A call returned a code.
    fn fails(&mut self, code: i32, past: Past) {
        let Some(function) = past.api.api() else {
            return;
        };
        if let Some(seen) = self.seen(code, past) {
            *seen.by_function.entry(function.name).or_default() += 1;
        }
    }

    /// The program has got a code: if no call is known that returned it, that is the first sign.
    fn is_told(&mut self, code: i32, past: Past) {
        self.seen(code, past);
    }

    /// What is known of a code, from now on at least; `None` where there are too many.
    fn seen(&mut self, code: i32, past: Past) -> Option<&mut Seen> {
        let function = past.api.api()?;
        let known = self.failures.iter().position(|seen| seen.code == code);
        if known.is_none() && self.failures.len() < CODES {
            self.failures.push(Seen {
                code,
                layer: function.layer,
                first: past,
                by_function: BTreeMap::new(),
                before: self.recent.iter().copied().collect(),
                launches_before: self.launches.iter().copied().collect(),
                results: self.results,
                failed: self.failed,
            });
        } else if known.is_none() {
            self.untold += 1;
            return None;
        }
        match known {
            Some(index) => self.failures.get_mut(index),
            None => self.failures.last_mut(),
        }
    }
}

impl Seen {
    fn finish(
        self,
        pid: u32,
        (results, failed): (u64, u64),
        kernel: &impl Fn(u32) -> Option<String>,
    ) -> Failure {
        let functions = self.by_function.into_iter();
        let mut by_function: Vec<FunctionFailures> = functions
            .map(|(api, calls)| FunctionFailures { api, calls })
            .collect();
        by_function.sort_by_key(|function| std::cmp::Reverse(function.calls));
        let calls = |past: &[Past]| past.iter().map(|past| past.named(kernel)).collect();
        Failure {
            pid,
            code: self.code,
            name: cuda_error::name(self.layer, self.code),
            first: self.first.named(kernel),
            calls: by_function.iter().map(|function| function.calls).sum(),
            by_function,
            before: calls(&self.before),
            launches_before: calls(&self.launches_before),
            calls_after: results - self.results,
            failed_after: failed - self.failed,
        }
    }
}

impl Past {
    fn named(&self, kernel: &impl Fn(u32) -> Option<String>) -> Call {
        Call {
            api: self.api.api().map_or("unknown", |api| api.name),
            tid: self.tid,
            at_ns: self.at,
            result: self.result,
            size_bytes: self.size.and_then(|size| u64::try_from(size).ok()),
            kernel: self.kernel.and_then(kernel),
        }
    }
}

fn push(recent: &mut VecDeque<Past>, most: usize, past: Past) {
    if recent.len() == most {
        recent.pop_front();
    }
    recent.push_back(past);
}
