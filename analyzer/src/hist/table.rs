//! The histograms, by quantity and group.

use std::collections::BTreeMap;

use super::Measured;
use super::group::{By, Group, Key, Names};
use super::quantity::Quantity;
use crate::histogram::{Histogram, Precision};
use crate::report::{Capped, Sampled};

/// Most groups that are told apart in each quantity.
const GROUPS: usize = 4096;

/// What is counted.
#[derive(Debug)]
pub(super) struct Table {
    precision: Precision,
    /// By place in [`Quantity::ALL`]; `None`: not asked for.
    quantities: Vec<Option<Capped<Key, Histogram>>>,
}

impl Table {
    /// For the quantities in `of`, or all where that is empty.
    pub(super) fn new(by: Option<By>, of: &[Quantity]) -> Self {
        let is_asked = |quantity: &Quantity| of.is_empty() || of.contains(quantity);
        let quantities = Quantity::ALL.iter();
        Self {
            precision: match by {
                None | Some(By::Api | By::Process | By::Device) => Precision::Fine,
                // There may be thousands.
                Some(By::Caller | By::Kernel) => Precision::Coarse,
            },
            quantities: quantities
                .map(|quantity| is_asked(quantity).then(|| Capped::new(GROUPS)))
                .collect(),
        }
    }

    pub(super) fn count(&mut self, quantity: Quantity, key: Key, value: u64) {
        if let Some(groups) = &mut self.quantities[quantity as usize] {
            let precision = self.precision;
            groups
                .entry(key, || Histogram::new(precision))
                .record(value);
        }
    }

    /// All that have a value, by quantity, the most values first.
    pub(super) fn finish(self, names: &Names, sampled: Option<&Sampled>) -> Vec<Measured> {
        let mut all = Vec::new();
        for (quantity, groups) in Quantity::ALL.into_iter().zip(self.quantities) {
            // Ids that stand for one thing are one group.
            let mut merged: BTreeMap<Option<Group>, Histogram> = BTreeMap::new();
            for (key, histogram) in groups.into_iter().flat_map(Capped::into_sorted) {
                let group = match key {
                    Some(key) => names.group(key),
                    None => Some(Group::Others { others: true }),
                };
                merged
                    .entry(group)
                    .or_insert_with(|| Histogram::new(self.precision))
                    .merge(&histogram);
            }
            let mut of_quantity: Vec<Measured> = merged
                .into_iter()
                .filter_map(|(group, histogram)| Measured::new(quantity, group, sampled, histogram))
                .collect();
            of_quantity.sort_by_key(|measured| std::cmp::Reverse(measured.distribution.count));
            all.append(&mut of_quantity);
        }
        all
    }
}
