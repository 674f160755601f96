//! Links: what holds a probe to a file.

use std::{io, iter, num::NonZeroU32, path::Path, sync::mpsc, thread};

use agent_common::Cookie;
use aya::programs::{
    ProgramError,
    uprobe::{UProbeAttachLocation, UProbeAttachPoint, UProbeLink, UProbeScope},
};
use thiserror::Error;

use super::sites::{Placed, SiteError};
use crate::programs::{CallProgram, LINKER_PROGRAM, LoadError, Programs, chain};

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
    fn uprobe(self) -> UProbeScope {
        match self {
            Self::Process(pid) => UProbeScope::OneProcess(pid),
            Self::All => UProbeScope::AllProcesses,
        }
    }

    fn cookie(self, site: u32) -> u64 {
        let pid = match self {
            Self::Process(pid) => pid.get(),
            Self::All => 0,
        };
        Cookie { site, pid }.to_bits()
    }
}

/// The links of one file in one scope. Dropping them detaches, which is slow: see
/// [`Links::detach_all`].
#[derive(Debug, Default)]
pub struct Links {
    entries: Vec<UProbeLink>,
    returns: Vec<UProbeLink>,
}

impl Links {
    /// Attaches a library's points. Returns before entries: a call whose return alone is seen
    /// is passed over, one whose entry alone is seen would look as if it never returned.
    pub fn attach(
        programs: &mut Programs,
        placed: &[Placed],
        attach_path: &Path,
        scope: Scope,
    ) -> Result<Self, AttachError> {
        let mut links = Self::default();
        for program in CallProgram::ALL {
            let served = || placed.iter().filter(move |point| point.program == program);
            let returning = served().filter(|point| point.returns);
            let returns = link(programs, program.at_return(), returning, attach_path, scope)?;
            links.returns.extend(returns);
            let entries = link(programs, program.entry(), served(), attach_path, scope)?;
            links.entries.extend(entries);
        }
        Ok(links)
    }

    /// Attaches the program that watches the dynamic linker.
    pub fn attach_linker(
        programs: &mut Programs,
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
        };
        let entries = link(
            programs,
            LINKER_PROGRAM,
            [&point].into_iter(),
            attach_path,
            scope,
        )?;
        Ok(Self {
            entries: entries.into_iter().collect(),
            returns: Vec::new(),
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
            } = links;
            entries.extend(some);
            returns.extend(others);
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
    scope: Scope,
) -> Result<Option<UProbeLink>, AttachError> {
    let points: Vec<UProbeAttachPoint<'static>> = points
        .map(|point| UProbeAttachPoint {
            location: UProbeAttachLocation::AbsoluteOffset(point.offset),
            cookie: Some(scope.cookie(point.site)),
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
        .attach(points, attach_path, scope.uprobe())
        .map_err(refused)?;
    // The link lives with its file and process, not with the program.
    program.take_link(id).map(Some).map_err(refused)
}
