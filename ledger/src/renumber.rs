//! Checkpoints of recordings that are read together: their ids and clocks are made to agree.

use std::collections::BTreeSet;

use serde_json::Value;

/// What ids and times of one recording are among several.
pub trait Renumber {
    /// A process id; 0, which is none, stays.
    fn pid(&mut self, pid: u32) -> u32;

    /// The id of a caller.
    fn caller(&mut self, caller: u32) -> u32;

    /// ns of `CLOCK_MONOTONIC`.
    fn time(&self, time: u64) -> u64;

    /// The processes that the recording has told of, by their new ids: what a checkpoint of it
    /// replaces. Those of other recordings stay.
    fn processes(&self) -> BTreeSet<u32>;

    /// Whether a checkpoint came before: the losses that it tells of are known already.
    fn has_checkpoint(&self) -> bool;
}

impl crate::Ledger {
    /// Renumbers one part of a checkpoint (docs/format.md). What is no part stays as it is: the
    /// ledger refuses it.
    pub fn renumber(part: &mut Value, renumber: &mut impl Renumber) {
        if part.get("part").and_then(Value::as_str) == Some("begin")
            && let Some(begin) = part.as_object_mut()
        {
            let processes = renumber.processes().into_iter().map(Value::from);
            begin.insert("of".to_owned(), processes.collect());
            if renumber.has_checkpoint() {
                let none = serde_json::to_value(crate::Losses::default()).unwrap_or_default();
                begin.insert("losses".to_owned(), none);
                begin.insert("ignored".to_owned(), 0.into());
            }
        }
        walk(part, renumber);
    }
}

/// Keys mean the same wherever they stand: `pid` and `parent` are processes, `timestamp` and
/// `returned` moments.
fn walk(value: &mut Value, renumber: &mut impl Renumber) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
                match (key.as_str(), id, value.as_u64()) {
                    ("pid" | "parent", Some(id), _) => *value = renumber.pid(id).into(),
                    ("caller", Some(id), _) => *value = renumber.caller(id).into(),
                    // At 0 there was nothing: a peak of no bytes.
                    ("timestamp" | "returned", _, Some(time @ 1..)) => {
                        *value = renumber.time(time).into();
                    }
                    (_, _, _) => walk(value, renumber),
                }
            }
        }
        Value::Array(values) => {
            for value in values {
                walk(value, renumber);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
