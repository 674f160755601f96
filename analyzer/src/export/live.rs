//! Live device memory, row by row.

use std::collections::{BTreeMap, BTreeSet};

use agent_common::ApiId;
use ledger::{Ledger, concerns_memory};
use trace::EventBatch;

/// What the processes hold while rows go by.
#[derive(Debug, Default)]
pub(super) struct Live {
    ledger: Ledger,
    /// By process and device: what was live after the last row that changed it, bytes.
    bytes: BTreeMap<(u32, Option<i32>), u64>,
    /// What was not taken yet.
    changed: BTreeSet<(u32, Option<i32>)>,
    of_last_row: Option<u64>,
}

/// Live device memory of a process on a device has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) device: Option<i32>,
    pub(super) bytes: u64,
}

impl Live {
    pub(super) fn apply(&mut self, batch: &EventBatch, index: usize) {
        let api = batch.api().get(index).and_then(ApiId::api);
        let concerns_memory = api.is_none_or(|api| concerns_memory(api.effect));
        self.of_last_row = None;
        if !concerns_memory {
            return;
        }
        self.ledger.apply(&batch.event(index));
        let pid = batch.pid()[index];
        let of_pid = (pid, None)..=(pid, Some(i32::MAX));
        let mut now: Vec<((u32, Option<i32>), u64)> = Vec::new();
        if let Some(process) = self.ledger.process(pid) {
            let devices = process.devices().iter();
            now.extend(devices.map(|(device, state)| ((pid, *device), state.live().bytes)));
            if api.is_some() {
                self.of_last_row = Some(now.iter().map(|(_, bytes)| bytes).sum());
            }
        } else {
            now.extend(self.bytes.range(of_pid).map(|(key, _)| (*key, 0)));
        }
        for (key, bytes) in now {
            if self.bytes.insert(key, bytes).unwrap_or(0) != bytes {
                self.changed.insert(key);
            }
        }
    }

    /// Live bytes of the last row's process on all devices; `None` where the row is not about
    /// memory.
    pub(super) const fn of_last_row(&self) -> Option<u64> {
        self.of_last_row
    }

    /// What has changed of a process since this was asked last.
    pub(super) fn take_changes(&mut self, pid: u32) -> Vec<Change> {
        let of_pid = (pid, None)..=(pid, Some(i32::MAX));
        let keys: Vec<_> = self.changed.range(of_pid).copied().collect();
        keys.into_iter()
            .map(|key| {
                self.changed.remove(&key);
                Change {
                    device: key.1,
                    bytes: self.bytes[&key],
                }
            })
            .collect()
    }
}
