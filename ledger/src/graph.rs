//! Which graph owns memory, and for how long.
//!
//! A captured allocation belongs to the graph that its capture ends as. A graph's memory goes
//! when the graph and all that was made ready from it have ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::serial;

/// A graph that owns memory, or may come to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Graph {
    pub(crate) is_destroyed: bool,
    /// Ready graphs made from it.
    pub(crate) executables: u64,
}

/// A process's graphs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Graphs {
    /// By handle: those that own memory.
    #[serde(with = "serial::pairs")]
    pub(crate) owners: BTreeMap<u64, Graph>,
    /// The graph that a ready graph was made from.
    #[serde(with = "serial::pairs")]
    pub(crate) executables: BTreeMap<u64, u64>,
    /// Addresses of captured allocations whose capture is still open: thread and stream.
    #[serde(with = "serial::pairs")]
    pub(crate) captured: BTreeMap<u64, (u32, Option<u64>)>,
}

impl Graphs {
    pub(crate) fn len(&self) -> usize {
        self.owners.len() + self.executables.len() + self.captured.len()
    }

    /// Allocations of a capture that ended on this thread or stream.
    pub(crate) fn take_captured(&mut self, tid: u32, stream: Option<u64>) -> Vec<u64> {
        let is_of = |(thread, on): &(u32, Option<u64>)| *thread == tid || *on == stream;
        let taken: Vec<u64> = self
            .captured
            .iter()
            .filter(|(_, capture)| is_of(capture))
            .map(|(address, _)| *address)
            .collect();
        for address in &taken {
            self.captured.remove(address);
        }
        taken
    }

    pub(crate) fn instantiated(&mut self, executable: u64, graph: u64) {
        if let Some(owner) = self.owners.get_mut(&graph) {
            owner.executables += 1;
            if let Some(before) = self.executables.insert(executable, graph) {
                self.one_less(before);
            }
        }
    }

    /// The graph whose memory goes with it.
    pub(crate) fn destroyed(&mut self, graph: u64) -> Option<u64> {
        self.owners.get_mut(&graph)?.is_destroyed = true;
        self.take_ended(graph)
    }

    /// The graph whose memory goes with this executable.
    pub(crate) fn executable_destroyed(&mut self, executable: u64) -> Option<u64> {
        let graph = self.executables.remove(&executable)?;
        self.one_less(graph);
        self.take_ended(graph)
    }

    fn one_less(&mut self, graph: u64) {
        if let Some(owner) = self.owners.get_mut(&graph) {
            owner.executables = owner.executables.saturating_sub(1);
        }
    }

    fn take_ended(&mut self, graph: u64) -> Option<u64> {
        let owner = self.owners.get(&graph)?;
        (owner.is_destroyed && owner.executables == 0).then(|| {
            self.owners.remove(&graph);
            graph
        })
    }
}
