//! What the page of a snapshot shows beyond its report: the map, with who holds each block.

use std::collections::BTreeMap;

use ledger::MemoryKind;

use super::map::{Holders, largest, live_bytes};
use super::supplement::{Bar, Cell, Inside, Map, SCHEMA, Supplement, Whose};
use crate::snapshot::{Segment, Snapshot, State, frame_outside_torch};

/// The map of each device, and of host memory.
pub(crate) fn supplement(snapshot: &Snapshot) -> Supplement {
    let mut devices: BTreeMap<i64, Vec<&Segment>> = BTreeMap::new();
    for segment in &snapshot.segments {
        devices.entry(segment.device).or_default().push(segment);
    }
    let of_devices = devices.into_iter().map(|(ordinal, segments)| {
        let device = i32::try_from(ordinal).ok();
        map(snapshot, &segments, device, MemoryKind::Device)
    });
    let of_host = snapshot.host_segments.iter().map(|segments| {
        let segments: Vec<&Segment> = segments.iter().collect();
        map(snapshot, &segments, None, MemoryKind::PinnedHost)
    });
    Supplement {
        schema: SCHEMA,
        start_ns: None,
        end_ns: None,
        live: false,
        cuts: Vec::new(),
        notes: Vec::new(),
        curves: Vec::new(),
        curves_left_out: 0,
        maps: of_devices
            .chain(of_host)
            .filter(|map| !map.bars.is_empty())
            .collect(),
        maps_left_out: 0,
        marks: Vec::new(),
        marks_left_out: 0,
        gaps: 0,
        hist: None,
        threads: None,
    }
}

fn map(snapshot: &Snapshot, segments: &[&Segment], device: Option<i32>, kind: MemoryKind) -> Map {
    let mut holders = Holders::default();
    let mut bars = Vec::with_capacity(segments.len());
    for segment in segments {
        let mut cells = Vec::new();
        for block in snapshot.blocks_of(segment) {
            let pending = match block.state {
                State::Allocated => 0,
                State::PendingFree => block.size,
                State::Inactive => continue,
            };
            let holder = frame_outside_torch(&snapshot.names, block.stack);
            cells.push(Cell {
                offset: block.address.saturating_sub(segment.address),
                size: block.size,
                live: block.size,
                blocks: 1,
                pending,
                age_ns: None,
                holder: holder.and_then(|name| holders.place(name)),
            });
        }
        let holder = frame_outside_torch(&snapshot.names, segment.stack);
        bars.push(Bar {
            address: Some(segment.address),
            size: Some(segment.size),
            kind: kind.name(),
            api: None,
            holder: holder.and_then(|name| holders.place(name)),
            age_ns: None,
            segment: Some(Inside {
                pool: segment
                    .is_small
                    .map(|is_small| if is_small { "small" } else { "large" }),
                expandable: segment.is_expandable,
                allocated: live_bytes(&cells),
                blocks: cells.len() as u64,
                cells,
            }),
        });
    }
    let (bars, rest) = largest(bars);
    Map {
        whose: Whose {
            pid: None,
            incarnation: 0,
            name: None,
            device,
        },
        at_ns: None,
        ended: None,
        holders: holders.into_names(),
        bars,
        rest,
    }
}
