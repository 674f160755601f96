//! What is known of a graph before it is launched.

use std::collections::BTreeMap;

use agent_common::{Effect, Family};
use trace::fact::Settings;

use super::row::Row;
use super::{Kept, LeftOut};

/// Most graphs that are told apart: of those that were not destroyed.
pub(crate) const GRAPHS: usize = 4096;

/// A graph.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Graph {
    /// Its nodes, where the program asked for them.
    pub(crate) nodes: Option<u64>,
    /// Kernel launches that were captured into it by the thread that ended the capture.
    pub(crate) kernels: Option<u64>,
}

/// Graphs that can be made ready to launch: those that were not destroyed.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    /// Launches were not traced all the time: more than were seen may have gone into a graph.
    misses_launches: bool,
    /// By process id and handle.
    known: BTreeMap<(u32, u64), Graph>,
    /// Launches that went into a graph since the thread's last capture ended, by process and
    /// thread id.
    capturing: BTreeMap<(u32, u32), u64>,
    /// Calls that told of a graph beyond [`GRAPHS`].
    untold: u64,
}

impl Graphs {
    /// How a recorder was set. One that traces graphs alone sees no launches.
    pub(crate) fn recorder_set(&mut self, settings: &Settings) {
        let launch = Family::Launch.name();
        let has_launches = settings.events.iter().any(|family| family == launch);
        self.misses_launches |= !has_launches || settings.max_overhead.is_some();
    }

    /// Launches were traced in windows alone.
    pub(crate) const fn sampled(&mut self) {
        self.misses_launches = true;
    }

    /// Whether each launch was traced, so that the kernels of a graph are known.
    pub(crate) const fn have_all_launches(&self) -> bool {
        !self.misses_launches
    }

    /// A launch went into a graph.
    pub(crate) fn captured(&mut self, pid: u32, tid: u32) {
        *self.capturing.entry((pid, tid)).or_default() += 1;
    }

    /// Takes in a row that tells of a graph; what is known of it, where the call made it ready to
    /// launch.
    pub(crate) fn call(&mut self, effect: Effect, row: &Row<'_>) -> Option<Graph> {
        let (pid, handle) = (row.pid(), row.handle());
        if row.result() != Some(0) {
            return None;
        }
        if effect == Effect::CaptureEnd {
            let kernels = self.capturing.remove(&(pid, row.tid())).unwrap_or(0);
            if let Some(graph) = self.graph_mut(pid, handle) {
                // A new graph at an address that an old one may have had.
                *graph = Graph {
                    nodes: None,
                    kernels: Some(kernels),
                };
            }
        } else if effect == Effect::GraphNodes {
            let nodes = row.count();
            if let Some(graph) = self.graph_mut(pid, handle) {
                graph.nodes = nodes;
            }
        } else if effect == Effect::GraphInstantiate {
            let graph = row
                .related()
                .and_then(|graph| self.known.get(&(pid, graph)));
            return Some(graph.copied().unwrap_or_default());
        } else if effect == Effect::GraphDestroy
            && let Some(handle) = handle
        {
            self.known.remove(&(pid, handle));
        }
        None
    }

    /// What was more than is kept, and so many more.
    pub(crate) fn left_out(&self, more: u64) -> Option<LeftOut> {
        LeftOut::of(Kept::Graphs, GRAPHS, self.untold.saturating_add(more))
    }

    fn graph_mut(&mut self, pid: u32, handle: Option<u64>) -> Option<&mut Graph> {
        let key = (pid, handle?);
        if self.known.len() >= GRAPHS && !self.known.contains_key(&key) {
            self.untold += 1;
            return None;
        }
        Some(self.known.entry(key).or_default())
    }
}
