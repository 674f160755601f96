//! Frees on their way: begun and not yet returned.

use std::collections::HashMap;

use crate::{Block, torch::ReleasedSegment};

/// A free that a thread is in.
#[derive(Debug)]
pub(crate) struct Freeing {
    pub(crate) address: u64,
    /// The block, taken out of the live ones when the free began: its address may be handed
    /// out again before the free returns. `None` when no block was known there.
    pub(crate) block: Option<Block>,
    /// The segment that the block was.
    pub(crate) segment: Option<ReleasedSegment>,
}

/// The frees that threads are in: at most one a thread.
#[derive(Debug, Default)]
pub(crate) struct FreesUnderWay {
    by_thread: HashMap<u32, Freeing>,
}

impl FreesUnderWay {
    pub(crate) fn len(&self) -> usize {
        self.by_thread.len()
    }

    pub(crate) fn insert(&mut self, tid: u32, freeing: Freeing) {
        self.by_thread.insert(tid, freeing);
    }

    /// The free that thread `tid` is in.
    pub(crate) fn take(&mut self, tid: u32) -> Option<Freeing> {
        self.by_thread.remove(&tid)
    }

    pub(crate) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.by_thread
            .values()
            .filter_map(|freeing| freeing.block.as_ref())
    }

    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Freeing> {
        std::mem::take(&mut self.by_thread).into_values()
    }
}
