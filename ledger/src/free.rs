//! Calls on their way that give memory back: begun and not yet returned.

use std::collections::{BTreeMap, btree_map::Entry};

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
        /// In a place of its own, as few blocks are one: what frees take is moved again and again.
        segment: Option<Box<ReleasedSegment>>,
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
    /// A thread that was in one keeps its place: it is going to be in the next.
    by_thread: BTreeMap<u32, Vec<Freeing>>,
    /// Threads that are in none.
    idle: usize,
}

impl FreesUnderWay {
    /// Whether one more of thread `tid` has a place, where so many threads have one.
    pub(crate) fn has_room(&mut self, tid: u32, threads: usize) -> bool {
        if let Some(calls) = self.by_thread.get(&tid) {
            return calls.len() < MAX_DEPTH;
        }
        // Half of them at a time, so that this is rare whatever the rows are.
        if self.by_thread.len() >= threads && self.idle > threads / 2 {
            self.by_thread.retain(|_, calls| !calls.is_empty());
            self.idle = 0;
        }
        self.by_thread.len() < threads
    }

    pub(crate) fn insert(&mut self, tid: u32, freeing: Freeing) {
        match self.by_thread.entry(tid) {
            Entry::Vacant(place) => place.insert(Vec::new()).push(freeing),
            Entry::Occupied(place) => {
                let calls = place.into_mut();
                self.idle -= usize::from(calls.is_empty());
                calls.push(freeing);
            }
        }
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
        self.idle += usize::from(calls.is_empty());
        (found, inner)
    }

    /// All calls that thread `tid` is in.
    pub(crate) fn take_all(&mut self, tid: u32) -> Vec<Freeing> {
        let calls = self.by_thread.get_mut(&tid);
        let Some(calls) = calls.filter(|calls| !calls.is_empty()) else {
            return Vec::new();
        };
        self.idle += 1;
        std::mem::take(calls)
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
        let Self { by_thread, .. } = std::mem::take(self);
        by_thread.into_values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(subject: u64) -> Freeing {
        Freeing {
            api: ApiId::by_name("cudaFree").unwrap(),
            subject,
            taken: Taken::Nothing,
        }
    }

    /// A pool that ends its threads and begins others: those that are in a call keep their places,
    /// and those that were make way.
    #[test]
    fn threads_that_are_in_no_call_make_way() {
        const THREADS: usize = 8;
        let mut frees = FreesUnderWay::default();
        let api = Some(free(0).api);
        assert!(frees.has_room(1, THREADS));
        frees.insert(1, free(1));
        for tid in 2..1000 {
            assert!(frees.has_room(tid, THREADS), "thread {tid}");
            frees.insert(tid, free(2));
            assert_eq!(frees.take(tid, api, 2), (Some(free(2)), Vec::new()));
            assert!(frees.by_thread.len() <= THREADS);
        }
        assert_eq!(frees.iter().collect::<Vec<_>>(), [(1, &free(1))]);
        for tid in 1000..1007 {
            if frees.has_room(tid, THREADS) {
                frees.insert(tid, free(3));
            }
        }
        assert!(frees.iter().count() >= THREADS / 2);
        assert_eq!(frees.take_all(1), [free(1)]);
        assert_eq!(frees.take_all(1), []);
        let idle = frees.by_thread.values().filter(|calls| calls.is_empty());
        assert_eq!(frees.idle, idle.count());
    }
}
