//! What is said of the recording as a whole, and of the part that was selected.

use serde::Serialize;
use trace::fact::{self, Settings};

use super::{LeftOut, Sampled};
use crate::selection::Selection;

/// The recording as a whole, whatever part of it was selected.
#[derive(Clone, Debug, Serialize)]
pub struct Recording {
    /// Rows of all kinds.
    pub events: u64,
    /// What did not reach the recording.
    pub lost: Lost,
    /// Whether the recording ended as it should.
    pub complete: bool,
    /// Whether it goes on: it is read while it is written.
    pub live: bool,
    /// Whether the file breaks off: it has no end marker.
    pub truncated: bool,
    /// ns from the first row to the last moment that any row tells of.
    pub duration_ns: Option<u64>,
    /// Timestamp of the first row, ns of `CLOCK_MONOTONIC`; 0 in `--from` and `--to`.
    pub start_ns: Option<u64>,
    /// The same moment in UTC, RFC 3339.
    pub started: Option<String>,
    /// How the recorder was set.
    pub settings: Option<Settings>,
    /// Where it stands in a rolling recording, or the first segment of several does; `None`: it is
    /// no segment of one.
    pub segment: Option<Segment>,
    /// Families that were traced in windows alone; `None`: all was traced all the time.
    pub sampled: Option<Sampled>,
    /// What is left out of the report, since there was more of it than is kept; empty: nothing.
    pub left_out: Vec<LeftOut>,
}

/// Where a segment stands in a rolling recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// Its number, from 1.
    pub number: u64,
    /// Events of all segments before it.
    pub events_before: u64,
    /// The number of the last segment, where several were read.
    pub last: u64,
}

impl Segment {
    pub(super) fn of(segment: &fact::Segment) -> Self {
        // The boot tells recorders apart; which facts are left out shows where they are missing.
        let fact::Segment {
            number,
            events_before,
            boot_id: _,
            forgotten_facts: _,
        } = *segment;
        Self {
            number,
            events_before,
            last: number,
        }
    }
}

/// What did not reach the recording, by cause. `None` where the recording does not say: it
/// has no accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Calls whose record found the ring buffer full.
    pub ring_full: Option<u64>,
    /// Begins of frees, and kernel names, that found the ring buffer full.
    pub ring_full_extra: Option<u64>,
    /// Calls that found no place in the pairing map.
    pub pairing_full: Option<u64>,
    /// Probe hits that the kernel did not run a program for.
    pub recursion_miss: Option<u64>,
    /// Events that could not be written before this segment of a rolling recording. What they
    /// did to the memory is in the segment's checkpoint.
    pub unwritten: Option<u64>,
}

impl Lost {
    /// Whether anything was lost; `None` where that is unknown.
    pub fn any(&self) -> Option<bool> {
        let Self {
            ring_full,
            ring_full_extra,
            pairing_full,
            recursion_miss,
            unwritten,
        } = *self;
        let counts = [
            ring_full,
            ring_full_extra,
            pairing_full,
            recursion_miss,
            unwritten,
        ];
        if counts.iter().flatten().any(|count| *count > 0) {
            return Some(true);
        }
        counts.iter().all(Option::is_some).then_some(false)
    }
}

/// The selected part of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Calls entered at this time or later, ns of `CLOCK_MONOTONIC`; `None`: from the start.
    pub from_ns: Option<u64>,
    /// Calls entered before this time; `None`: to the end.
    pub to_ns: Option<u64>,
    /// Only these processes; empty: all.
    pub pids: Vec<u32>,
    /// Only these devices, by ordinal; empty: all.
    pub devices: Vec<i32>,
    /// Only these devices, by UUID; empty: all.
    pub device_uuids: Vec<String>,
}

impl Window {
    /// What `selection` selects, in a recording where that is from `from` to before `to`.
    pub(crate) fn of(selection: Selection, from: u64, to: Option<u64>) -> Self {
        // What UUIDs mean in each process is not what was asked for.
        let Selection {
            from: asked_from,
            to: _,
            pids,
            devices,
            device_uuids,
            places: _,
        } = selection;
        Self {
            from_ns: asked_from.map(|_| from),
            to_ns: to,
            pids,
            devices,
            device_uuids,
        }
    }
}
