//! Durations and errors, over all processes.

use agent_common::{APIS, Api, ApiId, Layer};
use rustc_hash::FxHashMap;

use super::{
    histogram::{DURATION, Histogram},
    limits::{Budget, ERRORS, OTHER, TIMED},
    sampled::Estimates,
};

pub(super) type Durations = Histogram<{ DURATION.len() }>;

/// Durations and errors of calls.
#[derive(Debug)]
pub(super) struct CallBooks {
    /// What is estimated, and counted apart.
    pub(super) estimates: Estimates,
    durations: Vec<Timed>,
    timed: Budget,
    /// Of functions without durations of their own, those that are estimated apart, by layer.
    others: [[Durations; 3]; 2],
    /// By function and code.
    errors: FxHashMap<(u16, i32), u64>,
    failed: Budget,
    /// Errors without a series of their own, likewise.
    other_errors: [[u64; 3]; 2],
}

#[derive(Clone, Debug)]
enum Timed {
    None,
    Own(Box<Durations>),
    Elsewhere,
}

impl CallBooks {
    pub(super) fn new(estimates: Estimates) -> Self {
        Self {
            estimates,
            durations: vec![Timed::None; APIS.len()],
            timed: Budget::new(TIMED),
            others: [const { [const { Histogram::new(&DURATION) }; 3] }; 2],
            errors: FxHashMap::default(),
            failed: Budget::new(ERRORS),
            other_errors: [[0; 3]; 2],
        }
    }

    #[inline]
    pub(super) fn took(&mut self, id: ApiId, api: &Api, ns: u64) {
        if let Some(durations) = self.durations_of(id, api) {
            durations.add(ns);
        }
    }

    /// Calls of one function, each of which stands for `weight`.
    pub(super) fn took_all(&mut self, id: ApiId, api: &Api, all: &Durations, weight: f64) {
        if let Some(durations) = self.durations_of(id, api) {
            durations.merge(all, weight);
        }
    }

    #[inline]
    fn durations_of(&mut self, id: ApiId, api: &Api) -> Option<&mut Durations> {
        let durations = self.durations.get_mut(usize::from(id.0))?;
        if matches!(durations, Timed::None) {
            *durations = if self.timed.claim() {
                Timed::Own(Box::new(Histogram::new(&DURATION)))
            } else {
                Timed::Elsewhere
            };
        }
        match durations {
            Timed::Own(durations) => Some(durations),
            Timed::None | Timed::Elsewhere => {
                let others = &mut self.others[usize::from(self.estimates.has(api))];
                Some(&mut others[api.layer as usize])
            }
        }
    }

    pub(super) fn failed(&mut self, id: ApiId, api: &Api, code: i32, more: u64) {
        let key = (id.0, code);
        if let Some(count) = self.errors.get_mut(&key) {
            *count += more;
        } else if self.failed.claim() {
            self.errors.insert(key, more);
        } else {
            let others = &mut self.other_errors[usize::from(self.estimates.has(api))];
            others[api.layer as usize] += more;
        }
    }

    /// Function, library, whether it is estimated, durations.
    pub(super) fn durations(
        &self,
    ) -> impl Iterator<Item = (&'static str, Layer, bool, &Durations)> {
        let own = APIS.iter().zip(&self.durations);
        let own = own.filter_map(|(api, timed)| match timed {
            Timed::Own(durations) => {
                Some((api.name, api.layer, self.estimates.has(api), &**durations))
            }
            Timed::None | Timed::Elsewhere => None,
        });
        let refused = self.timed.refused > 0;
        let others = [false, true].into_iter().zip(&self.others);
        let others = others.flat_map(|(estimated, others)| {
            let layers = LAYERS.into_iter().zip(others);
            layers.map(move |(layer, durations)| (OTHER, layer, estimated, durations))
        });
        own.chain(others.filter(move |(_, _, _, durations)| refused && !durations.is_empty()))
    }

    /// Function, library, whether it is estimated, code, count; no code for the others.
    pub(super) fn errors(
        &self,
    ) -> impl Iterator<Item = (&'static str, Layer, bool, Option<i32>, u64)> {
        let own = self.errors.iter().filter_map(|((api, code), count)| {
            let api = ApiId(*api).api()?;
            Some((
                api.name,
                api.layer,
                self.estimates.has(api),
                Some(*code),
                *count,
            ))
        });
        let others = [false, true].into_iter().zip(self.other_errors);
        let others = others.flat_map(|(estimated, counts)| {
            let layers = LAYERS.into_iter().zip(counts);
            layers.map(move |(layer, count)| (OTHER, layer, estimated, None, count))
        });
        own.chain(others.filter(|(_, _, _, _, count)| *count > 0))
    }

    /// Series that could not be had.
    pub(super) const fn refused(&self) -> u64 {
        self.timed.refused + self.failed.refused
    }
}

/// By discriminant.
pub(super) const LAYERS: [Layer; 3] = [Layer::Runtime, Layer::Driver, Layer::Torch];
