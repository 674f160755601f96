//! Waits by who makes them.

use std::collections::BTreeMap;

use agent_common::ApiId;
use serde::Serialize;

use super::AT_ONCE_NS;
use crate::histogram::{Histogram, Precision};
use crate::report::Durations;
use crate::report::capped::Capped;
use crate::report::row::Row;

/// Most call sites of threads that are told apart.
const ROWS: usize = 4096;

/// Waits of one thread through one function, from one file.
#[derive(Clone, Debug, Serialize)]
pub struct Waiting {
    /// Process id; `None`: all beyond the first 4,096 call sites of threads.
    pub pid: Option<u32>,
    /// Thread id.
    pub tid: Option<u32>,
    /// The function.
    pub api: Option<&'static str>,
    /// File of the code that called; `None` where unknown.
    pub caller: Option<String>,
    /// How many.
    pub waits: u64,
    /// Of them, those that took at most 50 µs.
    pub at_once: u64,
    /// Time in them, ns.
    pub duration_ns: Option<Durations>,
}

type Key = (u32, u32, ApiId, Option<u32>);

#[derive(Debug)]
struct Sums {
    waits: u64,
    at_once: u64,
    durations: Histogram,
}

impl Sums {
    fn new() -> Self {
        Self {
            waits: 0,
            at_once: 0,
            durations: Histogram::new(Precision::Coarse),
        }
    }

    fn merge(&mut self, other: &Self) {
        let Self {
            waits,
            at_once,
            durations,
        } = other;
        self.waits += waits;
        self.at_once += at_once;
        self.durations.merge(durations);
    }
}

/// All waits.
#[derive(Debug)]
pub(super) struct Table(Capped<Key, Sums>);

impl Table {
    pub(super) fn new() -> Self {
        Self(Capped::new(ROWS))
    }

    pub(super) fn wait(&mut self, id: ApiId, row: &Row<'_>) {
        let key = (row.pid(), row.tid(), id, row.caller());
        let sums = self.0.entry(key, Sums::new);
        sums.waits += 1;
        if let Some(duration) = row.duration() {
            sums.at_once += u64::from(duration <= AT_ONCE_NS);
            sums.durations.record(duration);
        }
    }

    /// Call sites of one file are one row.
    pub(super) fn finish(self, callers: &BTreeMap<u32, Option<String>>) -> Vec<Waiting> {
        let mut merged = BTreeMap::new();
        for (key, sums) in self.0.into_sorted() {
            let file = key.and_then(|(.., caller)| callers.get(&caller?)?.as_deref());
            let whose = key.map(|(pid, tid, id, _)| (pid, tid, id));
            merged
                .entry((whose, file))
                .or_insert_with(Sums::new)
                .merge(&sums);
        }
        let mut rows: Vec<Waiting> = merged
            .into_iter()
            .map(|((whose, file), sums)| Waiting {
                pid: whose.map(|(pid, ..)| pid),
                tid: whose.map(|(_, tid, _)| tid),
                api: whose.and_then(|(.., id)| Some(id.api()?.name)),
                caller: file.map(str::to_owned),
                waits: sums.waits,
                at_once: sums.at_once,
                duration_ns: Durations::of(&sums.durations),
            })
            .collect();
        rows.sort_by_key(|row| {
            std::cmp::Reverse((row.duration_ns.map_or(0, |ns| ns.total), row.waits))
        });
        rows
    }
}
