//! Messages, snapshots and a recording of a real GPU, of causes that were made on purpose.

use std::fs::File;

use analyzer::oom::{Collector, OutOfMemory, Report, Verdict};
use analyzer::snapshot::{self, Snapshot};
use trace::{Event, Reader};

use crate::fixtures;

/// The process that ran out of memory.
const PID: u32 = 595;

/// Cause and verdict, by the message alone and by more, and what the program asked
/// for, rounded to 512 bytes.
const CASES: [(&str, Verdict, Verdict, u64); 5] = [
    (
        "capacity",
        Verdict::Capacity,
        Verdict::Capacity,
        42_508_746_752,
    ),
    (
        "fragmentation",
        Verdict::Fragmentation,
        Verdict::Fragmentation,
        4_294_967_296,
    ),
    (
        "other_process",
        Verdict::OtherProcess,
        Verdict::OtherProcess,
        4_294_967_296,
    ),
    (
        "pending_free",
        Verdict::Fragmentation,
        Verdict::PendingFree,
        51_006_302_208,
    ),
    ("limit", Verdict::Limit, Verdict::Limit, 10_627_186_688),
];

fn snapshot(cause: &str) -> Snapshot {
    let path = fixtures().join("h100").join(format!("oom-{cause}.pickle"));
    snapshot::read(File::open(path).unwrap()).unwrap()
}

fn recording() -> Vec<Event> {
    let file = File::open(fixtures().join("h100/oom.arrows")).unwrap();
    let batches: Vec<_> = Reader::new(file).unwrap().map(Result::unwrap).collect();
    batches
        .iter()
        .flat_map(|batch| (0..batch.len()).map(|row| batch.event(row)))
        .collect()
}

fn report(cause: Option<&str>, events: &[Event], snapshot: Option<&Snapshot>) -> Report {
    let mut collector = Collector::default();
    if let Some(cause) = cause {
        let path = fixtures().join("h100").join(format!("oom-{cause}.log"));
        collector.log(cause);
        let log = std::fs::read_to_string(path).unwrap();
        log.lines().for_each(|line| collector.line(line));
    }
    for event in events {
        collector.event(event);
    }
    collector.finish(snapshot)
}

fn only(report: Report) -> OutOfMemory {
    let [message] = <[_; 1]>::try_from(report.messages).unwrap();
    message
}

#[test]
fn verdicts_with_and_without_recording_and_snapshot() {
    let events = recording();
    for (cause, by_message, verdict, asked) in CASES {
        let snapshot = snapshot(cause);
        let alone = only(report(Some(cause), &[], None));
        assert_eq!(alone.verdict, by_message, "{cause}");
        assert_eq!((alone.request, alone.largest_free), (None, None));
        for (events, snapshot, sources) in [
            (
                events.as_slice(),
                None,
                &["message", "recording"] as &[&str],
            ),
            (&[], Some(&snapshot), &["message", "snapshot"]),
            (
                events.as_slice(),
                Some(&snapshot),
                &["message", "recording", "snapshot"],
            ),
        ] {
            let message = only(report(Some(cause), events, snapshot));
            assert_eq!(message.verdict, verdict, "{cause} by {sources:?}");
            assert_eq!(message.sources, sources, "{cause}");
            assert_eq!(message.request, Some(asked), "{cause} by {sources:?}");
        }
    }
}

#[test]
fn recording_and_snapshot_agree_on_every_number() {
    let events = recording();
    for (cause, ..) in CASES {
        let snapshot = snapshot(cause);
        let recorded = only(report(Some(cause), &events, None));
        let dumped = only(report(Some(cause), &[], Some(&snapshot)));
        let numbers = |message: &OutOfMemory| {
            [
                message.asked,
                message.free,
                message.allocated,
                message.reserved,
                message.free_in_pool,
                message.largest_free,
                message.short_by,
                message.would_have_fitted,
            ]
        };
        assert_eq!(numbers(&recorded), numbers(&dumped), "{cause}");
        assert!(numbers(&recorded).iter().all(Option::is_some), "{cause}");
    }
}

#[test]
fn verdicts_by_the_recording_alone() {
    let report = report(None, &recording(), None);
    let found: Vec<_> = report
        .messages
        .iter()
        .map(|message| (message.pid, message.verdict, message.request))
        .collect();
    let expected = CASES.map(|(_, _, verdict, asked)| (Some(PID), verdict, Some(asked)));
    assert_eq!(found, expected);
}
