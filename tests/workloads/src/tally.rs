//! What one thread did: every call that it made, counted by the caller.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// A CUDA error code.
pub type Code = i32;

/// Calls, bytes and errors by exported symbol.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Calls made, failed ones included.
    pub calls: BTreeMap<&'static str, u64>,
    /// Bytes that successful allocations and copies were asked for.
    pub bytes: BTreeMap<&'static str, u64>,
    /// Failed calls by code.
    pub errors: BTreeMap<&'static str, BTreeMap<Code, u64>>,
}

/// Device memory that a process holds, over all of its threads.
#[derive(Debug, Default)]
pub struct Live {
    now: AtomicU64,
    peak: AtomicU64,
}

impl Tally {
    /// Nothing done yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one call and passes its result on.
    pub fn call(&mut self, symbol: &'static str, code: Code) -> Result<(), Code> {
        self.calls(symbol, 1);
        if code == 0 {
            return Ok(());
        }
        *self
            .errors
            .entry(symbol)
            .or_default()
            .entry(code)
            .or_default() += 1;
        Err(code)
    }

    /// Counts calls that were made without this tally.
    pub fn calls(&mut self, symbol: &'static str, count: u64) {
        *self.calls.entry(symbol).or_default() += count;
    }

    /// Counts the bytes of a successful call.
    pub fn bytes(&mut self, symbol: &'static str, size: u64) {
        *self.bytes.entry(symbol).or_default() += size;
    }

    /// Adds another thread's tally.
    pub fn add(&mut self, other: &Self) {
        let Self {
            calls,
            bytes,
            errors,
        } = other;
        for (symbol, count) in calls {
            self.calls(symbol, *count);
        }
        for (symbol, size) in bytes {
            self.bytes(symbol, *size);
        }
        for (symbol, codes) in errors {
            for (code, count) in codes {
                *self
                    .errors
                    .entry(symbol)
                    .or_default()
                    .entry(*code)
                    .or_default() += count;
            }
        }
    }
}

impl Live {
    /// Notes a block that was just allocated.
    pub fn grow(&self, size: u64) {
        let now = self.now.fetch_add(size, Relaxed) + size;
        self.peak.fetch_max(now, Relaxed);
    }

    /// Notes a block that was just freed.
    pub fn shrink(&self, size: u64) {
        self.now.fetch_sub(size, Relaxed);
    }

    /// Bytes held now.
    pub fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// Most bytes ever held; exact where one thread allocates.
    pub fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }
}
