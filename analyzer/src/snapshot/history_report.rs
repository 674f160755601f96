//! From a history to its part of the report.

use crate::text::counted;

use super::history::History;
use super::model::{Segment, Snapshot, State};
use super::report::{CurvePoint, HistoryReport, OutOfMemory, Peak, Totals};
use super::summary::at;

/// What a snapshot says of the ring that a history was kept in.
#[derive(Clone, Copy, Default)]
pub(super) struct Ring {
    pub(super) overflowed: Option<bool>,
    pub(super) max_entries: Option<u64>,
}

/// The report on `history`, of a device with these segments and `totals`.
pub(super) fn of(
    snapshot: &Snapshot,
    segments: &[&Segment],
    history: &History,
    ring: Ring,
    totals: &Totals,
) -> HistoryReport {
    let (mut unexplained_blocks, mut unexplained_bytes) = (0, 0_u64);
    for segment in segments {
        for block in snapshot.blocks_of(segment) {
            if block.state == State::Allocated && !history.knows(block.address) {
                unexplained_blocks += 1;
                unexplained_bytes = unexplained_bytes.saturating_add(block.size);
            }
        }
    }
    let (requested, reserved) = (totals.requested, totals.reserved);
    let (requested_before, reserved_before) = history.before(requested, reserved);
    let (unknown_frees, _) = history.unknown_frees();
    let mut incomplete_because = Vec::new();
    if ring.overflowed == Some(true) {
        incomplete_because.push(
            "older entries were overwritten: raise max_entries of _record_memory_history"
                .to_owned(),
        );
    }
    if unknown_frees > 0 {
        incomplete_because.push(format!(
            "{} of blocks that were handed out before its first entry",
            counted(unknown_frees, "free")
        ));
    }
    if unexplained_blocks > 0 {
        incomplete_because.push(format!(
            "{} handed out before its first entry",
            counted(unexplained_blocks, "live block")
        ));
    }
    if reserved_before > 0 {
        incomplete_because.push("memory was reserved before its first entry".to_owned());
    }
    let [peak_requested, peak_reserved] = history
        .peaks(requested, reserved)
        .map(|peak| peak.map(|(bytes, time_us)| Peak { bytes, time_us }));
    let (first_us, last_us) = history.times_us();
    let (ran_out, out_of_memory_count) = history.ran_out();
    HistoryReport {
        complete: incomplete_because.is_empty(),
        incomplete_because,
        entries: history.entries(),
        max_entries: ring.max_entries,
        overflowed: ring.overflowed,
        allocations: history.allocations(),
        frees: history.frees(),
        unknown_frees,
        unexplained_blocks,
        unexplained_bytes,
        first_us,
        last_us,
        requested_before,
        reserved_before,
        peak_requested,
        peak_reserved,
        out_of_memory_count,
        out_of_memory: ran_out
            .iter()
            .map(|ran_out| OutOfMemory {
                time_us: ran_out.time_us,
                asked: ran_out.asked,
                device_free: ran_out.device_free,
                completed_just_before: ran_out.completed_just_before,
                retry_worked: ran_out.retry_worked,
                at: at(&snapshot.names, ran_out.stack),
            })
            .collect(),
        curve: history
            .curve(requested, reserved)
            .into_iter()
            .map(|point| CurvePoint {
                entries: point.entries,
                time_us: point.time_us,
                requested: point.requested,
                reserved: point.reserved,
            })
            .collect(),
    }
}
