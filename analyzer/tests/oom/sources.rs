//! With a recording, and with a snapshot.

use analyzer::oom::{Collector, Report, Verdict};
use analyzer::snapshot::{self, Snapshot};
use trace::Event;

use crate::fixtures;
use crate::oracle::{Gpu, MIB, PID, Recorder, Torch, introduction};

fn snapshot(name: &str) -> Snapshot {
    let path = fixtures().join("snapshot").join(format!("{name}.pickle"));
    snapshot::read(std::fs::File::open(path).unwrap()).unwrap()
}

fn report(log: Option<&str>, events: &[Event], snapshot: Option<&Snapshot>) -> Report {
    let mut collector = Collector::default();
    if let Some(log) = log {
        collector.log("test");
        log.lines().for_each(|line| collector.line(line));
    }
    for event in events {
        collector.event(event);
    }
    collector.finish(snapshot)
}

/// PyTorch's message in the wording of 2.11, sizes in MiB.
fn message(asked: u64, total: u64, free: u64, allocated: u64, unallocated: u64) -> String {
    format!(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}.00 MiB. GPU 0 has \
         a total capacity of {total}.00 MiB of which {free}.00 MiB is free. Of the allocated \
         memory {allocated}.00 MiB is allocated by PyTorch, and {unallocated}.00 MiB is reserved \
         by PyTorch but unallocated. If reserved but unallocated memory is large try setting \
         PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    )
}

/// A device of 320 MiB on which `fill` runs; then a request of `asked` MiB fails.
fn failing(
    asked: u64,
    fill: impl FnOnce(&mut Gpu, &mut Torch, &mut Recorder),
) -> (Vec<Event>, String) {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    let (mut gpu, mut torch) = (Gpu::new(0, 320 * MIB), Torch::default());
    fill(&mut gpu, &mut torch, &mut recorder);
    assert_eq!(torch.malloc(&mut gpu, &mut recorder, 7, asked * MIB), None);
    let (allocated, reserved) = torch.totals();
    let log = message(
        asked,
        320,
        gpu.free_bytes() / MIB,
        allocated / MIB,
        (reserved - allocated) / MIB,
    );
    (recorder.events, log)
}

/// The verdict of the log alone, of both, and of the recording alone.
fn all_three(events: &[Event], log: &str) -> [Verdict; 3] {
    let verdict = |report: Report, source: &str| {
        assert_eq!(report.messages.len(), 1);
        let message = &report.messages[0];
        assert!(message.sources.contains(&source), "{message:?}");
        message.verdict
    };
    [
        verdict(report(Some(log), &[], None), "message"),
        verdict(report(Some(log), events, None), "recording"),
        verdict(report(None, events, None), "recording"),
    ]
}

#[test]
fn capacity_by_all_sources() {
    let (events, log) = failing(100, |gpu, torch, recorder| {
        for _ in 0..5 {
            torch.malloc(gpu, recorder, 7, 60 * MIB).unwrap();
        }
    });
    assert_eq!(all_three(&events, &log), [Verdict::Capacity; 3]);
    let report = report(None, &events, None);
    let message = &report.messages[0];
    assert_eq!((message.pid, message.device), (Some(PID), Some(0)));
    assert_eq!(
        (message.free, message.short_by),
        (Some(20 * MIB), Some(80 * MIB))
    );
    assert_eq!(message.would_have_fitted, Some(20 * MIB));
    assert_eq!(message.rounding, 0);
}

#[test]
fn fragmentation_by_all_sources() {
    let (events, log) = failing(100, |gpu, torch, recorder| {
        for _ in 0..5 {
            let large = torch.malloc(gpu, recorder, 7, 60 * MIB).unwrap();
            torch.free(gpu, recorder, 7, large);
            torch.malloc(gpu, recorder, 7, 2 * MIB).unwrap();
            torch.malloc(gpu, recorder, 7, 58 * MIB).unwrap();
        }
        let fillers: Vec<u64> = torch
            .active()
            .into_iter()
            .filter(|(_, size)| *size == 58 * MIB)
            .map(|(address, _)| address)
            .collect();
        for filler in fillers {
            torch.free(gpu, recorder, 7, filler);
        }
    });
    assert_eq!(all_three(&events, &log), [Verdict::Fragmentation; 3]);
    let message = &report(Some(&log), &events, None).messages[0];
    assert_eq!(message.largest_free, Some(58 * MIB));
    assert_eq!(message.free_in_pool, Some(290 * MIB));
    assert_eq!(message.would_have_fitted, Some(58 * MIB));
}

#[test]
fn another_process_by_all_sources() {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    let total = 80_000 * MIB;
    recorder.alloc(7, 0, 100 * MIB, Some(0x7f00_0000_0000));
    recorder.report(
        7,
        0,
        0x7f00_0000_0000,
        (100 * MIB).cast_signed(),
        (100 * MIB, 100 * MIB),
    );
    recorder.alloc(7, 0, 4000 * MIB, None);
    recorder.memory_info(7, 0, 500 * MIB, total);
    recorder.out_of_memory(7, 0, 4000 * MIB, (100 * MIB, 100 * MIB));
    let log = message(4000, 80_000, 500, 100, 0);
    assert_eq!(
        all_three(&recorder.events, &log),
        [Verdict::OtherProcess; 3]
    );
}

#[test]
fn a_limit_by_the_recording_alone() {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    recorder.alloc(7, 0, 100 * MIB, Some(0x7f00_0000_0000));
    recorder.report(
        7,
        0,
        0x7f00_0000_0000,
        (100 * MIB).cast_signed(),
        (100 * MIB, 100 * MIB),
    );
    recorder.memory_info(7, 0, 70_000 * MIB, 80_000 * MIB);
    recorder.out_of_memory(7, 0, 4000 * MIB, (100 * MIB, 100 * MIB));
    assert_eq!(
        report(None, &recorder.events, None).messages[0].verdict,
        Verdict::Limit
    );
}

#[test]
fn a_retry_that_works_by_the_recording() {
    let (mut recorder, mut gpu) = (Recorder::default(), Gpu::new(0, 320 * MIB));
    let mut torch = Torch::default();
    recorder.fact(&introduction(true));
    torch.malloc(&mut gpu, &mut recorder, 7, 60 * MIB).unwrap();
    let freed = torch.malloc(&mut gpu, &mut recorder, 7, 30 * MIB).unwrap();
    torch.free(&gpu, &mut recorder, 7, freed);
    recorder.memory_info(8, 0, 2 * MIB, 320 * MIB);
    recorder.out_of_memory(8, 0, 30 * MIB, torch.totals());
    torch.malloc(&mut gpu, &mut recorder, 8, 30 * MIB).unwrap();
    let report = report(None, &recorder.events, None);
    assert_eq!(report.messages[0].verdict, Verdict::PendingFree);
    assert_eq!(report.messages[0].retry_worked, Some(true));
}

#[test]
fn a_retry_that_works_by_the_snapshot() {
    let snapshot = snapshot("retry-works-4");
    // By the numbers of the message alone the block that was free is a fragment.
    let log = message(64, 320, 3, 0, 64);
    assert_eq!(
        report(Some(&log), &[], None).messages[0].verdict,
        Verdict::Fragmentation
    );
    let with = report(Some(&log), &[], Some(&snapshot));
    assert_eq!(with.messages[0].verdict, Verdict::PendingFree);
    assert_eq!(with.messages[0].sources, ["message", "snapshot"]);
    assert_eq!(with.messages[0].request, Some(64 * MIB));
    let alone = report(None, &[], Some(&snapshot));
    assert_eq!(alone.messages[0].verdict, Verdict::PendingFree);
}

#[test]
fn a_snapshot_shows_the_largest_free_block() {
    let snapshot = snapshot("pinned-4");
    let log = message(610, 1300, 7, 5, 1195);
    let report = report(Some(&log), &[], Some(&snapshot));
    let message = &report.messages[0];
    assert_eq!(message.verdict, Verdict::Fragmentation);
    assert_eq!(message.sources, ["message", "snapshot"]);
    assert_eq!(message.largest_free, Some(600 * MIB));
    assert_eq!(message.would_have_fitted, Some(600 * MIB));
}

#[test]
fn a_snapshot_of_another_moment_is_not_used() {
    let snapshot = snapshot("plain-4");
    let log = message(610, 1300, 7, 5, 1195);
    let report = report(Some(&log), &[], Some(&snapshot));
    assert_eq!(report.messages[0].sources, ["message"]);
    assert_eq!(report.messages[0].largest_free, None);
}
