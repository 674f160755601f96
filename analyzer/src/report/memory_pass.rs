//! The pass over the rows that follows the state of memory.

use agent_common::Effect;
use ledger::{HostMemory, concerns_memory};
use trace::{EventBatch, Fact, Kind};

use super::bounds::Bounds;
use super::memory::{MemoryBooks, Outcome};
use super::row::Row;
use crate::selection::Selection;

/// `cudaMemcpyKind` (`driver_types.h`).
const HOST_TO_DEVICE: u8 = 1;
const DEVICE_TO_HOST: u8 = 2;

/// Follows the state of memory, and tells from it what copies came from and went to.
#[derive(Debug)]
pub(super) struct MemoryPass {
    selection: Selection,
    bounds: Bounds,
    books: MemoryBooks,
    /// Whether a recorder told how it was set.
    is_set: bool,
    /// Whether one of several recordings does not have the calls that concern memory.
    is_without_memory: bool,
}

/// What the host's side of each copy in a batch is.
#[derive(Debug)]
pub(super) struct HostSides(Vec<Option<HostMemory>>);

impl HostSides {
    /// That of a copy; `None` where it has none, or that is not known, and for all other rows.
    #[inline]
    pub(super) fn of(&self, row: &Row<'_>) -> Option<HostMemory> {
        *self.0.get(row.place())?
    }
}

impl MemoryPass {
    pub(super) fn new(selection: Selection) -> Self {
        Self {
            selection,
            bounds: Bounds::default(),
            books: MemoryBooks::default(),
            is_set: false,
            is_without_memory: false,
        }
    }

    /// Takes in the next batch.
    pub(super) fn batch(&mut self, batch: &EventBatch) -> HostSides {
        if let Some(&first) = batch.ts().first()
            && self.bounds.begin(&self.selection, first)
        {
            // A segment repeats facts from long before.
            let from = self.bounds.from.max(first);
            self.books = MemoryBooks::new(from, &self.selection);
        }
        let mut hosts = vec![None; batch.len()];
        for (row, host) in Row::all(batch).zip(&mut hosts) {
            match row.kind() {
                Some(Kind::Fact) => self.fact(&row),
                Some(Kind::Call | Kind::Begin | Kind::Abandoned | Kind::InFlight) => {
                    *host = self.call(&row);
                }
                None => {}
            }
        }
        HostSides(hosts)
    }

    /// What there is to tell of memory; the last row told of `end`.
    pub(super) fn finish(self, end: u64) -> Outcome {
        let end = self.bounds.to.map_or(end, |to| to.min(end));
        self.books.finish(&self.selection, end)
    }

    /// A row about a call: of a copy, what its host's side is.
    fn call(&mut self, row: &Row<'_>) -> Option<HostMemory> {
        let effect = row.api()?.api()?.effect;
        if effect == Effect::Copy {
            return self.host_side(row);
        }
        // Memory is a state: it has a history before the window, and a value at its end. What
        // one process shows, another one opens: all processes count.
        if concerns_memory(effect) && self.bounds.is_before_end(row.end()) {
            self.books.apply(&row.event(), row.end());
        }
        None
    }

    fn fact(&mut self, row: &Row<'_>) {
        let Some(fact) = row.text().and_then(Fact::parse) else {
            return;
        };
        let concerns_memory = matches!(
            fact,
            Fact::Process(_)
                | Fact::Fork { .. }
                | Fact::Exec
                | Fact::Exit
                | Fact::Vanished
                | Fact::Gap(_)
                | Fact::TorchSampled
                | Fact::MemorySampled
                | Fact::Checkpoint { .. }
        );
        if concerns_memory && self.bounds.is_before_end(row.timestamp()) {
            self.books.apply(&row.event(), row.timestamp());
        }
        if let Fact::Settings(settings) = fact {
            self.is_set = true;
            self.is_without_memory |= !settings.events.iter().any(|name| name == "memory");
        } else if let Fact::Caller(caller) = fact {
            self.books.caller(caller);
        }
    }

    /// What the host's side of a copy is; `None` where it has none, or that is not known.
    fn host_side(&self, row: &Row<'_>) -> Option<HostMemory> {
        let address = match row.copy_kind() {
            Some(HOST_TO_DEVICE) => row.source(),
            Some(DEVICE_TO_HOST) => row.address(),
            Some(_) | None => return None,
        };
        if !self.is_set || self.is_without_memory {
            return Some(HostMemory::Unknown);
        }
        let size = row.size().unwrap_or(1);
        Some(self.books.host_memory(row.pid(), address, size))
    }
}
