//! What PyTorch's reports say, case by case.
#![expect(
    clippy::unwrap_used,
    reason = "a test panics where its ground gives way"
)]

mod consistency;
mod oracle;

use consistency::assert_consistent;
use ledger::{CachingAllocator, Ledger, Pool, Ranged, Tally};
use oracle::{Gpu, MIB, PID, Recorder, Torch, introduction};

const A: u64 = 0x7f00_0000_0000;

fn replay(recorder: &Recorder) -> Ledger {
    let mut ledger = Ledger::default();
    for event in &recorder.events {
        ledger.apply(event);
    }
    ledger
}

fn allocator(ledger: &Ledger) -> &CachingAllocator {
    &ledger.process(PID).unwrap().allocators()[&0]
}

const fn tally(count: u64, bytes: u64) -> Tally {
    Tally { count, bytes }
}

#[test]
fn a_segment_that_is_freed_between_reports_lowers_reserved_at_once() {
    let mut recorder = Recorder::default();
    let (mut gpu, mut torch) = (Gpu::new(0, 1 << 30), Torch::default());
    let tensor = torch.malloc(&mut gpu, &mut recorder, 1, 15 * MIB).unwrap();
    torch.malloc(&mut gpu, &mut recorder, 1, 512).unwrap();
    torch.free(&gpu, &mut recorder, 1, tensor);
    torch.empty_cache(&mut gpu, &mut recorder, 1);
    let ledger = replay(&recorder);
    assert_eq!(allocator(&ledger).reserved(), 2 * MIB);
    assert_eq!(allocator(&ledger).allocated(), 512);
    assert_eq!(allocator(&ledger).segments().len(), 1);
    assert_eq!(allocator(&ledger).peak_reserved().bytes, 18 * MIB);
}

#[test]
fn a_segment_whose_free_fails_stays_with_its_blocks() {
    let mut recorder = Recorder::default();
    let (mut gpu, mut torch) = (Gpu::new(0, 1 << 30), Torch::default());
    let tensor = torch.malloc(&mut gpu, &mut recorder, 1, 15 * MIB).unwrap();
    recorder.free_begins(1, tensor);
    assert_eq!(allocator(&replay(&recorder)).reserved(), 0);
    recorder.free_returns(1, tensor, 700);
    let ledger = replay(&recorder);
    assert_eq!(allocator(&ledger).reserved(), 16 * MIB);
    assert_eq!(allocator(&ledger).active().len(), 1);
    assert!(allocator(&ledger).completeness().is_complete());
    // And it can be freed again.
    torch.free(&gpu, &mut recorder, 1, tensor);
    torch.empty_cache(&mut gpu, &mut recorder, 1);
    assert_eq!(allocator(&replay(&recorder)).reserved(), 0);
}

#[test]
fn memory_that_other_libraries_allocate_is_no_segment() {
    let mut recorder = Recorder::default();
    let (mut gpu, mut torch) = (Gpu::new(0, 1 << 30), Torch::default());
    let nccl = gpu.malloc(8 * MIB).unwrap();
    recorder.alloc(1, 0, 8 * MIB, Some(nccl));
    torch.malloc(&mut gpu, &mut recorder, 1, 512).unwrap();
    let ledger = replay(&recorder);
    let process = ledger.process(PID).unwrap();
    assert_eq!(process.blocks().get(nccl).unwrap().segment_of(), None);
    assert_eq!(allocator(&ledger).segments().len(), 1);
    assert_eq!(process.devices()[&Some(0)].live().bytes, 10 * MIB);
}

#[test]
fn a_report_tells_the_device_of_its_segment() {
    let mut recorder = Recorder::default();
    let (mut gpu, mut torch) = (Gpu::new(0, 1 << 30), Torch::default());
    torch.malloc(&mut gpu, &mut recorder, 1, 512).unwrap();
    recorder.events[0].device = None;
    let ledger = replay(&recorder);
    let devices = ledger.process(PID).unwrap().devices();
    assert_eq!(
        devices[&Some(0)].live(),
        Tally {
            count: 1,
            bytes: 2 * MIB
        }
    );
    assert_eq!(devices[&None].live(), Tally::default());
}

#[test]
fn reports_of_other_device_types_are_left_out() {
    let mut recorder = Recorder::default();
    recorder.report(1, 0, A, 512, (512, 512));
    recorder.events[0].device = None;
    assert!(
        replay(&recorder)
            .process(PID)
            .unwrap()
            .allocators()
            .is_empty()
    );
}

#[test]
fn the_pool_is_that_of_the_first_block() {
    let mut recorder = Recorder::default();
    let (mut gpu, mut torch) = (Gpu::new(0, 1 << 30), Torch::default());
    torch.malloc(&mut gpu, &mut recorder, 1, 1).unwrap();
    torch.malloc(&mut gpu, &mut recorder, 1, 2 * MIB).unwrap();
    let ledger = replay(&recorder);
    let pools: Vec<_> = allocator(&ledger)
        .segments()
        .iter()
        .map(|segment| segment.pool)
        .collect();
    assert_eq!(pools, [Pool::Small, Pool::Large]);
    // 20 MiB less the 2 MiB block; 2 MiB less 512 bytes.
    assert_eq!(allocator(&ledger).largest_free(), 18 * MIB);
}

#[test]
fn reports_before_the_first_one_seen_are_not_guessed() {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(false));
    recorder.alloc(1, 0, 20 * MIB, Some(A));
    recorder.report(1, 0, A, 4 << 20, (104 * MIB, 220 * MIB));
    let map = {
        let ledger = replay(&recorder);
        assert_eq!(allocator(&ledger).allocated(), 104 * MIB);
        assert_eq!(allocator(&ledger).reserved(), 220 * MIB);
        assert_eq!(allocator(&ledger).discontinuities(), 0);
        allocator(&ledger).completeness()
    };
    assert_eq!(
        (map.hidden_allocated, map.hidden_reserved),
        (100 * MIB, 200 * MIB)
    );
    assert!(!map.is_complete());
    // The unseen blocks go, and with the next report their segments: the map is whole.
    recorder.report(1, 0, A + (1 << 36), -(100 << 20), (4 * MIB, 220 * MIB));
    recorder.report(1, 0, A + 4 * MIB, 2 << 20, (6 * MIB, 20 * MIB));
    let ledger = replay(&recorder);
    assert_eq!(
        allocator(&ledger).unknown_frees(),
        Tally {
            count: 1,
            bytes: 100 * MIB
        }
    );
    assert!(allocator(&ledger).completeness().is_complete());
}

#[test]
fn a_lost_report_is_noticed_and_what_is_stale_goes() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 20 * MIB, Some(A));
    recorder.report(1, 0, A, 4 << 20, (4 * MIB, 20 * MIB));
    // Its free is lost; its place is taken by a larger block.
    recorder.report(1, 0, A, 6 << 20, (6 * MIB, 20 * MIB));
    let ledger = replay(&recorder);
    assert_eq!(allocator(&ledger).discontinuities(), 1);
    assert_eq!(
        allocator(&ledger).lost_frees(),
        Tally {
            count: 1,
            bytes: 4 * MIB
        }
    );
    assert!(allocator(&ledger).completeness().is_complete());
    assert_eq!(allocator(&ledger).active().len(), 1);
}

/// The free of a segment was lost, and the allocation of the next one there, too: a block that
/// reaches out of the first shows that it is gone.
#[test]
fn a_block_that_reaches_out_of_a_segment_ends_it() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 2 * MIB, Some(A));
    recorder.report(1, 0, A, 512, (512, 2 * MIB));
    recorder.alloc(1, 0, 2 * MIB, Some(A + 4 * MIB));
    recorder.report(1, 0, A + 4 * MIB, 1 << 20, (MIB + 512, 4 * MIB));
    recorder.report(1, 0, A, 10 << 20, (10 * MIB, 10 * MIB));
    let ledger = replay(&recorder);
    assert_consistent(&ledger);
    let process = ledger.process(PID).unwrap();
    assert_eq!(process.blocks().len(), 0);
    assert_eq!(process.ended().lost_free, tally(2, 4 * MIB));
    assert_eq!(allocator(&ledger).segments().len(), 0);
    assert_eq!(allocator(&ledger).active().len(), 1);
    assert_eq!(allocator(&ledger).lost_frees(), tally(2, MIB + 512));
    let map = allocator(&ledger).completeness();
    assert_eq!((map.hidden_allocated, map.stale_allocated), (0, 0));
    assert_eq!((map.hidden_reserved, map.stale_reserved), (10 * MIB, 0));
}

/// The same of a free: it is all that was seen of the block.
#[test]
fn a_freed_block_that_reaches_out_of_a_segment_ends_it() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 2 * MIB, Some(A));
    recorder.report(1, 0, A, 512, (512, 2 * MIB));
    recorder.report(1, 0, A, -(10 << 20), (0, 10 * MIB));
    let ledger = replay(&recorder);
    assert_consistent(&ledger);
    let process = ledger.process(PID).unwrap();
    assert_eq!(process.ended().lost_free, tally(1, 2 * MIB));
    assert_eq!(allocator(&ledger).unknown_frees(), tally(1, 10 * MIB));
    assert_eq!(allocator(&ledger).completeness().hidden_reserved, 10 * MIB);
}

/// What an unknown block lay in is handed out to a library: the block is gone.
#[test]
fn memory_that_is_handed_out_anew_has_no_old_blocks() {
    let mut recorder = Recorder::default();
    recorder.report(1, 0, A + MIB, 4 << 20, (4 * MIB, 20 * MIB));
    recorder.alloc(1, 0, 2 * MIB, Some(A));
    let ledger = replay(&recorder);
    assert_consistent(&ledger);
    assert_eq!(allocator(&ledger).active().len(), 0);
    assert_eq!(allocator(&ledger).lost_frees(), tally(1, 4 * MIB));
}

/// No device has a negative ordinal, and nothing is learnt from one that is reported.
#[test]
fn a_report_on_a_device_that_cannot_be_changes_nothing() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 2 * MIB, Some(A));
    recorder.report(1, -1, A, 512, (512, 2 * MIB));
    let ledger = replay(&recorder);
    assert_consistent(&ledger);
    let process = ledger.process(PID).unwrap();
    assert_eq!(process.counters().malformed, 1);
    assert_eq!(process.blocks().get(A).unwrap().segment_of(), None);
}

#[test]
fn running_out_of_memory_keeps_the_moment() {
    let mut recorder = Recorder::default();
    let (mut gpu, mut torch) = (Gpu::new(0, 64 * MIB), Torch::default());
    let tensors: Vec<u64> = (0..6)
        .map(|_| torch.malloc(&mut gpu, &mut recorder, 1, 10 * MIB).unwrap())
        .collect();
    for tensor in tensors.iter().step_by(2) {
        torch.free(&gpu, &mut recorder, 1, *tensor);
    }
    // Three segments of 10 MiB go back first; 34 MiB in one piece there are.
    assert_eq!(torch.malloc(&mut gpu, &mut recorder, 9, 50 * MIB), None);
    let ledger = replay(&recorder);
    let [oom] = allocator(&ledger).out_of_memory() else {
        panic!("one")
    };
    assert_eq!(
        (oom.asked, oom.allocated, oom.reserved),
        (50 * MIB, 30 * MIB, 30 * MIB)
    );
    assert_eq!((oom.tid, oom.pool()), (9, Pool::Large));
    assert_eq!((oom.free_in_pool, oom.largest_free), (0, 0));
    assert!(oom.map.is_complete());
    assert_eq!(oom.reading.unwrap().free, 34 * MIB);
    assert_eq!(oom.retry, None);
}

#[test]
fn a_request_that_works_at_once_had_waited_for_a_stream() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 20 * MIB, Some(A));
    recorder.report(1, 0, A, 20 << 20, (20 * MIB, 20 * MIB));
    recorder.report(1, 0, A, -(20 << 20), (0, 20 * MIB));
    recorder.out_of_memory(1, 0, 12 * MIB, (0, 20 * MIB));
    // Another thread is no retry.
    recorder.report(2, 0, A + 14 * MIB, 2 << 20, (2 * MIB, 20 * MIB));
    recorder.report(1, 0, A, 12 << 20, (14 * MIB, 20 * MIB));
    let ledger = replay(&recorder);
    let retry = allocator(&ledger).out_of_memory()[0].retry.unwrap();
    assert!(retry.shows_pending_free());
    assert_eq!(retry.at.seq, 5);
}

#[test]
fn a_request_that_works_after_a_free_shows_nothing_pending() {
    let mut recorder = Recorder::default();
    recorder.alloc(1, 0, 20 * MIB, Some(A));
    recorder.report(1, 0, A, 20 << 20, (20 * MIB, 20 * MIB));
    recorder.out_of_memory(1, 0, 12 * MIB, (20 * MIB, 20 * MIB));
    recorder.report(2, 0, A, -(20 << 20), (0, 20 * MIB));
    recorder.report(1, 0, A, 12 << 20, (12 * MIB, 20 * MIB));
    let retry = allocator(&replay(&recorder)).out_of_memory()[0]
        .retry
        .unwrap();
    assert_eq!((retry.freed, retry.new_segment), (20 * MIB, false));
    assert!(!retry.shows_pending_free());
}

#[test]
fn a_smaller_request_is_no_retry() {
    let mut recorder = Recorder::default();
    recorder.out_of_memory(1, 0, 12 * MIB, (0, 0));
    recorder.alloc(1, 0, 2 * MIB, Some(A));
    recorder.report(1, 0, A, 512, (512, 2 * MIB));
    recorder.report(1, 0, A + (1 << 30), 12 << 20, (512 + 12 * MIB, 14 * MIB));
    assert_eq!(allocator(&replay(&recorder)).out_of_memory()[0].retry, None);
}

#[test]
fn free_stretches_are_what_blocks_leave() {
    let mut recorder = Recorder::default();
    let (mut gpu, mut torch) = (Gpu::new(0, 1 << 30), Torch::default());
    let tensors: Vec<u64> = (0..5)
        .map(|_| torch.malloc(&mut gpu, &mut recorder, 1, 4 * MIB).unwrap())
        .collect();
    torch.free(&gpu, &mut recorder, 1, tensors[0]);
    torch.free(&gpu, &mut recorder, 1, tensors[2]);
    torch.free(&gpu, &mut recorder, 1, tensors[3]);
    let ledger = replay(&recorder);
    let allocator = allocator(&ledger);
    let segment = allocator.segments().iter().next().unwrap();
    let free: Vec<(u64, u64)> = allocator
        .free_in(segment)
        .iter()
        .map(|free| (free.start() - segment.range().start(), free.size()))
        .collect();
    assert_eq!(free, [(0, 4 * MIB), (8 * MIB, 8 * MIB)]);
}
