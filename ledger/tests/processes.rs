//! Processes come, fork, change their program, end, and their ids come back.
#![expect(
    clippy::unwrap_used,
    reason = "a test panics where its ground gives way"
)]

mod oracle;

use ledger::{EndCause, HostMemory, Ledger, Limits, Process, ProcessKey, Tally};
use oracle::{MIB, PID, Recorder, introduction};
use trace::{Event, Fact, fact};

const A: u64 = 0x7f00_0000_0000;

fn replay(recorder: &Recorder) -> Ledger {
    let mut ledger = Ledger::default();
    for event in &recorder.events {
        ledger.apply(event);
    }
    ledger
}

fn only_ended(ledger: &Ledger) -> &Process {
    assert_eq!(ledger.ended().len(), 1);
    ledger.ended().next().unwrap()
}

#[test]
fn what_a_process_holds_at_its_end_is_an_end_not_a_leak() {
    for (fact, cause) in [(Fact::Exit, EndCause::Exit), (Fact::Exec, EndCause::Exec)] {
        let mut recorder = Recorder::default();
        recorder.fact(&introduction(true));
        recorder.alloc(1, 0, 4 * MIB, Some(A));
        recorder.alloc(1, 0, 4 * MIB, Some(A + 4 * MIB));
        recorder.free_begins(1, A);
        recorder.report(2, 0, A + 4 * MIB, 512, (512, 4 << 20));
        recorder.fact(&fact);
        let ledger = replay(&recorder);
        assert_eq!(ledger.live().len(), 0);
        let process = only_ended(&ledger);
        assert_eq!(process.end().unwrap().cause, cause);
        let device = &process.devices()[&Some(0)];
        assert_eq!(device.live(), Tally::default());
        assert_eq!(device.held_bytes(), 0);
        assert_eq!(
            device.ended().implicit,
            Tally {
                count: 2,
                bytes: 8 * MIB
            }
        );
        assert_eq!(device.peak().bytes, 8 * MIB);
        assert!(process.blocks().is_empty());
        let allocator = &process.allocators()[&0];
        assert_eq!((allocator.allocated(), allocator.reserved()), (0, 0));
        assert_eq!(allocator.peak_allocated().bytes, 512);
    }
}

#[test]
fn a_thread_that_ends_frees_nothing() {
    // The end of a thread has no row of its own: blocks of threads that never return stay.
    let mut recorder = Recorder::default();
    recorder.alloc(55, 0, 4 * MIB, Some(A));
    for other in 56..70 {
        recorder.alloc(other, 0, MIB, Some(A + u64::from(other) * 4 * MIB));
    }
    assert_eq!(
        replay(&recorder).process(PID).unwrap().devices()[&Some(0)]
            .live()
            .count,
        15
    );
}

#[test]
fn a_forked_child_starts_empty_and_its_parent_keeps_all() {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    recorder.alloc(1, 0, 4 * MIB, Some(A));
    recorder.fact(&Fact::Fork { child: 200 });
    let ledger = replay(&recorder);
    assert!(ledger.process(200).unwrap().blocks().is_empty());
    assert_eq!(ledger.process(PID).unwrap().blocks().len(), 1);
}

#[test]
fn the_same_addresses_in_two_processes_are_two_blocks() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 4 * MIB, Some(A));
    recorder.alloc(1, 0, 6 * MIB, Some(A));
    recorder.events[1].pid = 200;
    recorder.free(1, A);
    let ledger = replay(&recorder);
    assert_eq!(ledger.process(PID).unwrap().blocks().len(), 0);
    assert_eq!(ledger.process(200).unwrap().blocks().len(), 1);
}

#[test]
fn a_process_id_comes_back() {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    recorder.alloc(1, 0, 4 * MIB, Some(A));
    let Fact::Process(first) = introduction(true) else {
        unreachable!()
    };
    // The exit was not seen: another start time tells.
    recorder.fact(&Fact::Process(fact::Process {
        start_time: first.start_time + 1,
        ..first
    }));
    recorder.alloc(1, 0, 6 * MIB, Some(A));
    let ledger = replay(&recorder);
    assert_eq!(only_ended(&ledger).end().unwrap().cause, EndCause::Unseen);
    let now = ledger.process(PID).unwrap();
    assert_eq!(
        now.key(),
        ProcessKey {
            pid: PID,
            incarnation: 1
        }
    );
    assert_eq!(
        now.devices()[&Some(0)].live(),
        Tally {
            count: 1,
            bytes: 6 * MIB
        }
    );
    assert_eq!(now.devices()[&Some(0)].ended().lost_free, Tally::default());
}

#[test]
fn a_second_introduction_of_the_same_process_changes_only_its_name() {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    recorder.alloc(1, 0, 4 * MIB, Some(A));
    let Fact::Process(first) = introduction(true) else {
        unreachable!()
    };
    recorder.fact(&Fact::Process(fact::Process {
        title: "VLLM::Worker".to_owned(),
        ..first
    }));
    let ledger = replay(&recorder);
    let process = ledger.process(PID).unwrap();
    assert_eq!(process.blocks().len(), 1);
    assert_eq!(process.info().unwrap().title, "VLLM::Worker");
}

#[test]
fn a_child_that_becomes_another_program_leaves_no_empty_entry() {
    let mut recorder = Recorder::default();
    recorder.fact(&Fact::Fork { child: 200 });
    recorder.fact(&Fact::Exec);
    recorder.events[1].pid = 200;
    assert_eq!(replay(&recorder).ended().len(), 0);
}

#[test]
fn the_last_rows_of_an_ended_process_bring_none_back() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 4 * MIB, Some(A));
    recorder.free_begins(1, A);
    recorder.fact(&Fact::Exit);
    recorder.free_returns(1, A, 0);
    let row = recorder.events.last_mut().unwrap();
    *row = Event {
        kind: trace::Kind::InFlight,
        ..row.clone()
    };
    assert_eq!(replay(&recorder).live().len(), 0);
}

#[test]
fn processes_are_bounded() {
    let mut ledger = Ledger::new(Limits {
        processes: 2,
        ended_processes: 1,
        ..Limits::default()
    });
    let mut recorder = Recorder::default();
    for pid in 1..=3 {
        recorder.alloc(1, 0, MIB, Some(A));
        recorder.events.last_mut().unwrap().pid = pid;
    }
    for pid in 1..=2 {
        recorder.fact(&Fact::Exit);
        recorder.events.last_mut().unwrap().pid = pid;
    }
    for event in &recorder.events {
        ledger.apply(event);
    }
    assert_eq!(ledger.ignored(), 1);
    assert_eq!(
        (
            ledger.live().len(),
            ledger.ended().len(),
            ledger.forgotten()
        ),
        (0, 1, 1)
    );
}

#[test]
fn losses_and_gaps_are_known() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, MIB, Some(A));
    recorder.fact(&Fact::Gap(fact::Gap {
        pid: PID,
        reason: "attached late".to_owned(),
        duration: None,
    }));
    for (api, lost_ring) in [
        ("cudaMalloc", 2),
        ("c10::reportMemoryUsageToProfiler", 3),
        ("cudaLaunchKernel", 5),
    ] {
        recorder.fact(&Fact::Account(fact::Account {
            api: api.to_owned(),
            lost_ring,
            ..fact::Account::default()
        }));
    }
    let ledger = replay(&recorder);
    let losses = ledger.losses();
    assert_eq!((losses.memory, losses.torch, losses.gaps), (2, 3, 1));
    assert!(!losses.is_none());
    assert_eq!(ledger.process(PID).unwrap().counters().gaps, 1);
}

#[test]
fn a_process_that_vanished_ends_unseen() {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    recorder.alloc(1, 0, 4 * MIB, Some(A));
    recorder.fact(&Fact::Vanished);
    let ledger = replay(&recorder);
    let process = only_ended(&ledger);
    assert_eq!(process.end().unwrap().cause, EndCause::Unseen);
    assert_eq!(process.ended().implicit.bytes, 4 * MIB);
}

/// Once memory calls come in windows, nothing is claimed of memory: not what was known before, and not
/// what windows see. A ledger that goes on from a checkpoint claims nothing either.
#[test]
fn who_has_memory_calls_in_windows_holds_what_nobody_knows() {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    recorder.alloc(1, 0, 4 * MIB, Some(A));
    recorder.free_begins(1, A);
    recorder.report(2, 0, A, 512, (512, 4 << 20));
    let before = replay(&recorder);
    let process = before.process(PID).unwrap();
    assert!(process.knows_memory() && before.samples().next().is_none());
    assert_eq!(process.host_memory(A + (1 << 40), 1), HostMemory::Pageable);

    recorder.fact(&Fact::MemorySampled);
    recorder.alloc(1, 0, 4 * MIB, Some(A + 8 * MIB));
    recorder.report(2, 0, A + 8 * MIB, 1024, (1536, 4 << 20));
    let ledger = replay(&recorder);
    let mut resumed = Ledger::default();
    for fact in ledger.checkpoint() {
        resumed.apply(&Event {
            kind: trace::Kind::Fact,
            text: Some(fact.to_text()),
            ..Event::default()
        });
    }
    assert_eq!(resumed.checkpoint(), ledger.checkpoint());
    for ledger in [ledger, resumed] {
        let told: Vec<_> = ledger.samples().collect();
        assert_eq!(
            told,
            [(PID, Fact::TorchSampled), (PID, Fact::MemorySampled)]
        );
        let process = ledger.process(PID).unwrap();
        assert!(!process.knows_memory() && process.is_memory_sampled());
        assert!(process.blocks().is_empty() && process.freeing().next().is_none());
        let devices: Vec<_> = process.devices().values().collect();
        assert!(
            devices
                .iter()
                .all(|device| device.live() == Tally::default())
        );
        assert_eq!(process.host_memory(A + (1 << 40), 1), HostMemory::Unknown);
        // That PyTorch tells itself.
        let allocator = &process.allocators()[&0];
        assert_eq!(
            (allocator.allocated(), allocator.reserved()),
            (1536, 4 << 20)
        );
        assert!(allocator.is_sampled());
    }
}
