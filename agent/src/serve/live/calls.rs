//! Durations and errors, over all processes.

use agent_common::{APIS, Api, ApiId, Layer};
use rustc_hash::FxHashMap;

use super::{
    histogram::{DURATION, Histogram},
    limits::{Budget, ERRORS, OTHER, TIMED},
};

type Durations = Histogram<{ DURATION.len() }>;

/// Durations and errors of calls.
#[derive(Debug)]
pub(super) struct CallBooks {
    durations: Vec<Timed>,
    timed: Budget,
    /// Of functions without durations of their own, by layer.
    others: [Durations; 3],
    /// By function and code.
    errors: FxHashMap<(u16, i32), u64>,
    failed: Budget,
    /// Errors without a series of their own, by layer.
    other_errors: [u64; 3],
}

#[derive(Clone, Debug)]
enum Timed {
    None,
    Own(Box<Durations>),
    Elsewhere,
}

impl CallBooks {
    pub(super) fn new() -> Self {
        Self {
            durations: vec![Timed::None; APIS.len()],
            timed: Budget::new(TIMED),
            others: [const { Histogram::new(&DURATION) }; 3],
            errors: FxHashMap::default(),
            failed: Budget::new(ERRORS),
            other_errors: [0; 3],
        }
    }

    #[inline]
    pub(super) fn took(&mut self, api: ApiId, layer: Layer, ns: u64) {
        let Some(durations) = self.durations.get_mut(usize::from(api.0)) else {
            return;
        };
        if matches!(durations, Timed::None) {
            *durations = if self.timed.claim() {
                Timed::Own(Box::new(Histogram::new(&DURATION)))
            } else {
                Timed::Elsewhere
            };
        }
        match durations {
            Timed::Own(durations) => durations.add(ns),
            Timed::None | Timed::Elsewhere => self.others[layer as usize].add(ns),
        }
    }

    pub(super) fn failed(&mut self, api: ApiId, layer: Layer, code: i32) {
        let key = (api.0, code);
        if let Some(count) = self.errors.get_mut(&key) {
            *count += 1;
        } else if self.failed.claim() {
            self.errors.insert(key, 1);
        } else {
            self.other_errors[layer as usize] += 1;
        }
    }

    /// Function, library, durations.
    pub(super) fn durations(&self) -> impl Iterator<Item = (&'static str, Layer, &Durations)> {
        let own = APIS.iter().zip(&self.durations);
        let own = own.filter_map(|(api, timed)| match timed {
            Timed::Own(durations) => Some((api.name, api.layer, &**durations)),
            Timed::None | Timed::Elsewhere => None,
        });
        let refused = self.timed.refused > 0;
        let others = LAYERS.into_iter().zip(&self.others);
        let others = others.map(|(layer, durations)| (OTHER, layer, durations));
        own.chain(others.filter(move |_| refused))
    }

    /// Function, library, code, count; no code for the others.
    pub(super) fn errors(&self) -> impl Iterator<Item = (&'static str, Layer, Option<i32>, u64)> {
        let own = self.errors.iter().filter_map(|((api, code), count)| {
            let Api { name, layer, .. } = ApiId(*api).api()?;
            Some((*name, *layer, Some(*code), *count))
        });
        let others = LAYERS.into_iter().zip(self.other_errors);
        let others = others.map(|(layer, count)| (OTHER, layer, None, count));
        own.chain(others.filter(|(_, _, _, count)| *count > 0))
    }

    /// Series that could not be had.
    pub(super) const fn refused(&self) -> u64 {
        self.timed.refused + self.failed.refused
    }
}

/// By discriminant.
pub(super) const LAYERS: [Layer; 3] = [Layer::Runtime, Layer::Driver, Layer::Torch];
