//! Contexts: whose end frees what.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::serial;

/// Deepest stack of contexts of a thread that is kept.
const MAX_STACK: usize = 64;

/// A process's contexts. Stacks are kept only once the program has made a context of its own:
/// before, there is one a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Contexts {
    /// Those that the program made.
    made: BTreeSet<u64>,
    /// Each thread's, the current one last; `None` is a primary one.
    #[serde(with = "serial::entries")]
    stacks: BTreeMap<u32, Vec<Option<u64>>>,
    /// References to each device's primary context.
    #[serde(with = "serial::entries")]
    retained: BTreeMap<i32, u64>,
}

impl Contexts {
    pub(crate) fn len(&self) -> usize {
        self.made.len() + self.stacks.len() + self.retained.len()
    }

    /// The context that a thread works in, if the program made it.
    pub(crate) fn current(&self, tid: u32) -> Option<u64> {
        *self.stacks.get(&tid)?.last()?
    }

    pub(crate) fn created(&mut self, tid: u32, context: u64) {
        self.made.insert(context);
        self.push(tid, Some(context));
    }

    pub(crate) fn push(&mut self, tid: u32, context: Option<u64>) {
        if self.made.is_empty() {
            return;
        }
        let context = context.filter(|context| self.made.contains(context));
        let stack = self.stacks.entry(tid).or_default();
        if stack.len() < MAX_STACK {
            stack.push(context);
        }
    }

    pub(crate) fn pop(&mut self, tid: u32) {
        if let Some(stack) = self.stacks.get_mut(&tid) {
            stack.pop();
            if stack.is_empty() {
                self.stacks.remove(&tid);
            }
        }
    }

    pub(crate) fn select(&mut self, tid: u32, context: Option<u64>) {
        if !self.made.is_empty() {
            self.pop(tid);
            if context != Some(0) {
                self.push(tid, context);
            }
        }
    }

    /// Whether the program had made it.
    pub(crate) fn destroyed(&mut self, context: u64) -> bool {
        for stack in self.stacks.values_mut() {
            stack.retain(|on| *on != Some(context));
        }
        self.stacks.retain(|_, stack| !stack.is_empty());
        self.made.remove(&context)
    }

    pub(crate) fn retain_primary(&mut self, device: i32) {
        let references = self.retained.entry(device).or_default();
        *references = references.saturating_add(1);
    }

    /// Whether that was the last reference.
    pub(crate) fn release_primary(&mut self, device: i32) -> bool {
        let Some(references) = self.retained.get_mut(&device) else {
            return false;
        };
        *references = references.saturating_sub(1);
        if *references > 0 {
            return false;
        }
        self.retained.remove(&device);
        true
    }

    /// A primary context ended, whatever referred to it.
    pub(crate) fn reset_primary(&mut self, device: i32) {
        self.retained.remove(&device);
    }
}
