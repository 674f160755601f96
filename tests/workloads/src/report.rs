//! The one JSON object that a workload prints.

use std::{collections::BTreeMap, io::Write};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    entries::Entries,
    tally::{Live, Tally},
};

/// What a workload did, children included.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The program's name.
    pub workload: String,
    /// `fake` or `real`: which CUDA answered.
    pub cuda: String,
    /// Runtime calls by exported symbol. A call of `__cudaLaunchKernel` is listed there and
    /// under `cudaLaunchKernel`, which it jumps to.
    pub calls: BTreeMap<String, u64>,
    /// Driver calls that the program made itself, by exported symbol.
    pub driver_calls_own: BTreeMap<String, u64>,
    /// What the fake libraries counted at their entries, runtime and driver, the runtime's
    /// calls of the driver included. Empty over a real CUDA.
    pub entries: Entries,
    /// Bytes that successful allocations and copies were asked for, by exported symbol.
    pub bytes: BTreeMap<String, u64>,
    /// Failed calls, by exported symbol and code.
    pub errors: BTreeMap<String, BTreeMap<String, u64>>,
    /// Device memory allocated and not freed, bytes, summed over the processes.
    pub live_bytes: u64,
    /// The most device memory that any one process held, bytes; exact where one thread
    /// allocates.
    pub peak_bytes: u64,
    /// Every process that made calls.
    pub pids: Vec<u32>,
    /// What only this workload says.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Report {
    /// A process without children.
    pub fn new(
        workload: &str,
        is_fake: bool,
        tally: &Tally,
        live: &Live,
        entries: Entries,
    ) -> Self {
        let (driver, runtime): (BTreeMap<_, _>, BTreeMap<_, _>) = tally
            .calls
            .iter()
            .map(|(symbol, count)| ((*symbol).to_owned(), *count))
            .partition(|(symbol, _)| is_driver(symbol));
        let errors = tally.errors.iter().map(|(symbol, codes)| {
            let codes = codes
                .iter()
                .map(|(code, count)| (code.to_string(), *count))
                .collect();
            ((*symbol).to_owned(), codes)
        });
        Self {
            workload: workload.to_owned(),
            cuda: if is_fake { "fake" } else { "real" }.to_owned(),
            calls: runtime,
            driver_calls_own: driver,
            entries,
            bytes: tally
                .bytes
                .iter()
                .map(|(symbol, size)| ((*symbol).to_owned(), *size))
                .collect(),
            errors: errors.collect(),
            live_bytes: live.now(),
            peak_bytes: live.peak(),
            pids: vec![std::process::id()],
            extra: Map::new(),
        }
    }

    /// Adds a child process, or an earlier life of this one. What only that one says is dropped.
    pub fn add(&mut self, other: Self) {
        let Self {
            workload: _,
            cuda: _,
            calls,
            driver_calls_own,
            entries,
            bytes,
            errors,
            live_bytes,
            peak_bytes,
            pids,
            extra: _,
        } = other;
        add_counts(&mut self.calls, calls);
        add_counts(&mut self.driver_calls_own, driver_calls_own);
        add_counts(&mut self.entries, entries);
        add_counts(&mut self.bytes, bytes);
        for (symbol, codes) in errors {
            add_counts(self.errors.entry(symbol).or_default(), codes);
        }
        self.live_bytes += live_bytes;
        self.peak_bytes = self.peak_bytes.max(peak_bytes);
        self.pids.extend(pids);
        self.pids.sort_unstable();
        self.pids.dedup();
    }

    /// Says one more thing.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(key.to_owned(), value.into());
        self
    }

    /// Prints the report as one line on stdout.
    pub fn print(&self) {
        let mut line = serde_json::to_vec(self).expect("a report is plain data");
        line.push(b'\n');
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(&line)
            .and_then(|()| stdout.flush())
            .expect("stdout takes the report");
    }
}

fn add_counts(into: &mut BTreeMap<String, u64>, from: BTreeMap<String, u64>) {
    for (name, count) in from {
        *into.entry(name).or_default() += count;
    }
}

fn is_driver(symbol: &str) -> bool {
    symbol.starts_with("cu") && !symbol.starts_with("cuda")
}
