//! Allocations and frees of device memory: what counts, when, and for whom.
#![expect(
    clippy::unwrap_used,
    reason = "a test panics where its ground gives way"
)]

mod oracle;

use agent_common::flags;
use ledger::{Device, Ledger, Limits, Process, Ranged, Tally};
use oracle::{Gpu, MIB, PAGE, PID, Recorder, introduction};
use proptest::prelude::*;
use trace::{Event, Kind};

const A: u64 = 0x7f00_0000_0000;

fn replay(recorder: &Recorder) -> Ledger {
    let mut ledger = Ledger::default();
    for event in &recorder.events {
        ledger.apply(event);
    }
    ledger
}

fn process(ledger: &Ledger) -> &Process {
    ledger.process(PID).unwrap()
}

fn device(ledger: &Ledger) -> &Device {
    &process(ledger).devices()[&Some(0)]
}

fn tally(count: u64, bytes: u64) -> Tally {
    Tally { count, bytes }
}

#[test]
fn another_thread_may_free_and_from_another_device() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, MIB, Some(A));
    // The recorder notes device 0 for thread 1 and another one for thread 2.
    recorder.free_begins(2, A);
    recorder.events.last_mut().unwrap().device = Some(1);
    recorder.free_returns(2, A, 0);
    recorder.events.last_mut().unwrap().device = Some(1);
    let ledger = replay(&recorder);
    assert_eq!(device(&ledger).live(), tally(0, 0));
    assert_eq!(device(&ledger).ended().freed, tally(1, MIB));
    assert_eq!(process(&ledger).devices().len(), 1);
}

#[test]
fn a_block_is_gone_when_its_free_begins_and_back_when_it_fails() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 3 * MIB, Some(A));
    recorder.free_begins(1, A);
    let begun = replay(&recorder);
    assert_eq!(device(&begun).live(), tally(0, 0));
    assert_eq!(device(&begun).held_bytes(), 0);
    assert_eq!(
        process(&begun)
            .freeing()
            .map(|block| block.range().size())
            .sum::<u64>(),
        3 * MIB
    );

    recorder.free_returns(1, A, 700);
    let failed = replay(&recorder);
    assert_eq!(device(&failed).live(), tally(1, 3 * MIB));
    assert_eq!(device(&failed).held_bytes(), 4 * MIB);
    assert_eq!(device(&failed).waste_bytes(), MIB);
    assert_eq!(device(&failed).ended().freed, tally(0, 0));
    assert_eq!(process(&failed).counters().failed_frees, 1);
}

#[test]
fn an_address_may_come_back_before_its_free_returns() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 4 * MIB, Some(A));
    recorder.free_begins(1, A);
    recorder.alloc(2, 0, 6 * MIB, Some(A));
    recorder.free_returns(1, A, 0);
    let ledger = replay(&recorder);
    assert_eq!(device(&ledger).live(), tally(1, 6 * MIB));
    assert_eq!(device(&ledger).ended().freed, tally(1, 4 * MIB));
    assert_eq!(device(&ledger).ended().lost_free, tally(0, 0));
    assert_eq!(process(&ledger).counters().unknown_frees, 0);
}

#[test]
fn the_same_of_a_block_from_before_tracing_began() {
    let mut recorder = Recorder::default();
    recorder.free_begins(1, A);
    recorder.alloc(2, 0, 6 * MIB, Some(A));
    recorder.free_returns(1, A, 0);
    let ledger = replay(&recorder);
    assert_eq!(device(&ledger).live(), tally(1, 6 * MIB));
    assert_eq!(process(&ledger).counters().unknown_frees, 1);
}

#[test]
fn a_free_whose_beginning_was_lost_counts_when_it_returns() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 4 * MIB, Some(A));
    recorder.free_returns(1, A, 0);
    recorder.events.last_mut().unwrap().flags |= flags::BEGIN_LOST;
    let ledger = replay(&recorder);
    assert_eq!(device(&ledger).live(), tally(0, 0));
    assert_eq!(device(&ledger).ended().freed, tally(1, 4 * MIB));
}

#[test]
fn a_free_whose_beginning_was_lost_spares_the_next_block_at_its_address() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 4 * MIB, Some(A));
    recorder.alloc(2, 0, 6 * MIB, Some(A));
    recorder.free_returns(1, A, 0);
    let entered = recorder.events[1].timestamp - 1;
    let free = recorder.events.last_mut().unwrap();
    free.timestamp = entered;
    free.flags |= flags::BEGIN_LOST;
    let ledger = replay(&recorder);
    assert_eq!(device(&ledger).live(), tally(1, 6 * MIB));
    assert_eq!(device(&ledger).ended().lost_free, tally(1, 4 * MIB));
    assert_eq!(process(&ledger).counters().unknown_frees, 0);
}

#[test]
fn failed_calls_change_nothing() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 4 * MIB, None);
    recorder.free(1, A);
    recorder.free_returns(1, A, 1);
    let ledger = replay(&recorder);
    assert!(process(&ledger).devices().is_empty());
    let counters = process(&ledger).counters();
    assert_eq!(counters.failed_allocations, tally(1, 4 * MIB));
    assert_eq!((counters.unknown_frees, counters.failed_frees), (1, 1));
}

#[test]
fn null_and_nothing_are_counted_apart() {
    let mut recorder = Recorder::default();
    for _ in 0..1000 {
        recorder.free(1, 0);
    }
    recorder.alloc(1, 0, 0, Some(0));
    let ledger = replay(&recorder);
    let counters = process(&ledger).counters();
    assert_eq!(counters.null_frees, 1000);
    assert_eq!(counters.empty_allocations, 1);
    assert_eq!(counters.unknown_frees, 0);
    assert_eq!(counters.malformed, 0);
}

#[test]
fn an_allocation_over_a_live_block_closes_it() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 4 * MIB, Some(A));
    recorder.alloc(1, 0, 4 * MIB, Some(A + 4 * MIB));
    // Both were freed unseen, and one block took their place.
    recorder.alloc(1, 0, 8 * MIB, Some(A + 2 * MIB));
    let ledger = replay(&recorder);
    assert_eq!(device(&ledger).live(), tally(1, 8 * MIB));
    assert_eq!(device(&ledger).ended().lost_free, tally(2, 8 * MIB));
    assert_eq!(device(&ledger).peak().bytes, 8 * MIB);
}

#[test]
fn a_thread_that_dies_in_a_free_leaves_its_outcome_unknown() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 4 * MIB, Some(A));
    recorder.free_begins(1, A);
    recorder.free_returns(1, A, 0);
    let row = recorder.events.last_mut().unwrap();
    *row = Event {
        kind: Kind::Abandoned,
        result: None,
        ..row.clone()
    };
    let ledger = replay(&recorder);
    assert_eq!(device(&ledger).live(), tally(0, 0));
    assert_eq!(device(&ledger).ended().unknown, tally(1, 4 * MIB));
}

#[test]
fn an_unread_address_is_counted() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 4 * MIB, Some(A));
    recorder.events[0].address = None;
    let ledger = replay(&recorder);
    assert_eq!(
        process(&ledger).counters().unread_allocations,
        tally(1, 4 * MIB)
    );
}

#[test]
fn memory_on_an_unknown_device_is_kept_apart() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 4 * MIB, Some(A));
    recorder.events[0].device = None;
    let ledger = replay(&recorder);
    assert_eq!(process(&ledger).devices()[&None].live(), tally(1, 4 * MIB));
}

#[test]
fn a_reading_keeps_what_was_held_then() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 3 * MIB, Some(A));
    recorder.memory_info(7, 0, 500 * MIB, 800 * MIB);
    recorder.alloc(1, 0, 3 * MIB, Some(A + 4 * MIB));
    let ledger = replay(&recorder);
    let reading = device(&ledger).reading().unwrap();
    assert_eq!(
        (reading.free, reading.total, reading.tid),
        (500 * MIB, 800 * MIB, 7)
    );
    assert_eq!(reading.held, 4 * MIB);
}

#[test]
fn half_of_the_small_blocks_freed_gives_no_page_back() {
    let mut recorder = Recorder::default();
    let mut gpu = Gpu::new(0, 64 << 30);
    let blocks: Vec<u64> = (0..1024).map(|_| gpu.malloc(MIB).unwrap()).collect();
    for &block in &blocks {
        recorder.alloc(1, 0, MIB, Some(block));
    }
    for &block in blocks.iter().step_by(2) {
        recorder.free(1, block);
    }
    let ledger = replay(&recorder);
    assert_eq!(device(&ledger).live().bytes, 512 * MIB);
    assert_eq!(device(&ledger).held_bytes(), 1024 * MIB);
    assert_eq!(device(&ledger).waste_bytes(), 512 * MIB);
}

#[test]
fn a_full_ledger_counts_what_it_cannot_keep() {
    let mut recorder = Recorder::default();
    for n in 0..5 {
        recorder.alloc(1, 0, MIB, Some(A + n * PAGE));
    }
    recorder.free(1, A + 4 * PAGE);
    let mut ledger = Ledger::new(Limits {
        blocks_per_process: 3,
        ..Limits::default()
    });
    for event in &recorder.events {
        ledger.apply(event);
    }
    assert_eq!(device(&ledger).live(), tally(3, 3 * MIB));
    assert_eq!(process(&ledger).counters().untracked, tally(2, 2 * MIB));
    assert_eq!(process(&ledger).counters().unknown_frees, 1);
}

/// What a thread does next: threads take turns at random, and a free takes two turns.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Alloc {
        thread: u32,
        size: u64,
    },
    Free {
        thread: u32,
        nth: usize,
        fails: bool,
    },
}

fn turn() -> impl Strategy<Value = Turn> {
    let size = prop_oneof![1..=MIB, MIB..9 * MIB];
    prop_oneof![
        (0..6u32, size).prop_map(|(thread, size)| Turn::Alloc { thread, size }),
        (0..6u32, any::<usize>(), any::<bool>()).prop_map(|(thread, nth, fails)| Turn::Free {
            thread,
            nth,
            fails
        }),
    ]
}

proptest! {
    /// Frees of six threads overlap with each other and with allocations, and the driver hands
    /// an address out again as soon as its free has begun.
    #[test]
    fn threads_may_interleave(turns in prop::collection::vec(turn(), 1..300)) {
        let mut recorder = Recorder::default();
        recorder.fact(&introduction(true));
        let mut ledger = Ledger::default();
        let mut gpu = Gpu::new(0, 1 << 40);
        // Blocks that no free has begun for: address and size.
        let mut live: Vec<(u64, u64)> = Vec::new();
        // The free each thread is in: address, size, whether it fails.
        let mut under_way: [Option<(u64, u64, bool)>; 6] = [None; 6];
        let mut freed = tally(0, 0);
        let mut applied = 0;
        for turn in turns {
            match turn {
                Turn::Alloc { thread, size } if under_way[thread as usize].is_none() => {
                    let address = gpu.malloc(size).unwrap();
                    recorder.alloc(thread, 0, size, Some(address));
                    live.push((address, size));
                }
                Turn::Free { thread, nth, fails } if under_way[thread as usize].is_none() => {
                    if !live.is_empty() {
                        let (address, size) = live.swap_remove(nth % live.len());
                        recorder.free_begins(thread, address);
                        if !fails {
                            gpu.free(address);
                        }
                        under_way[thread as usize] = Some((address, size, fails));
                    }
                }
                // The thread is in a free: it returns.
                Turn::Alloc { thread, .. } | Turn::Free { thread, .. } => {
                    let (address, size, fails) = under_way[thread as usize].take().unwrap();
                    recorder.free_returns(thread, address, i32::from(fails));
                    if fails {
                        live.push((address, size));
                    } else {
                        freed.add(size);
                    }
                }
            }
            for event in &recorder.events[applied..] {
                ledger.apply(event);
            }
            applied = recorder.events.len();
            let process = process(&ledger);
            let mut known: Vec<(u64, u64)> = process
                .blocks()
                .iter()
                .map(|block| (block.range().start(), block.range().size()))
                .collect();
            known.sort_unstable();
            live.sort_unstable();
            prop_assert_eq!(&known, &live);
            let begun = under_way.iter().flatten().count();
            prop_assert_eq!(process.freeing().count(), begun);
            if let Some(device) = process.devices().get(&Some(0)) {
                let bytes: u64 = live.iter().map(|&(_, size)| size).sum();
                prop_assert_eq!(device.live(), tally(live.len() as u64, bytes));
                prop_assert_eq!(device.ended().freed, freed);
                prop_assert_eq!(device.ended().lost_free.count, 0);
                prop_assert_eq!(device.ended().unknown.count, 0);
            }
        }
    }
}
