//! Which probes are on, and what they cost.

use std::collections::BTreeMap;

use super::limits::{LIBRARIES, OTHER, TITLE, label};
use crate::{
    budget::{Prices, Standing},
    serve::metrics::{Metric, Samples},
    session::ProbeStatus,
};

/// Adds what control last said.
#[expect(clippy::cast_precision_loss, reason = "a metric is a double")]
pub(super) fn collect(status: &ProbeStatus, samples: &mut Samples) {
    let mut libraries: BTreeMap<String, usize> = BTreeMap::new();
    for (file, probes) in status.attached() {
        let file = label(&file, TITLE);
        let has_place = libraries.len() < LIBRARIES || libraries.contains_key(&file);
        let file = if has_place { file } else { OTHER.to_owned() };
        *libraries.entry(file).or_default() += probes;
    }
    for (library, probes) in libraries {
        samples.number(Metric::ProbesAttached, vec![library.into()], probes as f64);
    }
    samples.number(Metric::IdleProcesses, vec![], status.idle() as f64);
    if let Some(Standing {
        budget,
        overhead,
        window,
        prices: Prices { entry, at_return },
    }) = status.budget()
    {
        samples.number(Metric::OverheadBudget, vec![], budget);
        samples.number(Metric::Overhead, vec![], overhead);
        samples.number(Metric::Window, vec![], window);
        for (probe, ns) in [("entry", entry), ("return", at_return)] {
            samples.number(Metric::ProbeCost, vec![probe.into()], ns / 1e9);
        }
    }
}
