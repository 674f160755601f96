//! Snapshots and a recording of a real GPU.

use std::collections::BTreeMap;
use std::fs::File;

use analyzer::snapshot::{self, Report, Search, Snapshot, State, write_text};
use analyzer::text::Colour;
use trace::{Event, Reader};

use crate::fixtures;

/// The recorded program.
const PID: u32 = 466;
/// Its dumps: blocks handed out, segments, and when each had been made, ns.
const DUMPS: [(&str, u64, u64, u64); 3] = [
    ("two-streams", 7, 6, 36_442_553_331),
    ("history", 7, 6, 41_735_589_876),
    ("after-out-of-memory", 28, 11, 41_969_121_394),
];

fn read(name: &str) -> Snapshot {
    let path = fixtures().join("h100").join(format!("{name}.pickle"));
    snapshot::read(File::open(path).unwrap()).unwrap()
}

fn recording() -> Vec<Event> {
    let file = File::open(fixtures().join("h100/snapshot.arrows")).unwrap();
    let batches: Vec<_> = Reader::new(file).unwrap().map(Result::unwrap).collect();
    batches
        .iter()
        .flat_map(|batch| (0..batch.len()).map(|row| batch.event(row)))
        .collect()
}

#[test]
fn totals_are_those_of_the_viewer() {
    let path = fixtures().join("h100/expected.json");
    let expected: BTreeMap<String, BTreeMap<String, u64>> =
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(expected.len(), 10);
    for (name, expected) in expected {
        let report = Report::new(&read(&name), None);
        let [device] = report.devices.as_slice() else {
            panic!("{name}: {} devices", report.devices.len());
        };
        assert_eq!(device.inconsistent_segments, 0, "{name}");
        let totals = serde_json::to_value(device.totals).unwrap();
        for (key, value) in expected {
            assert_eq!(totals[&key], value, "{name}: {key}");
        }
    }
}

/// `torch.cuda.memory_stats()` right before each dump: `allocated_bytes`, `allocation`,
/// `active_bytes`, `requested_bytes`, `reserved_bytes`, each `.all.current`.
#[test]
fn statistics_are_those_of_the_allocator() {
    for (name, statistics) in [
        (
            "two-streams",
            [34_374_144, 7, 34_374_144, 33_325_057, 385_875_968],
        ),
        (
            "history",
            [34_374_144, 7, 76_317_184, 75_268_097, 385_875_968],
        ),
        (
            "after-out-of-memory",
            [289_179_136, 28, 289_179_136, 283_934_737, 497_025_024],
        ),
        (
            "expandable-graph-pool",
            [283_936_256, 28, 283_936_256, 283_934_737, 530_579_456],
        ),
        (
            "expandable-overflowed",
            [14_614_016, 28, 14_614_016, 14_606_951, 532_676_608],
        ),
    ] {
        let snapshot = read(name);
        let totals = Report::new(&snapshot, None).devices[0].totals;
        // PyTorch counts what was requested until the free is done.
        let pending: u64 = snapshot
            .blocks
            .iter()
            .filter(|block| block.state == State::PendingFree)
            .map(|block| block.requested)
            .sum();
        let found = [
            totals.allocated,
            totals.allocated_blocks,
            totals.allocated + totals.pending_free,
            totals.requested + pending,
            totals.reserved,
        ];
        assert_eq!(found, statistics, "{name}");
    }
}

#[test]
fn every_block_is_that_of_the_recording() {
    let events = recording();
    for (name, blocks, segments, dumped) in DUMPS {
        let mut search = Search::new(&read(name));
        for event in &events {
            search.push(event);
        }
        let mut comparison = search.finish();
        for event in &events {
            comparison.push(event);
        }
        let join = comparison.finish();
        assert!(join.equal, "{name}: {:?}", join.devices);
        let device = &join.devices[0];
        assert_eq!(
            (device.pid, device.blocks_equal, device.segments_equal),
            (Some(PID), blocks, segments),
            "{name}"
        );
        assert!(device.at_ns.unwrap() < dumped, "{name}: {device:?}");
    }
}

#[test]
fn the_holder_is_the_program_and_not_a_frame_of_pytorch() {
    for name in ["after-out-of-memory", "expandable-graph-pool"] {
        let report = Report::new(&read(name), None);
        let holder = &report.devices[0].holders[0];
        assert_eq!(holder.at.as_deref(), Some("snapshot.py:70:take"), "{name}");
    }
    let report = Report::new(&read("after-out-of-memory"), None);
    let history = report.devices[0].history.clone().unwrap();
    // 36 `alloc`, 16 `free_requested` of 80 entries, and one `oom`.
    assert_eq!(
        (history.entries, history.allocations, history.frees),
        (80, 36, 16)
    );
    assert_eq!(
        (
            history.out_of_memory_count,
            history.out_of_memory[0].at.as_deref()
        ),
        (1, Some("snapshot.py:70:take"))
    );
    let mut output = Vec::new();
    write_text(&report, Colour::Off, &mut output).unwrap();
    for line in String::from_utf8(output).unwrap().lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}
