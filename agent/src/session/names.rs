//! Asking what addresses mean: in a thread of its own while recording, since the answer may
//! take reading a 72 MB string table; at once where a line is to be printed.

use std::{
    fmt, io,
    sync::mpsc::{Receiver, Sender, channel},
    thread::JoinHandle,
};

use trace::fact;

use crate::{
    discover::{Mappings, Program},
    names::Resolver,
    priority::{self, Turn},
};

/// What a process maps, at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) pid: u32,
    pub(super) program: Program,
    pub(super) mappings: Mappings,
}

/// A question about an address of a process.
#[derive(Clone, Debug)]
pub(super) struct NameQuery {
    pub(super) pid: u32,
    /// When the event that raised it happened, ns.
    pub(super) timestamp: u64,
    /// The id that the answer defines.
    pub(super) id: u32,
    /// The address whose file, or symbol, is wanted; 0 for none.
    pub(super) address: u64,
    pub(super) subject: Subject,
}

/// What the address is.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// The host stub of a kernel: its symbol is the kernel's name, or what the program told the
    /// runtime at its start.
    HostStub {
        /// Where that name stands.
        registered: Option<u64>,
    },
    /// The place of a call.
    Caller,
    /// The place of a launch of a driver handle; without a name for one that was looked up before we
    /// came, or inside the driver.
    Handle { handle: u64, name: Option<String> },
}

/// What an address is.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) pid: u32,
    pub(super) timestamp: u64,
    pub(super) kind: AnswerKind,
}

#[derive(Debug)]
pub(super) enum AnswerKind {
    Caller(fact::Caller),
    /// By its host stub.
    Stub(fact::Kernel),
    /// By its driver handle.
    Handle(fact::Kernel),
}

impl Answer {
    /// The id that it defines.
    pub(super) fn id(&self) -> u32 {
        match &self.kind {
            AnswerKind::Caller(caller) => caller.id,
            AnswerKind::Stub(kernel) | AnswerKind::Handle(kernel) => kernel.id,
        }
    }
}

pub(super) enum Question {
    Name(NameQuery),
    Remember(Snapshot),
    Fork { parent: u32, child: u32 },
    Forget { pid: u32 },
}

/// Answers questions.
pub(super) enum Names {
    /// In time.
    Later {
        questions: Sender<Question>,
        answers: Receiver<Answer>,
        thread: JoinHandle<()>,
    },
    /// Before [`Names::ask`] returns.
    Now(Box<Resolver>),
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Later { .. } => "Names::Later",
            Self::Now(_) => "Names::Now",
        })
    }
}

impl Names {
    /// Answers come in time, from a thread.
    pub(super) fn later() -> io::Result<Self> {
        let (questions, inbox) = channel();
        let (outbox, answers) = channel();
        let thread = priority::spawn(Turn::Next, "names", move || {
            let mut resolver = Resolver::default();
            for question in inbox {
                match question {
                    Question::Name(query) => {
                        // The drain has gone only when nobody wants the answer any more.
                        let _ = outbox.send(answer(&mut resolver, query));
                    }
                    Question::Remember(Snapshot {
                        pid,
                        program,
                        mappings,
                    }) => {
                        resolver.remember(pid, program, mappings);
                    }
                    Question::Fork { parent, child } => resolver.fork(parent, child),
                    Question::Forget { pid } => resolver.forget(pid),
                }
            }
        })?;
        Ok(Self::Later {
            questions,
            answers,
            thread,
        })
    }

    /// Answers come at once.
    pub(super) fn now() -> Self {
        Self::Now(Box::default())
    }

    /// Whether [`Names::ask`] waits for the answer.
    pub(super) fn answers_at_once(&self) -> bool {
        matches!(self, Self::Now(_))
    }

    /// Asks; an answer that is there at once is handed on.
    pub(super) fn ask(&mut self, query: NameQuery, hear: &mut dyn FnMut(Answer)) {
        match self {
            Self::Later { questions, .. } => {
                let _ = questions.send(Question::Name(query));
            }
            Self::Now(resolver) => hear(answer(resolver, query)),
        }
    }

    /// Keeps what a process maps, which may be gone when it is asked about.
    pub(super) fn remember(&mut self, snapshot: Snapshot) {
        match self {
            Self::Later { questions, .. } => {
                let _ = questions.send(Question::Remember(snapshot));
            }
            Self::Now(resolver) => {
                let Snapshot {
                    pid,
                    program,
                    mappings,
                } = snapshot;
                resolver.remember(pid, program, mappings);
            }
        }
    }

    /// A forked child maps what its parent maps.
    pub(super) fn fork(&mut self, parent: u32, child: u32) {
        match self {
            Self::Later { questions, .. } => {
                let _ = questions.send(Question::Fork { parent, child });
            }
            Self::Now(resolver) => resolver.fork(parent, child),
        }
    }

    /// A process is gone, and nothing is asked about it any more.
    pub(super) fn forget(&mut self, pid: u32) {
        match self {
            Self::Later { questions, .. } => {
                let _ = questions.send(Question::Forget { pid });
            }
            Self::Now(resolver) => resolver.forget(pid),
        }
    }

    /// Hands on the answers that have come.
    pub(super) fn poll(&mut self, hear: &mut dyn FnMut(Answer)) {
        if let Self::Later { answers, .. } = self {
            while let Ok(answer) = answers.try_recv() {
                hear(answer);
            }
        }
    }

    /// Waits for all answers and hands them on.
    pub(super) fn finish(self, hear: &mut dyn FnMut(Answer)) {
        if let Self::Later {
            questions,
            answers,
            thread,
        } = self
        {
            drop(questions);
            for answer in answers {
                hear(answer);
            }
            if thread.join().is_err() {
                tracing::error!("the thread that names kernels panicked: some names are missing");
            }
        }
    }
}

fn answer(resolver: &mut Resolver, query: NameQuery) -> Answer {
    let NameQuery {
        pid,
        timestamp,
        id,
        address,
        subject,
    } = query;
    let mut module = |address| {
        if address == 0 {
            None
        } else {
            resolver.module_at(pid, address)
        }
    };
    let kind = match subject {
        Subject::Caller => AnswerKind::Caller(fact::Caller {
            id,
            module: module(address),
        }),
        Subject::Handle { handle, name } => AnswerKind::Handle(fact::Kernel {
            id,
            name,
            module: module(address),
            handle,
        }),
        Subject::HostStub { registered } => {
            let found = resolver.kernel(pid, address, registered);
            AnswerKind::Stub(fact::Kernel {
                id,
                name: found.name,
                module: found.module,
                handle: address,
            })
        }
    };
    Answer {
        pid,
        timestamp,
        kind,
    }
}
