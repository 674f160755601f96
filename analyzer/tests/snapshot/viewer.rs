//! The same numbers as PyTorch's viewer, and what it does not show.

use std::collections::BTreeMap;

use analyzer::snapshot::{Report, write_text};
use analyzer::text::Colour;

use crate::{fixtures, read, report};

const MIB: u64 = 1 << 20;

/// Every snapshot of the folder: its name, without and with the protocol.
fn all() -> Vec<(String, String)> {
    let mut names: Vec<_> = std::fs::read_dir(fixtures().join("snapshot"))
        .unwrap()
        .filter_map(|entry| {
            let file = entry.unwrap().file_name().into_string().unwrap();
            let name = file.strip_suffix(".pickle")?.to_owned();
            let (case, _) = name.rsplit_once('-')?;
            Some((case.to_owned(), name))
        })
        .collect();
    names.sort();
    names
}

#[test]
fn totals_are_those_of_the_viewer() {
    let path = fixtures().join("snapshot/expected.json");
    let expected: BTreeMap<String, BTreeMap<String, u64>> =
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let all = all();
    assert_eq!(all.len(), 17);
    for (case, name) in all {
        let report = report(&name);
        let mut sums = BTreeMap::new();
        for device in &report.devices {
            for (key, value) in [
                ("segments", device.totals.segments),
                ("reserved", device.totals.reserved),
                ("requested", device.totals.requested),
                ("free_external", device.totals.free_external),
                ("free_internal", device.totals.free_internal),
            ] {
                *sums.entry(key.to_owned()).or_insert(0) += value;
            }
        }
        let zeros = expected[&case].keys().map(|key| (key.clone(), 0)).collect();
        let sums = if sums.is_empty() { zeros } else { sums };
        assert_eq!(sums, expected[&case], "{name}");
    }
}

#[test]
fn pools_and_segments_add_up_to_the_device() {
    for (_, name) in all() {
        for device in &report(&name).devices {
            assert_eq!(device.inconsistent_segments, 0, "{name}");
            let of_pools = device.pools.iter().map(|pool| pool.totals.free_external);
            assert_eq!(of_pools.sum::<u64>(), device.totals.free_external, "{name}");
            for segment in &device.segments_by_address {
                let size = segment.allocated + segment.free_external;
                assert_eq!(size, segment.size, "{name}");
                let internal = segment.allocated - segment.requested;
                assert_eq!(internal, segment.free_internal, "{name}");
            }
        }
    }
}

#[test]
fn protocols_and_picklers_are_all_the_same() {
    let json = |name: &str| {
        let mut value = serde_json::to_value(report(name)).unwrap();
        value["file"] = serde_json::Value::Null;
        value
    };
    let expected = json("two-devices-4");
    for name in [
        "two-devices-2",
        "two-devices-3",
        "two-devices-5",
        "two-devices-cpp",
    ] {
        assert_eq!(json(name), expected, "{name}");
    }
    assert_eq!(json("expandable-cpp"), json("expandable-4"));
}

#[test]
fn a_legacy_snapshot_has_the_same_blocks() {
    let places = |name: &str| -> Vec<(u64, u64, u64, &str)> {
        let report = report(name);
        let segments = report.devices[0].segments_by_address.iter();
        segments
            .flat_map(|segment| &segment.blocks)
            .map(|block| (block.address, block.size, block.requested, block.state))
            .filter(|(.., state)| *state != "inactive")
            .collect()
    };
    assert_eq!(places("legacy-1.13-4"), places("plain-4"));
    assert_eq!(
        report("legacy-1.13-4").devices[0].holders[0].frames,
        report("plain-4").devices[0].holders[0].frames
    );
}

#[test]
fn streams_and_private_pools_are_apart() {
    let report = report("two-devices-4");
    let pools: Vec<_> = report.devices[0]
        .pools
        .iter()
        .map(|pool| (pool.pool_id, pool.stream))
        .collect();
    for expected in [((0, 0), 0), ((0, 0), 94_000_000_000_000), ((0, 1), 0)] {
        assert!(pools.contains(&(Some(expected.0), expected.1)), "{pools:?}");
    }
    let ordinals: Vec<_> = report.devices.iter().map(|device| device.device).collect();
    assert_eq!(ordinals, [Some(0), Some(1)]);
}

#[test]
fn pinned_segments_name_who_pins_them() {
    let report = Report::new(&read("pinned-4"), Some(598 * MIB));
    let device = &report.devices[0];
    assert_eq!(device.pinned.segments, 1);
    assert_eq!(
        (device.pinned.reserved, device.pinned.allocated),
        (600 * MIB, 5 * MIB)
    );
    let pinned: Vec<_> = device
        .segments_by_address
        .iter()
        .filter(|segment| segment.pinned)
        .collect();
    let by: Vec<_> = pinned[0]
        .pinned_by
        .iter()
        .map(|holder| (holder.bytes, holder.at.as_deref().unwrap()))
        .collect();
    assert_eq!(
        by,
        [
            (3 * MIB, "layer1.py:19:relu_9"),
            (2 * MIB, "layer0.py:10:linear_0")
        ]
    );
    let fit = device.fit.as_ref().unwrap();
    assert_eq!((fit.pools.len(), fit.pools[0].size), (1, Some(600 * MIB)));
    let fit = Report::new(&read("pinned-4"), Some(601 * MIB));
    let fit = fit.devices[0].fit.clone().unwrap();
    assert!(!fit.pools[0].fits);
    assert_eq!(fit.pools[0].largest_free, 600 * MIB);
}

#[test]
fn a_whole_history_is_complete_and_a_cut_one_says_so() {
    let whole = report("plain-4").devices[0].history.clone().unwrap();
    assert!(whole.complete, "{:?}", whole.incomplete_because);
    assert_eq!((whole.requested_before, whole.reserved_before), (0, 0));
    let cut = report("overflowed-4").devices[0].history.clone().unwrap();
    assert!(!cut.complete);
    assert_eq!(
        (cut.overflowed, cut.max_entries, cut.entries),
        (Some(true), Some(40), 40)
    );
    assert!(cut.unknown_frees > 0 && cut.unexplained_blocks > 0);
    // Both end in the same state, so their curves end alike.
    let last = |history: &analyzer::snapshot::HistoryReport| {
        history
            .curve
            .last()
            .map(|point| (point.requested, point.reserved))
    };
    assert_eq!(last(&cut), last(&whole));
    let text = text(&report("overflowed-4"));
    assert!(text.contains("history incomplete"), "{text}");
    assert!(report("no-history-4").devices[0].history.is_none());
}

#[test]
fn a_retry_that_works_is_seen() {
    let history = report("retry-works-4").devices[0].history.clone().unwrap();
    let oom = &history.out_of_memory[0];
    assert_eq!(
        (
            oom.asked,
            oom.device_free,
            oom.completed_just_before,
            oom.retry_worked
        ),
        (64 * MIB, Some(3 * MIB), 64 * MIB, Some(true))
    );
}

#[test]
fn host_memory_is_apart() {
    let report = report("host-4");
    assert_eq!(report.devices.len(), 1);
    let host = report.host.unwrap();
    assert_eq!(host.device, None);
    assert!(host.totals.reserved > 0);
    assert!(host.history.unwrap().entries > 20);
}

#[test]
fn lines_fit_the_page() {
    for (_, name) in all() {
        for line in text(&report(&name)).lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
    }
}

/// Every key of a JSON value, at any depth.
fn keys(value: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                found.insert(key.clone());
                keys(value, found);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn the_docs_name_every_key() {
    let path = fixtures().join("../../../docs/snapshot.md");
    let docs = std::fs::read_to_string(path).unwrap();
    let mut found = std::collections::BTreeSet::new();
    for name in ["host-4", "pinned-4", "overflowed-4"] {
        let report = Report::new(&read(name), Some(MIB));
        keys(&serde_json::to_value(&report).unwrap(), &mut found);
    }
    assert!(found.len() > 70, "{found:?}");
    for key in found {
        assert!(
            docs.contains(&format!("`{key}`")) || docs.contains(&format!("`{key}[]`")),
            "{key}"
        );
    }
}

#[test]
fn the_report_of_a_small_snapshot() {
    let report = Report::new(&read("pinned-4"), Some(500 * MIB));
    let path = fixtures().join("../golden/snapshot.txt");
    let text = text(&report);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(
        text,
        std::fs::read_to_string(path).unwrap(),
        "UPDATE_GOLDEN=1 rewrites it"
    );
}

fn text(report: &Report) -> String {
    let mut output = Vec::new();
    write_text(report, Colour::Off, &mut output).unwrap();
    String::from_utf8(output).unwrap()
}
