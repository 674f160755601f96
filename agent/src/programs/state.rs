//! What the programs keep in maps: counters and threads.

use std::{
    fmt,
    os::fd::{AsFd, AsRawFd as _},
};

use agent_common::{ApiId, Counters, Site, TASKS, ThreadState};
use aya::{
    maps::{HashMap, MapData, MapError, PerCpuArray, PerCpuValues},
    programs::ProgramFd,
};
use zerocopy::FromBytes;

use crate::{budget::Hits, ring_fill::RingFill};

/// What the kernel counts and what is pending in it.
pub struct State {
    pub(super) counters: PerCpuArray<MapData, PodCounters>,
    pub(super) threads: HashMap<MapData, u64, PodThread>,
    pub(super) open_captures: HashMap<MapData, u32, u32>,
    pub(super) ring: RingFill,
    pub(super) programs: Vec<ProgramFd>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl State {
    /// A function's counters, all CPUs together.
    pub fn counters(&self, api: u16) -> Result<Counters, MapError> {
        let values = self.counters.get(&u32::from(api), 0)?;
        Ok(values
            .iter()
            .fold(Counters::default(), |sum, PodCounters(share)| {
                sum.plus(*share)
            }))
    }

    /// How full the ring buffer is, from 0 to 1.
    pub fn ring_fill(&self) -> f64 {
        self.ring.ratio()
    }

    /// Task records that found the ring full: forks and exits that went unseen.
    pub fn lost_task_records(&self) -> Result<u64, MapError> {
        let values = self.counters.get(&u32::from(TASKS.0), 0)?;
        Ok(values
            .iter()
            .map(|PodCounters(share)| share.lost_extra)
            .sum())
    }

    /// Probe hits that the kernel did not run a program for, since it ran one already.
    pub fn recursion_misses(&self) -> u64 {
        recursion_misses(self.programs.iter().map(ProgramFd::as_fd))
    }

    /// Hits of the threads that are known, each with the kernel's name of it.
    pub fn hits(&self) -> impl Iterator<Item = (u64, Hits)> {
        self.threads.iter().filter_map(|entry| {
            let (name, PodThread(thread)) = entry.ok()?;
            let hits = Hits {
                entries: thread.entries,
                returns: thread.returns,
            };
            Some((name, hits))
        })
    }

    /// Whether a process has a capture of a stream open.
    pub fn is_capturing(&self) -> bool {
        self.open_captures.keys().any(|process| process.is_ok())
    }

    /// Forgets all threads, and what was counted for a function.
    pub(crate) fn forget(&mut self, api: ApiId) -> Result<(), MapError> {
        let names: Vec<u64> = self.threads.keys().filter_map(Result::ok).collect();
        for name in names {
            self.threads.remove(&name)?;
        }
        let nothing = self.counters.get(&u32::from(api.0), 0)?;
        let nothing = nothing.iter().map(|_| PodCounters(Counters::default()));
        let nothing =
            PerCpuValues::try_from(nothing.collect::<Vec<_>>()).map_err(MapError::IoError)?;
        self.counters.set(u32::from(api.0), nothing, 0)
    }

    /// The threads that are inside a call.
    pub fn threads(&self) -> Vec<ThreadState> {
        self.threads
            .iter()
            .filter_map(Result::ok)
            .map(|(_, PodThread(thread))| thread)
            .filter(|thread| thread.depth != 0)
            .collect()
    }
}

/// [`Site`] as aya moves it.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct PodSite(pub Site);

/// [`Counters`] as aya moves it.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct PodCounters(Counters);

/// [`ThreadState`] as aya moves it.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct PodThread(ThreadState);

// SAFETY: plain integers without padding, as `Counters: FromBytes + IntoBytes` proves.
unsafe impl aya::Pod for PodCounters {}
// SAFETY: likewise.
unsafe impl aya::Pod for PodThread {}
// SAFETY: plain integers; the fields fill the structure, as the assertion below checks.
unsafe impl aya::Pod for PodSite {}

const _: () = assert!(size_of::<Site>() == 72);
const fn is_plain<T: FromBytes>() {}
const _: () = {
    is_plain::<Counters>();
    is_plain::<ThreadState>();
};

/// From the programs' file descriptors, as /proc shows them.
fn recursion_misses(programs: impl Iterator<Item = impl AsFd>) -> u64 {
    programs
        .filter_map(|fd| {
            let path = format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd());
            let info = std::fs::read_to_string(path).ok()?;
            let line = info
                .lines()
                .find_map(|line| line.strip_prefix("recursion_misses:"))?;
            line.trim().parse::<u64>().ok()
        })
        .sum()
}
