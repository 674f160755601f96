//! Reading names in processes.
//!
//! The kernel reads a process's memory under its lock, which goes from one of its threads to the next in
//! turn, and a turn may be that of one that gets no processor: with 32 threads and four busy loops on two
//! processors, the drain slept in it for up to 82 ms and the ring filled (Linux 6.18). So the reading is
//! done in a thread of its own, and the drain waits for it a moment at most.

use std::{
    io,
    sync::mpsc::{Receiver, SyncSender, channel, sync_channel},
    time::{Duration, Instant},
};

#[cfg(test)]
use std::sync::mpsc::Sender;

use rustc_hash::FxHashMap;

use super::clock;
use crate::{
    discover::{LookBudget, Memory, Process},
    names::{NamePlaces, Sight, Source},
    priority::{self, Turn},
};

/// Most processes whose memory is held open.
const MAX_OPEN: usize = 256;
/// Most questions that wait.
const QUEUE: usize = 4096;
/// How long answers are waited for at the end.
const LAST: Duration = Duration::from_secs(1);

/// What is asked of the reader.
#[derive(Debug)]
pub(in crate::session) enum Question {
    /// A handle is called so: where is the name?
    Learn {
        pid: u32,
        handle: u64,
        name: String,
        source: Source,
    },
    /// What is this handle called?
    Look { pid: u32, handle: u64, id: u32 },
    /// The process has ended, or is another program now.
    Forget { pid: u32 },
}

/// What the reader has found out.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::session) enum Finding {
    /// About a process's names.
    Places {
        pid: u32,
        /// It is sure where names are, of some handles.
        sure: bool,
        /// That of more handles than before.
        surer: bool,
    },
    /// About a handle.
    Name(Reading),
}

/// What a handle was looked at for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) struct Reading {
    pub(in crate::session) pid: u32,
    pub(in crate::session) handle: u64,
    /// The kernel id that it was asked for.
    pub(in crate::session) id: u32,
    /// `None` where it has none, or cannot be read.
    pub(in crate::session) name: Option<String>,
    /// No later than this it was read, ns of `CLOCK_MONOTONIC`.
    pub(in crate::session) read_at: u64,
}

impl Reading {
    fn nothing(pid: u32, handle: u64, id: u32) -> Self {
        Self {
            pid,
            handle,
            id,
            name: None,
            read_at: clock::monotonic(),
        }
    }
}

/// Whoever wants names read.
#[derive(Debug)]
pub(in crate::session) struct Lookout {
    questions: SyncSender<Question>,
    findings: Receiver<Finding>,
    /// How long to wait for what a handle is called.
    patience: Duration,
    /// Handles asked about that there is no answer about.
    outstanding: usize,
    /// Processes that the reader has yet to be told to forget.
    forgotten: Vec<u32>,
}

impl Lookout {
    /// Starts the thread. What cannot be answered within `patience` is answered later.
    pub(in crate::session) fn start(patience: Duration) -> io::Result<Self> {
        let (questions, inbox) = sync_channel(QUEUE);
        let (outbox, findings) = channel();
        priority::spawn(Turn::Next, "lookout", move || {
            let mut reader = Reader::default();
            for question in inbox {
                // Whoever asked has gone only when nobody wants the answer any more.
                reader.answer(question, &mut |finding| drop(outbox.send(finding)));
            }
        })?;
        Ok(Self::new(questions, findings, patience))
    }

    fn new(
        questions: SyncSender<Question>,
        findings: Receiver<Finding>,
        patience: Duration,
    ) -> Self {
        Self {
            questions,
            findings,
            patience,
            outstanding: 0,
            forgotten: Vec::new(),
        }
    }

    /// One whose reader is whoever has the other ends.
    #[cfg(test)]
    pub(in crate::session) fn without_reader() -> (Self, Receiver<Question>, Sender<Finding>) {
        let (questions, asked) = sync_channel(2);
        let (answer, findings) = channel();
        (
            Self::new(questions, findings, Duration::ZERO),
            asked,
            answer,
        )
    }

    /// A handle is called so.
    pub(super) fn learn(&mut self, pid: u32, handle: u64, name: &str, source: Source) {
        let question = Question::Learn {
            pid,
            handle,
            name: name.to_owned(),
            source,
        };
        // One less to learn from, where the reader is far behind.
        let _ = self.questions.try_send(question);
    }

    /// What is the handle called? Without an answer among the findings, it comes later.
    pub(super) fn look(&mut self, pid: u32, handle: u64, id: u32) -> Vec<Finding> {
        let question = Question::Look { pid, handle, id };
        if self.questions.try_send(question).is_err() {
            return vec![Finding::Name(Reading::nothing(pid, handle, id))];
        }
        self.outstanding += 1;
        // A reader that hangs is waited for once, not once for each handle.
        if self.outstanding > 1 {
            return Vec::new();
        }
        self.wait(self.patience)
    }

    /// A process has ended, or is another program now.
    pub(super) fn forget(&mut self, pid: u32) {
        self.forgotten.push(pid);
        self.tell_of_forgotten();
    }

    /// What has come since.
    pub(super) fn hear(&mut self) -> Vec<Finding> {
        self.tell_of_forgotten();
        let mut findings = Vec::new();
        while let Ok(finding) = self.findings.try_recv() {
            self.take(finding, &mut findings);
        }
        findings
    }

    /// Waits a while for what is to come. A reader that hangs is left behind.
    pub(super) fn finish(&mut self) -> Vec<Finding> {
        self.wait(LAST)
    }

    /// Waits for all that is outstanding, at most so long.
    fn wait(&mut self, patience: Duration) -> Vec<Finding> {
        let until = Instant::now() + patience;
        let mut findings = Vec::new();
        while self.outstanding > 0 {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(finding) = self.findings.recv_timeout(left) else {
                break;
            };
            self.take(finding, &mut findings);
        }
        findings
    }

    fn take(&mut self, finding: Finding, findings: &mut Vec<Finding>) {
        self.outstanding -= usize::from(matches!(finding, Finding::Name(_)));
        findings.push(finding);
    }

    fn tell_of_forgotten(&mut self) {
        while let Some(pid) = self.forgotten.last().copied()
            && self.questions.try_send(Question::Forget { pid }).is_ok()
        {
            self.forgotten.pop();
        }
    }
}

/// Reads names.
#[derive(Debug, Default)]
struct Reader {
    processes: FxHashMap<u32, OfProcess>,
    budget: LookBudget,
}

/// Where a process's names are read.
#[derive(Debug)]
struct OfProcess {
    /// `None` where it cannot be read.
    memory: Option<Memory>,
    places: NamePlaces,
    /// What was told of [`NamePlaces::is_sure`].
    was_sure: bool,
}

impl Reader {
    fn answer(&mut self, question: Question, tell: &mut dyn FnMut(Finding)) {
        match question {
            Question::Learn {
                pid,
                handle,
                name,
                source,
            } => {
                self.open(pid);
                let Self { processes, budget } = self;
                let Some(process) = processes.get_mut(&pid) else {
                    return;
                };
                let surer = process.memory.as_mut().is_some_and(|memory| {
                    let places = &mut process.places;
                    places.learn((memory, budget), handle, &name, source)
                });
                process.tell_of_places(pid, surer, tell);
            }
            Question::Look { pid, handle, id } => {
                self.open(pid);
                let Self { processes, budget } = self;
                let Some(process) = processes.get_mut(&pid) else {
                    tell(Finding::Name(Reading::nothing(pid, handle, id)));
                    return;
                };
                let sight = process.memory.as_mut().map(|memory| {
                    let places = &mut process.places;
                    places.name((memory, budget), handle)
                });
                let Sight { name, surer } = sight.unwrap_or_default();
                process.tell_of_places(pid, surer, tell);
                tell(Finding::Name(Reading {
                    name,
                    ..Reading::nothing(pid, handle, id)
                }));
            }
            Question::Forget { pid } => {
                self.processes.remove(&pid);
            }
        }
    }

    /// Opens a process's memory, if that has not been tried and not too many are open.
    fn open(&mut self, pid: u32) {
        if self.processes.contains_key(&pid) {
            return;
        }
        let is_open = |process: &&OfProcess| process.memory.is_some();
        let open = self.processes.values().filter(is_open).count();
        let memory = (open < MAX_OPEN).then(|| Process::open(pid).and_then(Memory::open));
        let memory = memory.and_then(|opened| {
            opened
                .inspect_err(|error| {
                    tracing::debug!("kernels are named by calls alone: {error}");
                })
                .ok()
        });
        let process = OfProcess {
            memory,
            places: NamePlaces::default(),
            was_sure: false,
        };
        self.processes.insert(pid, process);
    }
}

impl OfProcess {
    fn tell_of_places(&mut self, pid: u32, surer: bool, tell: &mut dyn FnMut(Finding)) {
        let sure = self.places.is_sure();
        if surer || sure != self.was_sure {
            self.was_sure = sure;
            tell(Finding::Places { pid, sure, surer });
        }
    }
}
