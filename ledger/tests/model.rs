//! The ledger against a naive model of the driver and of PyTorch's caching allocator: equal at
//! every step, and honest when events are missing.
#![expect(
    clippy::unwrap_used,
    reason = "a test panics where its ground gives way"
)]

mod consistency;
#[path = "oracle/ops.rs"]
mod ops;
mod oracle;

use std::collections::{BTreeMap, BTreeSet};

use consistency::assert_consistent;
use ledger::{AddressRange, Ledger, Pool, Ranged};
use oracle::{MIB, PID, Program};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

fn pair(range: AddressRange) -> (u64, u64) {
    (range.start(), range.size())
}

fn assert_equals_model(ledger: &Ledger, program: &Program) {
    assert_consistent(ledger);
    let process = ledger.process(PID).unwrap();
    assert_eq!(process.counters().unknown_frees, 0);
    assert_eq!(process.counters().malformed, 0);
    for (gpu, torch) in program.gpus.iter().zip(&program.torch) {
        if let Some(device) = process.devices().get(&Some(gpu.ordinal)) {
            assert_eq!(device.live().bytes, gpu.live_bytes());
            assert_eq!(device.live().count, gpu.live.len() as u64);
            assert_eq!(device.held_bytes(), gpu.held());
            assert_eq!(device.ended().lost_free.count, 0);
            assert_eq!(device.ended().unknown.count, 0);
        }
        let Some(allocator) = process.allocators().get(&gpu.ordinal) else {
            continue;
        };
        assert_eq!(allocator.allocated(), torch.allocated());
        assert_eq!(allocator.reserved(), torch.reserved());
        assert_eq!(allocator.discontinuities(), 0);
        assert!(allocator.completeness().is_complete());
        let active: Vec<_> = allocator
            .active()
            .iter()
            .map(|block| pair(block.range()))
            .collect();
        assert_eq!(active, torch.active());
        let segments: Vec<_> = allocator
            .segments()
            .iter()
            .map(|segment| (pair(segment.range()), segment.pool == Pool::Small))
            .collect();
        let mut expected: Vec<_> = torch
            .segments
            .iter()
            .map(|segment| ((segment.address, segment.size), segment.small))
            .collect();
        expected.sort_unstable();
        assert_eq!(segments, expected);
        for pool in Pool::ALL {
            let largest = allocator
                .free_in_pool(pool)
                .map(AddressRange::size)
                .max()
                .unwrap_or(0);
            assert_eq!(largest, torch.largest_free(pool == Pool::Small));
        }
        assert_eq!(
            allocator.largest_free(),
            torch.largest_free(false).max(torch.largest_free(true))
        );
    }
}

/// A long life: 10,000 operations, compared after each. It must meet what matters.
#[test]
fn a_long_life_equals_the_model() {
    let mut runner = TestRunner::deterministic();
    let ops = prop::collection::vec(ops::op(), 10_000)
        .new_tree(&mut runner)
        .unwrap()
        .current();
    let mut program = Program::new(768 * MIB);
    let mut ledger = Ledger::default();
    let mut applied = 0;
    for op in ops {
        program.run(op);
        for event in &program.recorder.events[applied..] {
            ledger.apply(event);
        }
        applied = program.recorder.events.len();
        assert_equals_model(&ledger, &program);
    }
    let process = ledger.process(PID).unwrap();
    for allocator in process.allocators().values() {
        assert!(allocator.out_of_memory_count() > 100);
        assert!(
            allocator
                .out_of_memory()
                .iter()
                .any(|oom| oom.largest_free > 0)
        );
    }
    for device in process.devices().values() {
        assert!(device.ended().freed.count > 100);
    }
    assert!(process.counters().failed_frees > 100);
    assert!(process.counters().failed_allocations.count > 100);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_model_at_every_step(ops in prop::collection::vec(ops::op(), 1..160)) {
        let mut program = Program::new(512 * MIB);
        let mut ledger = Ledger::default();
        let mut applied = 0;
        for op in ops {
            program.run(op);
            for event in &program.recorder.events[applied..] {
                ledger.apply(event);
            }
            applied = program.recorder.events.len();
            assert_equals_model(&ledger, &program);
        }
        // Each time that memory ran out is kept, with what the allocator reported then.
        let ran_out: usize = ledger
            .process(PID)
            .unwrap()
            .allocators()
            .values()
            .map(|allocator| allocator.out_of_memory().len())
            .sum();
        let reported = program
            .recorder
            .events
            .iter()
            .filter_map(|event| event.api?.api())
            .filter(|api| api.name == "c10::reportOutOfMemoryToProfiler")
            .count();
        prop_assert_eq!(ran_out, reported);
    }

    /// Attached in the middle: PyTorch's totals are right from its first report on; what the
    /// map has is true; and it is called complete only when it is.
    #[test]
    fn a_late_start_is_told(
        ops in prop::collection::vec(ops::op(), 1..200),
        skipped in 0.0..1.0,
    ) {
        let mut program = Program::new(512 * MIB);
        for &op in &ops {
            program.run(op);
        }
        let events = &program.recorder.events;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss,
            clippy::cast_precision_loss, reason = "any place in the recording will do")]
        let start = (events.len() as f64 * skipped) as usize;
        let mut ledger = Ledger::default();
        for event in &events[start..] {
            ledger.apply(event);
        }
        assert_consistent(&ledger);
        let Some(process) = ledger.process(PID) else { return Ok(()) };
        for (gpu, torch) in program.gpus.iter().zip(&program.torch) {
            let Some(allocator) = process.allocators().get(&gpu.ordinal) else { continue };
            prop_assert_eq!(allocator.allocated(), torch.allocated());
            prop_assert_eq!(allocator.discontinuities(), 0);
            let truth: BTreeSet<_> = torch.active().into_iter().collect();
            let known: BTreeSet<_> =
                allocator.active().iter().map(|block| pair(block.range())).collect();
            prop_assert!(known.is_subset(&truth));
            let map = allocator.completeness();
            prop_assert_eq!(map.stale_allocated, 0);
            prop_assert_eq!(map.hidden_allocated == 0, known == truth);
            if map.is_complete() {
                prop_assert_eq!(allocator.reserved(), torch.reserved());
                prop_assert_eq!(allocator.segments().len(), torch.segments.len());
            }
        }
    }

    /// Events that are lost anywhere break no total and no invariant.
    #[test]
    fn lost_events_break_nothing(
        ops in prop::collection::vec(ops::op(), 1..200),
        lost in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut program = Program::new(512 * MIB);
        for &op in &ops {
            program.run(op);
        }
        let events = &program.recorder.events;
        let lost: BTreeSet<usize> = lost.iter().map(|index| index.index(events.len())).collect();
        let mut ledger = Ledger::default();
        let mut last: BTreeMap<i32, u64> = BTreeMap::new();
        for (index, event) in events.iter().enumerate() {
            if !lost.contains(&index) {
                ledger.apply(event);
                if let (Some(device), Some(allocated)) = (event.device, event.allocated) {
                    last.insert(device, allocated);
                }
            }
        }
        assert_consistent(&ledger);
        let Some(process) = ledger.process(PID) else { return Ok(()) };
        for (ordinal, allocator) in process.allocators() {
            prop_assert_eq!(allocator.allocated(), last[ordinal]);
        }
    }
}
