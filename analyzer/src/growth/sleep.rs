//! Programs that give physical memory back and keep its addresses, to take it again later (vLLM's
//! sleep mode): what they gave back, and what they kept.

use std::collections::BTreeMap;

use agent_common::Effect;
use ledger::{Change, MemoryKind};
use serde::Serialize;
use trace::{Event, Kind};

/// Unmapped within one stretch for it to be a sleep, bytes. PyTorch's expandable segments unmap
/// pieces of 20 MiB when they shrink.
const MIN_UNMAPPED: u64 = 256 << 20;

/// A stretch ends when nothing was unmapped for so long, ns: copies to the host lie in between.
const PAUSE: u64 = 5_000_000_000;

/// Most sleeps, and processes in one, that are kept.
pub(super) const KEPT: usize = 1024;

/// A stretch in which a process unmapped much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sleep {
    /// Process id.
    pub pid: u32,
    /// When it began, ns of `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// Its last call.
    pub to_ns: u64,
    /// Bytes of addresses that were unmapped.
    pub unmapped_bytes: u64,
    /// Physical memory that went.
    pub freed_bytes: u64,
    /// The process's own device memory that was left, all devices together.
    pub kept_bytes: u64,
}

/// Looks for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    open: BTreeMap<u32, Sleep>,
    found: Vec<Sleep>,
    /// Sleeps beyond [`KEPT`], and calls of processes of which none is open for that reason.
    untold: u64,
}

impl Watch {
    /// Takes in an event, what it changed, and what the process holds after it.
    pub(super) fn note(
        &mut self,
        event: &Event,
        effect: Effect,
        changes: &[Change],
        held: impl FnOnce() -> u64,
    ) {
        let gives = matches!(effect, Effect::Unmap | Effect::PhysicalRelease);
        let takes = matches!(effect, Effect::Map | Effect::PhysicalCreate);
        if !gives && !takes || event.result.is_some_and(|result| result != 0) {
            return;
        }
        let (pid, now) = (event.pid, event.timestamp);
        let is_over = |sleep: &Sleep| takes || now.saturating_sub(sleep.to_ns) > PAUSE;
        if self.open.get(&pid).is_some_and(is_over) {
            self.close(pid);
        }
        if !gives {
            return;
        }
        if self.open.len() >= KEPT && !self.open.contains_key(&pid) {
            self.untold += 1;
            return;
        }
        let sleep = self.open.entry(pid).or_insert(Sleep {
            pid,
            from_ns: now,
            to_ns: now,
            unmapped_bytes: 0,
            freed_bytes: 0,
            kept_bytes: 0,
        });
        sleep.to_ns = now;
        if effect == Effect::Unmap && event.kind == Kind::Call {
            let size = event.size.and_then(|size| u64::try_from(size).ok());
            sleep.unmapped_bytes = sleep.unmapped_bytes.saturating_add(size.unwrap_or(0));
        }
        let gone = changes
            .iter()
            .filter(|change| change.is_gone && change.kind == MemoryKind::Vmm);
        let gone = gone.fold(0_u64, |sum, change| sum.saturating_add(change.size));
        sleep.freed_bytes = sleep.freed_bytes.saturating_add(gone);
        sleep.kept_bytes = held();
    }

    /// The process ended: what it gave back then was no sleep.
    pub(super) fn forget(&mut self, pid: u32) {
        self.open.remove(&pid);
    }

    /// All of them, in order, and what was more than is kept.
    pub(super) fn finish(mut self) -> (Vec<Sleep>, u64) {
        while let Some(&pid) = self.open.keys().next() {
            self.close(pid);
        }
        self.found.sort_by_key(|sleep| sleep.from_ns);
        (self.found, self.untold)
    }

    fn close(&mut self, pid: u32) {
        if let Some(sleep) = self.open.remove(&pid)
            && sleep.unmapped_bytes >= MIN_UNMAPPED
        {
            if self.found.len() < KEPT {
                self.found.push(sleep);
            } else {
                self.untold += 1;
            }
        }
    }
}
