//! How a rolling recording does.

use std::{collections::BTreeMap, sync::Arc};

use super::{Metric, Samples};
use crate::sink::Monitor;

/// Adds what lies on the disk, by the last of the recordings that were made so far, and what all
/// of them could not write.
pub(in crate::serve) fn collect(recordings: &[Arc<Monitor>], samples: &mut Samples) {
    let statuses: Vec<_> = recordings.iter().map(|one| one.status()).collect();
    let Some(last) = statuses.last() else {
        return;
    };
    samples.count(Metric::RecordingWriting, vec![], last.is_writing.into());
    samples.count(Metric::RecordingBytes, vec![], last.bytes);
    samples.count(Metric::RecordingBudget, vec![], last.budget_bytes);
    let mut unwritten: BTreeMap<String, u64> = BTreeMap::new();
    for (cause, events) in statuses.iter().flat_map(|status| &status.unwritten) {
        *unwritten.entry(cause.to_string()).or_default() += events;
    }
    for (cause, events) in unwritten {
        samples.count(Metric::RecordingUnwritten, vec![cause.into()], events);
    }
}
