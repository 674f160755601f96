//! Links: what holds a probe to a file.

use std::{io, iter, num::NonZeroU32, path::Path, sync::mpsc, thread};

use agent_common::{CLASSES, Cookie, ProbeClass, TASKS};
use aya::programs::{
    ProgramError,
    uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeLink, UProbeScope},
};
use thiserror::Error;

use super::sites::{Placed, SiteError};
use crate::kernel::AttachMode;
use crate::programs::{CallProgram, LINKER_PROGRAM, LoadError, Programs, START_PROGRAM, chain};

/// Why probes could not be attached.
#[derive(Debug, Error)]
pub enum AttachError {
    /// The kernel refused.
    #[error("attaching {program} to {path}: {}", chain(.source))]
    Refused {
        /// The program.
        program: &'static str,
        /// The file.
        path: String,
        /// Why.
        source: ProgramError,
    },
    /// The program is not there.
    #[error(transparent)]
    Program(#[from] LoadError),
    /// No room for the attach point.
    #[error(transparent)]
    Site(#[from] SiteError),
}

/// Whose calls are caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One process's.
    Process(NonZeroU32),
    /// Every process's that maps the file; the programs look at who it is.
    All,
}

impl Scope {
    fn reach(self) -> Reach {
        match self {
            Self::Process(pid) => Reach {
                scope: UProbeScope::OneProcess(pid),
                pid: pid.get(),
            },
            Self::All => Reach {
                scope: UProbeScope::AllProcesses,
                pid: 0,
            },
        }
    }
}

/// What the kernel is told: where a link fires, and whose calls its programs take them for.
#[derive(Clone, Copy, Debug)]
struct Reach {
    scope: UProbeScope,
    /// 0: whoever calls, if it is traced.
    pid: u32,
}

/// The links of one file in one scope. Dropping them detaches, which is slow: see
/// [`Links::detach_all`].
#[derive(Debug, Default)]
pub struct Links {
    entries: Vec<(ProbeClass, UProbeLink)>,
    returns: Vec<(ProbeClass, UProbeLink)>,
    /// Functions with probes, by class.
    functions: [usize; CLASSES],
}

impl Links {
    /// Attaches points of a library, which will be detached together as `class`. Returns before entries: a call whose return alone is seen
    /// is passed over, one whose entry alone is seen would look as if it never returned.
    pub fn attach(
        programs: &mut Programs,
        placed: &[Placed],
        attach_path: &Path,
        scope: Scope,
        class: ProbeClass,
    ) -> Result<Self, AttachError> {
        let mut links = Self::default();
        let reach = scope.reach();
        for program in CallProgram::ALL {
            let served = || placed.iter().filter(move |point| point.program == program);
            let returning = served().filter(|point| point.returns);
            let returns = link(programs, program.at_return(), returning, attach_path, reach)?;
            links.returns.extend(returns.map(|link| (class, link)));
            let entries = link(programs, program.entry(), served(), attach_path, reach)?;
            links.entries.extend(entries.map(|link| (class, link)));
        }
        links.functions[class as usize] = placed.len();
        Ok(links)
    }

    /// Attaches to a function of our own file. Where links cannot be scoped to a process, those
    /// that run the same file hit it, too; but nobody calls it but to measure.
    pub fn attach_to_self(
        programs: &mut Programs,
        point: Placed,
        attach_path: &Path,
        mode: AttachMode,
    ) -> Result<Self, AttachError> {
        let pid = std::process::id();
        let scope = match (mode, NonZeroU32::new(pid)) {
            (AttachMode::Scoped, Some(pid)) => UProbeScope::OneProcess(pid),
            (AttachMode::Scoped | AttachMode::Shared | AttachMode::Single, _) => {
                UProbeScope::AllProcesses
            }
        };
        let reach = Reach { scope, pid };
        let mut links = Self::default();
        if point.returns {
            let name = point.program.at_return();
            let returns = link(programs, name, [&point].into_iter(), attach_path, reach)?;
            links
                .returns
                .extend(returns.map(|link| (point.class, link)));
        }
        let name = point.program.entry();
        let entries = link(programs, name, [&point].into_iter(), attach_path, reach)?;
        links
            .entries
            .extend(entries.map(|link| (point.class, link)));
        Ok(links)
    }

    /// Takes in links of the same file and scope.
    pub fn merge(&mut self, other: Self) {
        let Self {
            entries,
            returns,
            functions,
        } = other;
        self.entries.extend(entries);
        self.returns.extend(returns);
        for (sum, more) in self.functions.iter_mut().zip(functions) {
            *sum += more;
        }
    }

    /// The links of a class, taken out.
    #[must_use]
    pub fn take(&mut self, class: ProbeClass) -> Self {
        let is_of = |(of, _): &mut (ProbeClass, UProbeLink)| *of == class;
        let mut functions = [0; CLASSES];
        std::mem::swap(
            &mut functions[class as usize],
            &mut self.functions[class as usize],
        );
        Self {
            entries: self.entries.extract_if(.., is_of).collect(),
            returns: self.returns.extract_if(.., is_of).collect(),
            functions,
        }
    }

    /// How many functions have probes.
    pub fn functions(&self) -> usize {
        self.functions.iter().sum()
    }

    /// Attaches the program that watches the dynamic linker.
    pub fn attach_linker(
        programs: &mut Programs,
        site: u32,
        offset: u64,
        attach_path: &Path,
        scope: Scope,
    ) -> Result<Self, AttachError> {
        Self::attach_alone(programs, LINKER_PROGRAM, site, offset, attach_path, scope)
    }

    /// Attaches the program that sees a driver's first call to that function, whoever calls it.
    pub fn attach_start(
        programs: &mut Programs,
        offset: u64,
        attach_path: &Path,
    ) -> Result<Self, AttachError> {
        let no_site = 0;
        Self::attach_alone(
            programs,
            START_PROGRAM,
            no_site,
            offset,
            attach_path,
            Scope::All,
        )
    }

    /// Attaches a program that is no call's.
    fn attach_alone(
        programs: &mut Programs,
        name: &'static str,
        site: u32,
        offset: u64,
        attach_path: &Path,
        scope: Scope,
    ) -> Result<Self, AttachError> {
        let point = Placed {
            program: CallProgram::Call,
            offset,
            site,
            returns: false,
            api: TASKS,
            class: ProbeClass::Steady,
        };
        let entries = link(
            programs,
            name,
            [&point].into_iter(),
            attach_path,
            scope.reach(),
        )?;
        Ok(Self {
            entries: entries
                .map(|link| (point.class, link))
                .into_iter()
                .collect(),
            ..Self::default()
        })
    }

    /// Detaches many files' links: entries first, so that no call is seen to begin and not to
    /// end; each kind from parallel threads, since the kernel makes each detach wait (12
    /// processes with 10 links each: 4.9 s in turn, 0.13 s so; Linux 6.18).
    pub fn detach_all(all: Vec<Self>) {
        let (mut entries, mut returns) = (Vec::new(), Vec::new());
        for links in all {
            let Self {
                entries: some,
                returns: others,
                functions: _,
            } = links;
            entries.extend(some.into_iter().map(|(_, link)| link));
            returns.extend(others.into_iter().map(|(_, link)| link));
        }
        drop_in_parallel(entries);
        drop_in_parallel(returns);
    }
}

/// Detaches behind the back of whoever has links to leave: the kernel takes its time. What comes
/// while it is at work is detached together, so that threads and files stay few.
#[derive(Debug)]
pub struct Detacher {
    waiting: mpsc::Sender<Links>,
    thread: thread::JoinHandle<()>,
}

impl Detacher {
    /// Starts its thread.
    pub fn start() -> io::Result<Self> {
        let (waiting, links) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("detach".to_owned())
            .spawn(move || {
                while let Ok(first) = links.recv() {
                    let all: Vec<Links> = iter::once(first).chain(links.try_iter()).collect();
                    Links::detach_all(all);
                }
            })?;
        Ok(Self { waiting, thread })
    }

    /// Takes links over.
    pub fn detach(&self, links: impl IntoIterator<Item = Links>) {
        for links in links {
            // If its thread is gone, they are detached here and now.
            let _ = self.waiting.send(links);
        }
    }

    /// Waits until all are off.
    pub fn finish(self) {
        let Self { waiting, thread } = self;
        drop(waiting);
        let _ = thread.join();
    }
}

/// Threads that detach at the same time.
const DETACHERS: usize = 32;

fn drop_in_parallel(links: Vec<UProbeLink>) {
    let mut shares: Vec<Vec<UProbeLink>> = Vec::new();
    shares.resize_with(DETACHERS.min(links.len()), Vec::new);
    for (index, link) in links.into_iter().enumerate() {
        shares[index % DETACHERS].push(link);
    }
    thread::scope(|scope| {
        for share in shares {
            scope.spawn(move || drop(share));
        }
    });
}

fn link<'a>(
    programs: &mut Programs,
    name: &'static str,
    points: impl Iterator<Item = &'a Placed>,
    attach_path: &Path,
    reach: Reach,
) -> Result<Option<UProbeLink>, AttachError> {
    let points: Vec<UProbeAttachPoint<'static>> = points
        .map(|point| UProbeAttachPoint {
            location: UProbeAttachLocation::AbsoluteOffset(point.offset),
            cookie: Some(
                Cookie {
                    site: point.site,
                    pid: reach.pid,
                }
                .to_bits(),
            ),
        })
        .collect();
    if points.is_empty() {
        return Ok(None);
    }
    let refused = |source| AttachError::Refused {
        program: name,
        path: attach_path.display().to_string(),
        source,
    };
    let program = programs.uprobe(name)?;
    let id = program
        .attach(points, attach_path, reach.scope)
        .map_err(refused)?;
    // The link lives with its file and process, not with the program.
    program.take_link(id).map(Some).map_err(refused)
}
