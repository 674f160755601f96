//! Which process of one recording is which of the other.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::{MemoryChange, memory};
use crate::memory::{Process, Report};

/// The memory of a process that runs the same in both recordings.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessChange {
    /// Its title; `None`: not in the recordings.
    pub title: Option<String>,
    /// Its executable, in A if it is there; `None`: not in the recordings.
    pub exe: Option<String>,
    /// Which one it is of those that are alike, from 0.
    pub rank: usize,
    /// Its id in A; `None`: it is not there.
    pub a_pid: Option<u32>,
    /// Its id in B; `None`: it is not there.
    pub b_pid: Option<u32>,
    /// Its totals in both.
    pub memory: Vec<MemoryChange>,
}

/// What a process has to have in common with the one that it is: the title, or the executable
/// where it has none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness<'a> {
    Title(&'a str),
    Executable(&'a str),
    Unknown,
}

impl<'a> Likeness<'a> {
    fn of(process: &'a Process) -> Self {
        let title = process.title.as_deref().filter(|title| !title.is_empty());
        let exe = process.exe.as_deref();
        let name = exe.map(|path| path.rsplit('/').next().unwrap_or(path));
        match (title, name) {
            (Some(title), _) => Self::Title(title),
            (None, Some(name)) => Self::Executable(name),
            (None, None) => Self::Unknown,
        }
    }
}

/// `CUDA_VISIBLE_DEVICES` of processes, by id and start time.
pub(super) type Visible = HashMap<(u32, u64), String>;

/// Processes that have memory in either, matched.
pub(super) fn changes(reports: [&Report; 2], visible: [&Visible; 2]) -> Vec<ProcessChange> {
    let mut alike: BTreeMap<Likeness<'_>, [Vec<&Process>; 2]> = BTreeMap::new();
    for (side, report) in reports.into_iter().enumerate() {
        for process in &report.processes {
            alike.entry(Likeness::of(process)).or_default()[side].push(process);
        }
    }
    let mut changes = Vec::new();
    for (_, mut both) in alike {
        for (processes, visible) in both.iter_mut().zip(visible) {
            processes.sort_by_cached_key(|process| Rank::of(process, visible));
        }
        let [ours, theirs] = both;
        for rank in 0..ours.len().max(theirs.len()) {
            let (a, b) = (ours.get(rank).copied(), theirs.get(rank).copied());
            let known = a.or(b);
            changes.push(ProcessChange {
                title: known.and_then(|process| process.title.clone()),
                exe: known.and_then(|process| process.exe.clone()),
                rank,
                a_pid: a.map(|process| process.pid),
                b_pid: b.map(|process| process.pid),
                memory: memory::of_process(reports, [a, b]),
            });
        }
    }
    changes
}

/// Workers are told apart by the device that they work on, then by when they were started: in
/// order of their ranks.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    /// The device that holds most, as the process counts.
    device: Option<i32>,
    /// `CUDA_VISIBLE_DEVICES`; empty: not known.
    visible: Vec<Visibility<'a>>,
    start: u64,
    pid: u32,
}

/// An entry of `CUDA_VISIBLE_DEVICES`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Visibility<'a> {
    /// An ordinal.
    Ordinal(u32),
    /// The beginning of a UUID, or whatever else stands there.
    Name(&'a str),
}

impl<'a> Rank<'a> {
    fn of(process: &Process, visible: &'a Visible) -> Self {
        let most = process
            .devices
            .iter()
            .max_by_key(|device| device.peak_bytes);
        let start = process.start_time.unwrap_or(u64::MAX);
        let visible = visible.get(&(process.pid, start));
        let entries = visible.into_iter().flat_map(|visible| visible.split(','));
        Self {
            device: most.and_then(|device| device.device),
            visible: entries.map(Visibility::of).collect(),
            start,
            pid: process.pid,
        }
    }
}

impl<'a> Visibility<'a> {
    fn of(entry: &'a str) -> Self {
        let entry = entry.trim();
        entry.parse().map_or(Self::Name(entry), Self::Ordinal)
    }
}
