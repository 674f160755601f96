//! Memory pools: allocation in stream order.
//!
//! A pool takes memory from its device in pieces of 32 MiB, aligned to their size: those that
//! its live blocks touch are held. (Measured on an H200 with driver 580: with a release
//! threshold of 0, after a synchronization, `cudaMemPoolAttrReservedMemCurrent` is just that.)
//! What a pool keeps beyond, no call tells: it is part of what is unattributed.

use serde::{Deserialize, Serialize};

use crate::{Tally, serial, vmm::Place};

/// A memory pool that the program named, made or opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryPool {
    #[serde(with = "serial::hex")]
    pub(crate) handle: u64,
    pub(crate) place: Place,
    pub(crate) device: Option<i32>,
    /// How many unused bytes it may keep, where the program set it.
    pub release_threshold: Option<u64>,
    /// How often it was made to give unused memory back.
    pub trims: u64,
    /// Live blocks that were allocated from it by name.
    pub live: Tally,
}

impl MemoryPool {
    pub(crate) const fn new(handle: u64, place: Place, device: Option<i32>) -> Self {
        Self {
            handle,
            place,
            device,
            release_threshold: None,
            trims: 0,
            live: Tally { count: 0, bytes: 0 },
        }
    }

    /// Its handle.
    pub const fn handle(&self) -> u64 {
        self.handle
    }

    /// Ordinal of the device that its memory is on; `None` where not known, or on the host.
    pub const fn device(&self) -> Option<i32> {
        self.device
    }
}
