//! Maps of a running agent.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use trace::Fact;

use super::map;
use super::supplement::Map;
use crate::memory::Collector;

/// Most maps, those of the most bytes.
const MAPS: usize = 24;

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
        let mut maps: Vec<Map> = collector
            .ledger()
            .live()
            .flat_map(|process| {
                map::of_process(process, now, None, |_| true, |id| callers.get(&id).cloned())
            })
            .collect();
        maps.sort_by_key(|map| Reverse(map.bytes()));
        let surplus = maps.split_off(MAPS.min(maps.len())).len();
        Self {
            schema: "cudasnoop.map/1",
            at_ns: now,
            maps,
            maps_left_out: surplus as u64,
        }
    }
}
