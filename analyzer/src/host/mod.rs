//! How the host drives the device: what each thread launches, copies and waits for, and how
//! these follow each other. Figures only; what they mean is judged in [`crate::findings`].
//!
//! [`Collector`] takes the calls of a recording one by one, and keeps no more than the last of
//! each thread.

mod functions;
mod kernels;
mod stretch;
mod syncs;
mod threads;
mod transfers;

use std::collections::BTreeMap;

use agent_common::launch::Dimensions;
use agent_common::{Api, ApiId, Effect};
use ledger::HostMemory;
use trace::fact;

use crate::report::row::Row;
use functions::Functions;

pub use kernels::{Source, source};
pub use stretch::{Stretch, Stretches};
pub use syncs::Waiting;
pub(crate) use threads::SMALL_GRID_BLOCKS;
pub use threads::{LaunchPace, SmallCopies, ThreadPace, WaitPattern, WaitSum};
pub use transfers::{Bulk, Direction, Timing, Transfers};

/// A wait of at most so many ns found nothing to wait for: an idle device answers in about 20 µs
/// of host time, probes included.
pub const AT_ONCE_NS: u64 = 50_000;

/// How the host drove the device.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// By thread, the most calls first.
    pub threads: Vec<ThreadPace>,
    /// Copies by process, direction, host memory and timing.
    pub transfers: Vec<Transfers>,
    /// Waits by thread, function and caller, the longest time first.
    pub waits: Vec<Waiting>,
}

/// Makes [`Host`].
#[derive(Debug)]
pub(crate) struct Collector {
    functions: Functions,
    threads: threads::Table,
    transfers: transfers::Table,
    syncs: syncs::Table,
    /// File of the code that a caller id stands for.
    callers: BTreeMap<u32, Option<String>>,
}

impl Collector {
    pub(crate) fn new() -> Self {
        Self {
            functions: Functions::new(),
            threads: threads::Table::new(),
            transfers: transfers::Table::new(),
            syncs: syncs::Table::new(),
            callers: BTreeMap::new(),
        }
    }

    /// Takes in a row of a kernel launch, and its shape. A call inside another one is not what
    /// the program did.
    #[inline]
    pub(crate) fn launch(&mut self, row: &Row<'_>, shape: Option<Dimensions>) {
        if row.parent().is_none() {
            self.threads.of(row).launch(row, shape);
        }
    }

    /// Takes in any other row of kind `call`; of a copy, with what its host side is.
    #[inline]
    pub(crate) fn call(&mut self, id: ApiId, api: &Api, row: &Row<'_>, host: Option<HostMemory>) {
        if row.parent().is_some() {
            return;
        }
        if api.effect == Effect::GraphLaunch {
            self.threads.of(row).graph_launch(row);
        } else if api.effect == Effect::Copy {
            let copy = self
                .transfers
                .copy(self.functions.get(id).is_async, row, host);
            self.threads.of(row).copy(row, copy);
        } else if api.effect == Effect::Wait {
            let waited = self.threads.of(row).wait(self.functions.get(id), row);
            self.syncs.wait(id, row);
            if let Some((copy, rest)) = waited {
                self.transfers.waited_for(copy, rest);
            }
        }
    }

    pub(crate) fn caller(&mut self, caller: fact::Caller) {
        let fact::Caller { id, module } = caller;
        self.callers.insert(id, module);
    }

    pub(crate) fn finish(self) -> Host {
        let Self {
            functions: _,
            threads,
            transfers,
            syncs,
            callers,
        } = self;
        let threads = threads.finish();
        Host {
            transfers: transfers.finish(),
            waits: syncs.finish(&callers),
            threads,
        }
    }
}
