//! Control: the thread that attaches probes, to the libraries of each process and in time.

mod attach;
mod budget;
mod choose;
mod entries;
mod hold;
mod idle;
mod known;
mod life;
mod look;
mod switch;
mod watch;
mod windows;

use std::{
    collections::{HashMap, HashSet},
    num::NonZeroU32,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use agent_common::{Family, Layer, OWN_LINKS};
use aya::maps::{HashMap as BpfHashMap, MapData};
pub(super) use budget::{Budget, Cut};
use hold::Held;
pub(super) use hold::release;
use thiserror::Error;
use trace::{Fact, fact};

use super::{
    Options, ProbeStatus, SessionError, Target, clock, drain::Inbox, enrich::fact_event, stop::Stop,
};
use crate::{
    attach::{AttachError, Detacher, EntryOnly, Links, NoReturns, Placed, Scope, Sites},
    discover::{FileIdentity, Found, Libraries, Linker, Process, ProcessError, Seen, Selection},
    kernel::AttachMode,
    programs::{LoadError, Programs},
};

/// What control is asked to do.
#[derive(Debug)]
pub(super) enum Control {
    /// Trace a running process; says whether it has a CUDA library yet.
    Add {
        pid: u32,
        reply: Sender<Result<bool, AttachFailure>>,
    },
    /// Trace those running processes that are chosen, and those that come.
    Choose { reply: Sender<()> },
    /// All probes silent and off, or on again.
    Switch { off: bool },
    /// A command will be started from this executable: watch its dynamic linker.
    Prepare {
        executable: PathBuf,
        reply: Sender<()>,
    },
    /// Something happened to a traced process.
    Task(Task),
    /// All probes off, and end.
    Detach,
}

/// What happened to a traced process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    /// It has a child.
    Fork {
        parent: u32,
        child: u32,
        timestamp: u64,
    },
    /// It runs another program.
    Exec { pid: u32, timestamp: u64 },
    /// It was not traced, and runs a new program.
    Started { pid: u32, timestamp: u64 },
    /// It calls `cuInit`, for the first time.
    CudaStarted { pid: u32, timestamp: u64 },
    /// It has begun to capture a stream.
    CaptureBegan,
    /// It is gone.
    Exit { pid: u32 },
    /// It has mapped objects; one of them is named as CUDA's are, or not.
    Mapped {
        pid: u32,
        timestamp: u64,
        cuda: bool,
    },
    /// It has mapped a CUDA library and stands stopped.
    Held { pid: u32, tid: u32, timestamp: u64 },
}

/// Why a process could not be traced.
#[derive(Debug, Error)]
pub enum AttachFailure {
    /// The process is not there, or hidden.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The kernel refused.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The set of traced processes is full.
    #[error("telling the kernel to trace process {pid}: {source}")]
    Target {
        /// The process.
        pid: u32,
        /// Why.
        source: aya::maps::MapError,
    },
}

/// What control leaves behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// Library files that were traced.
    pub(super) attached: usize,
    /// A process was probed at entries alone.
    pub(super) entries_only: bool,
    /// When return probes of launches, copies and waits were last taken off.
    pub(super) cut: Option<Cut>,
}

/// How long changes of what a process maps are gathered before it is looked at, where none of
/// the new files is named as CUDA's are.
const GATHER: Duration = Duration::from_millis(20);

/// A traced process.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug)]
struct Traced {
    /// What catches its calls. Children take after their parents.
    scope: Scope,
    /// Why its calls are probed at entry alone, if they are. Children take after their parents.
    entry_only: Option<NoReturns>,
    /// Traced from before its first call.
    from_start: bool,
    /// When it began, if that was seen.
    began: Option<u64>,
    /// It has not used CUDA, and its probes wait until it does.
    is_idle: bool,
    /// Its dynamic linker has been watched since it began: a library that the linker's probe
    /// knows for CUDA's holds the process.
    watched: bool,
    /// It was found to have ended, and the kernel had not told of it yet.
    seems_ended: bool,
    /// What was looked at already.
    seen: Seen,
    /// The libraries found, which keeps them open.
    found: Vec<Found>,
    /// Links that are this process's own, by file. They survive exec.
    links: HashMap<FileIdentity, Links>,
}

impl Traced {
    fn new(scope: Scope) -> Self {
        Self {
            scope,
            entry_only: None,
            from_start: false,
            began: None,
            is_idle: false,
            watched: false,
            seems_ended: false,
            seen: Seen::default(),
            found: Vec::new(),
            links: HashMap::new(),
        }
    }

    /// Remembers a library, once.
    fn keep(&mut self, found: Found) {
        let identity = found.library.identity();
        let known = |other: &Found| other.library.identity() == identity;
        match self.found.iter_mut().find(|other| known(other)) {
            Some(other) => *other = found,
            None => self.found.push(found),
        }
    }

    /// Who it is, for the recording.
    fn facts(&self, process: &Process) -> Result<fact::Process, ProcessError> {
        Ok(fact::Process {
            entry_only: self.entry_only.map(|reason| reason.to_string()),
            ..process.facts(self.from_start)?
        })
    }

    /// Whether it has links of its own on a library.
    fn has_own_probes(&self) -> bool {
        let mut found = self.found.iter();
        found.any(|found| self.links.contains_key(&found.library.identity()))
    }

    fn has_cuda(&self) -> bool {
        let mut layers = self.found.iter().flat_map(|found| &found.library.layers);
        layers.any(|layer| matches!(layer, Layer::Runtime | Layer::Driver))
    }
}

/// Attaches probes.
pub(super) struct Controller {
    programs: Programs,
    mode: AttachMode,
    is_command: bool,
    /// The session ends with the last of its processes.
    ends_with_processes: bool,
    selection: Option<Selection>,
    families: Vec<Family>,
    sites: Sites,
    entry_only: EntryOnly,
    /// Why links on all processes are those for entries alone, once they are.
    shared_entry_only: Option<NoReturns>,
    /// A process was probed at entries alone.
    entries_only: bool,
    targets: BpfHashMap<MapData, u32, u32>,
    libraries: Libraries,
    /// Where each library's sites are, those for entries alone and those for all.
    placed: HashMap<(FileIdentity, bool), Vec<Placed>>,
    /// Links on all processes, by file.
    shared: HashMap<FileIdentity, (Found, Links)>,
    /// Dynamic linkers with links on all processes.
    shared_linkers: HashMap<FileIdentity, (Linker, Links)>,
    /// Links on the function that a process calls first, by file.
    start_watches: HashMap<FileIdentity, idle::StartWatch>,
    /// When processes called it.
    started: BpfHashMap<MapData, u32, u64>,
    /// Processes that have not called it for so long may lose their probes.
    idle_after: Duration,
    looked_for_idle: Instant,
    processes: HashMap<u32, Traced>,
    /// Libraries whose fact is recorded.
    announced: HashSet<(FileIdentity, PathBuf)>,
    /// Processes to look at when they have been quiet for a moment.
    gathering: HashMap<u32, u64>,
    attached: HashSet<FileIdentity>,
    /// What executables were seen to load.
    executables: known::Executables,
    switch: switch::Switch,
    /// `None`: all probes are on all the time.
    budget: Option<Budget>,
    status: Arc<ProbeStatus>,
    detacher: Detacher,
    inbox: Sender<Inbox>,
    stop: Arc<Stop>,
}

impl Controller {
    pub(super) fn new(
        mut programs: Programs,
        mode: AttachMode,
        options: &Options,
        sites: Sites,
        budget: Option<Budget>,
        inbox: Sender<Inbox>,
        stop: Arc<Stop>,
    ) -> Result<Self, SessionError> {
        let targets = programs.take_targets()?;
        let started = programs.take_started()?;
        let switch = switch::Switch::new(programs.take_silences()?);
        let selection = match &options.target {
            Target::Matching(selection) => Some(selection.clone()),
            Target::Command(_) | Target::Pids(_) => None,
        };
        Ok(Self {
            programs,
            mode,
            is_command: matches!(options.target, Target::Command(_)),
            ends_with_processes: matches!(options.target, Target::Pids(_)),
            selection,
            families: options.families.clone(),
            sites,
            entry_only: options.entry_only,
            shared_entry_only: None,
            entries_only: false,
            targets,
            libraries: Libraries::default(),
            placed: HashMap::new(),
            shared: HashMap::new(),
            shared_linkers: HashMap::new(),
            start_watches: HashMap::new(),
            started,
            idle_after: options.idle_after,
            looked_for_idle: Instant::now(),
            processes: HashMap::new(),
            announced: HashSet::new(),
            gathering: HashMap::new(),
            attached: HashSet::new(),
            executables: known::Executables::default(),
            switch,
            budget,
            status: Arc::clone(&options.status),
            detacher: Detacher::start().map_err(SessionError::Start)?,
            inbox,
            stop,
        })
    }

    /// Does what it is asked until told to detach.
    pub(super) fn run(mut self, requests: &Receiver<Control>) -> Report {
        let mut asked = Instant::now();
        loop {
            let gather = (!self.gathering.is_empty())
                .then(|| (asked + GATHER).saturating_duration_since(Instant::now()));
            let request = match [gather, self.budget_wait(), self.idle_wait()]
                .into_iter()
                .flatten()
                .min()
            {
                Some(wait) => requests.recv_timeout(wait),
                None => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let is_quiet = matches!(request, Err(RecvTimeoutError::Timeout));
            match request {
                Ok(Control::Add { pid, reply }) => {
                    let _ = reply.send(self.add(pid));
                }
                Ok(Control::Prepare { executable, reply }) => {
                    self.watch_command(&executable);
                    let _ = reply.send(());
                }
                Ok(Control::Choose { reply }) => {
                    self.choose();
                    let _ = reply.send(());
                }
                Ok(Control::Switch { off }) => self.switch(off),
                Ok(Control::Task(task)) => self.task(task),
                Err(RecvTimeoutError::Timeout) if asked.elapsed() >= GATHER => {
                    self.look_at_gathered();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Control::Detach) | Err(RecvTimeoutError::Disconnected) => break,
            }
            if !is_quiet {
                asked = Instant::now();
                self.tell_attached();
            }
            self.look_at_budget();
            self.look_for_idle();
        }
        self.close_window();
        let (attached, cut) = (self.attached.len(), self.cut());
        Links::detach_all(self.take_links());
        self.detacher.finish();
        Report {
            attached,
            entries_only: self.entries_only,
            cut,
        }
    }

    /// All links there are, taken from whoever has them.
    fn take_links(&mut self) -> Vec<Links> {
        let own = self
            .processes
            .values_mut()
            .flat_map(|process| process.links.drain().map(|(_, links)| links));
        let shared = self.shared.drain().map(|(_, (_, links))| links);
        let linkers = self.shared_linkers.drain().map(|(_, (_, links))| links);
        let watches = self.start_watches.drain().map(|(_, watch)| watch.links);
        own.chain(shared).chain(linkers).chain(watches).collect()
    }

    /// Whose calls links for this process catch, unless it takes after its parent.
    fn scope_of(&self, process: &Process) -> Scope {
        let of_process = match self.mode {
            // Once the leader thread has exited, links scoped to the process catch nothing.
            AttachMode::Scoped => !process.leader_exited(),
            AttachMode::Shared => false,
            AttachMode::Single => !self.is_command,
        };
        NonZeroU32::new(process.pid())
            .filter(|_| of_process)
            .map_or(Scope::All, Scope::Process)
    }

    /// What catches the calls of a traced process.
    fn scope(&self, pid: u32) -> Scope {
        self.processes
            .get(&pid)
            .map_or(Scope::All, |process| process.scope)
    }

    /// Tells the kernel to trace a process.
    fn target(&mut self, pid: u32, scope: Scope) -> Result<(), AttachFailure> {
        let value = match scope {
            Scope::Process(_) => pid | OWN_LINKS,
            Scope::All => pid,
        };
        self.targets
            .insert(&pid, &value, 0)
            .map_err(|source| AttachFailure::Target { pid, source })
    }

    /// A running process is a target from now on.
    fn add(&mut self, pid: u32) -> Result<bool, AttachFailure> {
        if self.processes.contains_key(&pid) {
            return Ok(true);
        }
        let process = Process::open(pid)?;
        let scope = self.scope_of(&process);
        let traced = Traced {
            entry_only: self.no_returns(&process, scope),
            ..Traced::new(scope)
        };
        let found = self.enter(&process, traced, None)?;
        for child in process.children().unwrap_or_default() {
            // Its own end is no failure of its parent's.
            if let Err(error) = self.add(child) {
                tracing::warn!("child {child} of process {pid} is not traced: {error}");
            }
        }
        Ok(found)
    }

    /// What [`Self::add`] and [`Self::adopt`] have in common; says whether a CUDA library is there.
    /// `since`: when calls may have begun that were not seen.
    fn enter(
        &mut self,
        process: &Process,
        traced: Traced,
        since: Option<u64>,
    ) -> Result<bool, AttachFailure> {
        let pid = process.pid();
        let facts = traced.facts(process)?;
        self.target(pid, traced.scope)?;
        self.processes.insert(pid, traced);
        // A library may come between the look and the watch; or the process had ended before it was a
        // target, of which the kernel does not tell.
        let looked = since.unwrap_or_else(clock::monotonic);
        self.gathering.entry(pid).or_insert(looked);
        self.announce(pid, facts);
        if let Some(since) = since {
            self.expect_libraries(process, since);
        }
        self.watch_process(process);
        self.look(pid, since)
    }

    fn announce_process(&self, pid: u32) {
        let Some(traced) = self.processes.get(&pid) else {
            return;
        };
        match Process::open(pid).and_then(|process| traced.facts(&process)) {
            Ok(facts) => self.announce(pid, facts),
            // It may have ended already.
            Err(error) => tracing::debug!("process {pid}: {error}"),
        }
    }

    fn announce(&self, pid: u32, facts: fact::Process) {
        self.fact(pid, pid, &Fact::Process(facts));
        self.tell_of_samples(pid);
    }

    fn fact(&self, pid: u32, tid: u32, fact: &Fact) {
        let _ = self
            .inbox
            .send(Inbox::Fact(fact_event(pid, tid, clock::monotonic(), fact)));
    }

    fn task(&mut self, task: Task) {
        match task {
            Task::Fork {
                parent,
                child,
                timestamp,
            } => self.forked(parent, child, timestamp),
            Task::Exec { pid, timestamp } => self.executed(pid, timestamp),
            Task::Started { pid, timestamp } => self.started(pid, timestamp),
            Task::CudaStarted { pid, timestamp } => self.begins_to_use_cuda(pid, timestamp),
            Task::CaptureBegan => self.capture_began(),
            Task::Exit { pid } => self.exited(pid),
            Task::Mapped {
                pid,
                timestamp,
                cuda: true,
            } => self.mapped(pid, timestamp),
            Task::Mapped {
                pid,
                timestamp,
                cuda: false,
            } => {
                self.gathering.entry(pid).or_insert(timestamp);
            }
            Task::Held {
                pid,
                tid,
                timestamp,
            } => self.held(pid, tid, timestamp),
        }
    }

    /// The process stands stopped until it is continued, come what may.
    fn held(&mut self, pid: u32, tid: u32, timestamp: u64) {
        let held = Held {
            pid,
            inbox: self.inbox.clone(),
        };
        self.gathering.remove(&pid);
        if let Err(error) = self.look(pid, None) {
            tracing::warn!("process {pid}: {error}");
        }
        drop(held);
        let duration = clock::monotonic().saturating_sub(timestamp);
        self.fact(pid, tid, &Fact::Hold { duration });
    }

    fn gap(&self, pid: u32, reason: &str, since: u64) {
        let duration = Some(clock::monotonic().saturating_sub(since));
        let gap = fact::Gap {
            pid,
            reason: reason.to_owned(),
            duration,
        };
        self.fact(pid, pid, &Fact::Gap(gap));
    }
}

impl From<LoadError> for AttachFailure {
    fn from(error: LoadError) -> Self {
        Self::Attach(error.into())
    }
}
