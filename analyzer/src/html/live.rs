//! Maps of a running agent.

use std::collections::BTreeMap;

use serde::Serialize;
use trace::Fact;

use super::map;
use super::supplement::Map;
use crate::memory::Collector;

/// Memory piece by piece, now. The JSON is described in docs/serve.md.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryMap {
    schema: &'static str,
    at_ns: u64,
    maps: Vec<Map>,
    maps_left_out: u64,
}

impl MemoryMap {
    /// Of what a collector knows at `now`, ns of `CLOCK_MONOTONIC`.
    pub fn of(collector: &Collector, now: u64) -> Self {
        let callers: BTreeMap<u32, String> = collector
            .names()
            .filter_map(|(_, fact)| {
                let Fact::Caller(caller) = fact else {
                    return None;
                };
                Some((caller.id, caller.module?))
            })
            .collect();
        let mut maps = Vec::new();
        let mut maps_left_out = 0;
        for process in collector.ledger().live() {
            let caller = |id| callers.get(&id).cloned();
            maps.extend(map::of_process(process, now, None, |_| true, caller));
            maps_left_out += map::keep_largest(&mut maps);
        }
        Self {
            schema: "cudasnoop.map/1",
            at_ns: now,
            maps,
            maps_left_out,
        }
    }
}
