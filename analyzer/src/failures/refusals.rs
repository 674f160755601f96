//! Allocations that found no memory, and how the program took it.

use std::collections::VecDeque;

use agent_common::Effect;
use serde::Serialize;

/// `cudaErrorMemoryAllocation`, `CUDA_ERROR_OUT_OF_MEMORY`.
pub(crate) const OUT_OF_MEMORY: i32 = 2;

/// Most refusals of a process that wait for what comes next.
pub(super) const OPEN: usize = 64;

/// Allocations of a process that found no memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Refusals {
    /// Process id.
    pub pid: u32,
    /// How many.
    pub calls: u64,
    /// Of them, those that the same thread made again after memory was given back, and got: the
    /// allocator cleared its cache.
    pub retried_after_frees: u64,
    /// Those that it got in another way: made again without that, or for less, but half at least.
    pub answered: u64,
    /// Those after which neither was seen.
    pub unanswered: u64,
    /// The largest that was refused, bytes.
    pub largest_bytes: u64,
    /// The first one, ns of `CLOCK_MONOTONIC`.
    pub first_ns: u64,
    /// The last one.
    pub last_ns: u64,
}

/// A refusal whose thread has not allocated since.
#[derive(Clone, Copy, Debug)]
struct Open {
    tid: u32,
    size: u64,
    frees: u64,
}

/// Follows them in one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    refusals: Refusals,
    open: VecDeque<Open>,
    frees: u64,
    /// Those that waited when there were too many.
    forgotten: u64,
}

impl Watch {
    /// Takes in a call.
    #[inline]
    pub(super) fn call(
        &mut self,
        effect: Effect,
        result: Option<i32>,
        size: Option<u64>,
        at: (u32, u64),
    ) {
        if result == Some(0) && gives_back(effect) {
            self.frees += 1;
        } else if takes(effect) {
            match (result, size) {
                (Some(OUT_OF_MEMORY), size) => self.refused(size.unwrap_or(0), at),
                (Some(0), Some(size)) if !self.open.is_empty() => self.granted(size, at.0),
                _ => {}
            }
        }
    }

    fn refused(&mut self, size: u64, (tid, now): (u32, u64)) {
        let refusals = &mut self.refusals;
        if refusals.calls == 0 {
            refusals.first_ns = now;
        }
        refusals.calls += 1;
        refusals.last_ns = now;
        refusals.largest_bytes = refusals.largest_bytes.max(size);
        if self.open.len() == OPEN {
            self.open.pop_front();
            refusals.unanswered += 1;
            self.forgotten += 1;
        }
        let frees = self.frees;
        self.open.push_back(Open { tid, size, frees });
    }

    fn granted(&mut self, size: u64, tid: u32) {
        let Self {
            refusals,
            open,
            frees,
            forgotten: _,
        } = self;
        open.retain(|refusal| {
            let is_answer = refusal.tid == tid && size >= refusal.size / 2;
            if is_answer && size == refusal.size && *frees > refusal.frees {
                refusals.retried_after_frees += 1;
            } else if is_answer {
                refusals.answered += 1;
            }
            !is_answer
        });
    }

    /// How many were no longer followed, since too many waited: they are unanswered.
    pub(super) const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// What came of them; `None`: there were none.
    pub(super) fn finish(self, pid: u32) -> Option<Refusals> {
        let unanswered = self.refusals.unanswered + self.open.len() as u64;
        (self.refusals.calls > 0).then_some(Refusals {
            pid,
            unanswered,
            ..self.refusals
        })
    }
}

/// Whether calls of this effect take memory of a device.
const fn takes(effect: Effect) -> bool {
    matches!(
        effect,
        Effect::DeviceAlloc
            | Effect::ManagedAlloc
            | Effect::PoolAlloc
            | Effect::ArrayAlloc
            | Effect::PhysicalCreate
    )
}

const fn gives_back(effect: Effect) -> bool {
    matches!(
        effect,
        Effect::DeviceFree
            | Effect::PoolFree
            | Effect::ArrayFree
            | Effect::PhysicalRelease
            | Effect::Unmap
            | Effect::PoolTrim
    )
}
