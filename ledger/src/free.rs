//! Calls on their way that give memory back: begun and not yet returned.

use std::collections::BTreeMap;

use agent_common::ApiId;
use serde::{Deserialize, Serialize};

use crate::{
    Array, Block, serial,
    torch::ReleasedSegment,
    vmm::{Mapping, Physical, Reservation},
};

/// Deepest nesting of such calls on one thread.
const MAX_DEPTH: usize = 4;

/// What such a call took out of the state when it began: its address may be handed out again
/// before it returns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Taken {
    /// Nothing was known there.
    Unknown,
    /// Nothing that counts.
    Nothing,
    /// A block, and the segment that it was.
    Block {
        block: Block,
        segment: Option<ReleasedSegment>,
    },
    /// One of several openings of another process's block.
    Opening {
        #[serde(with = "serial::hex")]
        address: u64,
    },
    Array(Array),
    /// A reference to physical memory; the memory, where it was the last one.
    Reference {
        id: u64,
        ended: Option<Physical>,
    },
    /// Mappings, and the memory that nothing else referred to.
    Mappings {
        mappings: Vec<Mapping>,
        ended: Vec<Physical>,
    },
    Reservation(Reservation),
}

/// A call that a thread is in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Freeing {
    #[serde(with = "serial::api")]
    pub(crate) api: ApiId,
    /// The address or handle.
    #[serde(with = "serial::hex")]
    pub(crate) subject: u64,
    pub(crate) taken: Taken,
}

/// The calls that threads are in, the innermost last.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreesUnderWay {
    by_thread: BTreeMap<u32, Vec<Freeing>>,
}

impl FreesUnderWay {
    /// Whether one more of thread `tid` has a place.
    pub(crate) fn has_room(&self, tid: u32, threads: usize) -> bool {
        match self.by_thread.get(&tid) {
            Some(calls) => calls.len() < MAX_DEPTH,
            None => self.by_thread.len() < threads,
        }
    }

    pub(crate) fn insert(&mut self, tid: u32, freeing: Freeing) {
        self.by_thread.entry(tid).or_default().push(freeing);
    }

    /// The call of thread `tid` that `api` and `subject` name, and those inside it: these are
    /// over, and their rows were lost.
    pub(crate) fn take(
        &mut self,
        tid: u32,
        api: Option<ApiId>,
        subject: u64,
    ) -> (Option<Freeing>, Vec<Freeing>) {
        let is_it = |freeing: &Freeing| Some(freeing.api) == api && freeing.subject == subject;
        let Some(calls) = self.by_thread.get_mut(&tid) else {
            return (None, Vec::new());
        };
        let Some(place) = calls.iter().rposition(is_it) else {
            return (None, Vec::new());
        };
        let inner = calls.split_off(place + 1);
        let found = calls.pop();
        if calls.is_empty() {
            self.by_thread.remove(&tid);
        }
        (found, inner)
    }

    /// All calls that thread `tid` is in.
    pub(crate) fn take_all(&mut self, tid: u32) -> Vec<Freeing> {
        self.by_thread.remove(&tid).unwrap_or_default()
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        let all = self.by_thread.values().flatten();
        all.filter_map(|freeing| match &freeing.taken {
            Taken::Block { block, .. } => Some(block),
            Taken::Unknown
            | Taken::Nothing
            | Taken::Opening { .. }
            | Taken::Array(_)
            | Taken::Reference { .. }
            | Taken::Mappings { .. }
            | Taken::Reservation(_) => None,
        })
    }

    /// All, by thread.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Freeing)> {
        let threads = self.by_thread.iter();
        threads.flat_map(|(tid, calls)| calls.iter().map(move |freeing| (*tid, freeing)))
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Freeing> {
        std::mem::take(&mut self.by_thread).into_values().flatten()
    }
}
