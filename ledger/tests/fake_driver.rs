//! The ledger against the fake driver: 100,000 random operations of all kinds, threads and
//! devices. At every step it agrees with a naive model, and with what the driver itself says is
//! free.
#![expect(
    clippy::unwrap_used,
    reason = "a test panics where its ground gives way"
)]

mod consistency;
#[path = "fake_driver/driver.rs"]
mod driver;
#[path = "fake_driver/program.rs"]
mod program;

use std::{collections::BTreeMap, sync::LazyLock};

use agent_common::ApiId;
use consistency::assert_consistent;
use driver::DEVICES;
use ledger::{Ledger, MemoryKind, Process};
use program::{PID, Program};
use trace::{Event, Fact, Kind};

const STEPS: usize = 100_000;

/// The events of a long program, each step of which was compared.
static EVENTS: LazyLock<Vec<Event>> = LazyLock::new(|| {
    let mut program = Program::new();
    let mut ledger = Ledger::default();
    let mut applied = 0;
    for step in 0..STEPS {
        program.step();
        for event in &program.events[applied..] {
            ledger.apply(event);
        }
        applied = program.events.len();
        compare(&ledger, &program, step);
    }
    program.events
});

fn process(ledger: &Ledger) -> &Process {
    ledger.process(PID).unwrap()
}

fn compare(ledger: &Ledger, program: &Program, step: usize) {
    let process = process(ledger);
    let counters = process.counters();
    assert_eq!((counters.unknown_frees, counters.malformed), (0, 0));
    let mut expected: BTreeMap<(Option<i32>, MemoryKind), (u64, u64)> = BTreeMap::new();
    for held in &program.held {
        let (count, bytes) = expected.entry((held.device, held.kind)).or_default();
        *count += 1;
        *bytes += held.size;
    }
    for (&ordinal, device) in process.devices() {
        for kind in MemoryKind::ALL {
            let live = device.of_kind(kind);
            let truth = expected.remove(&(ordinal, kind)).unwrap_or_default();
            let place = format!("step {step}, device {ordinal:?}, {}", kind.name());
            assert_eq!((live.count, live.bytes), truth, "{place}");
        }
        assert_eq!(device.ended().lost_free.count, 0);
        assert_eq!(device.ended().unknown.count, 0);
    }
    assert!(expected.is_empty(), "step {step}: {expected:?}");
    for ordinal in 0..DEVICES {
        let (free, total) = driver::memory(ordinal);
        let held = process.devices().get(&Some(ordinal));
        let held = held.map_or(0, ledger::Device::held_bytes);
        assert_eq!(held, total - free, "step {step}, device {ordinal}");
    }
}

/// A checkpoint as text: equal texts, equal states.
fn state(ledger: &Ledger) -> Vec<String> {
    ledger.checkpoint().iter().map(Fact::to_text).collect()
}

fn resumed(ledger: &Ledger) -> Ledger {
    let mut resumed = Ledger::default();
    for fact in ledger.checkpoint() {
        resumed.apply(&Event {
            kind: Kind::Fact,
            text: Some(fact.to_text()),
            ..Event::default()
        });
    }
    assert_eq!(resumed.damaged_checkpoints(), 0);
    resumed
}

#[test]
fn every_step_equals_the_model_and_the_driver() {
    let events = &*EVENTS;
    // It must meet what matters.
    for api in program::APIS {
        let id = ApiId::by_name(api);
        let with = |result: i32| {
            let calls = events.iter().filter(|event| event.api == id);
            calls.filter(|event| event.result == Some(result)).count()
        };
        assert!(with(0) >= 20, "{api}: {} calls", with(0));
    }
    let failed = events
        .iter()
        .filter(|event| event.result.is_some_and(|result| result != 0));
    assert!(failed.count() > 1000);
}

#[test]
fn a_resumed_ledger_goes_on_as_if_nothing_had_happened() {
    let mut whole = Ledger::default();
    let mut broken = Ledger::default();
    let every = EVENTS.len() / 37;
    for (index, event) in EVENTS.iter().enumerate() {
        if index % every == every / 2 {
            let before = state(&broken);
            broken = resumed(&broken);
            assert_eq!(state(&broken), before);
            assert_consistent(&broken);
        }
        whole.apply(event);
        broken.apply(event);
    }
    assert_eq!(state(&whole), state(&broken));
}

#[test]
fn a_checkpoint_in_the_middle_of_a_recording_changes_nothing() {
    let mut ledger = Ledger::default();
    for event in &EVENTS[..5000] {
        ledger.apply(event);
    }
    let before = state(&ledger);
    for fact in ledger.checkpoint() {
        ledger.apply(&Event {
            kind: Kind::Fact,
            text: Some(fact.to_text()),
            ..Event::default()
        });
        assert_consistent(&ledger);
    }
    assert_eq!(state(&ledger), before);
}

/// As a recording that is read beside others is renumbered.
struct Other;

impl ledger::Renumber for Other {
    fn pid(&mut self, pid: u32) -> u32 {
        pid + 1000
    }

    fn caller(&mut self, caller: u32) -> u32 {
        caller + 50
    }

    fn time(&self, time: u64) -> u64 {
        time + 7
    }

    fn processes(&self) -> std::collections::BTreeSet<u32> {
        EVENTS.iter().map(|event| event.pid + 1000).collect()
    }

    fn has_checkpoint(&self) -> bool {
        false
    }
}

fn renumbered(event: &Event) -> Event {
    let text = event
        .text
        .as_deref()
        .and_then(Fact::parse)
        .map(|fact| match fact {
            Fact::Process(mut process) => {
                process.pid += 1000;
                process.parent += 1000;
                Fact::Process(process).to_text()
            }
            other => other.to_text(),
        });
    Event {
        pid: event.pid + 1000,
        timestamp: event.timestamp + 7,
        caller: event.caller.map(|caller| caller + 50),
        text,
        ..event.clone()
    }
}

#[test]
fn a_renumbered_checkpoint_is_that_of_renumbered_events() {
    // A process of another recording is there, too, and stays.
    let mut both = Ledger::default();
    for event in &EVENTS[..100] {
        both.apply(event);
    }
    let mut read = both.clone();
    let mut ledger = Ledger::default();
    for event in &EVENTS[..5000] {
        ledger.apply(event);
        both.apply(&renumbered(event));
    }
    for fact in ledger.checkpoint() {
        let Fact::Checkpoint { mut part } = fact else {
            panic!("{fact:?}")
        };
        Ledger::renumber(&mut part, &mut Other);
        read.apply(&Event {
            kind: Kind::Fact,
            text: Some(Fact::Checkpoint { part }.to_text()),
            ..Event::default()
        });
    }
    assert_eq!(read.damaged_checkpoints(), 0);
    for (found, expected) in state(&read).iter().zip(state(&both)) {
        assert_eq!(*found, expected);
    }
    assert_eq!(state(&read).len(), state(&both).len());
}

/// A part of a checkpoint, and half a checkpoint, are not resumed from.
#[test]
fn half_a_checkpoint_is_none() {
    let mut ledger = Ledger::default();
    for event in &EVENTS[..5000] {
        ledger.apply(event);
    }
    let facts = ledger.checkpoint();
    for cut in [1, facts.len() / 2, facts.len() - 1] {
        let mut blind = Ledger::default();
        for fact in &facts[..cut] {
            blind.apply(&Event {
                kind: Kind::Fact,
                text: Some(fact.to_text()),
                ..Event::default()
            });
        }
        assert_eq!(blind.live().len(), 0);
    }
}

#[test]
fn one_event_in_a_hundred_may_be_lost() {
    for seed in 1..=8_u64 {
        let mut random = program::Random(seed);
        let mut ledger = Ledger::default();
        for (index, event) in EVENTS.iter().enumerate() {
            if index < 2 || random.below(100) != 0 {
                ledger.apply(event);
            }
            if index % 5000 == 0 {
                assert_consistent(&ledger);
            }
        }
        assert_consistent(&ledger);
        let process = process(&ledger);
        assert!(process.counters().unknown_frees > 0);
        assert!(process.ended().lost_free.count > 0);
        assert!(process.ended().unknown.count > 0);
    }
}

#[test]
fn a_recording_may_start_in_the_middle() {
    for part in 1..10 {
        let start = EVENTS.len() * part / 10;
        let mut ledger = Ledger::default();
        for event in &EVENTS[start..] {
            ledger.apply(event);
        }
        assert_consistent(&ledger);
        let process = process(&ledger);
        assert!(!process.from_start());
        assert!(process.counters().unknown_frees > 0);
        assert_eq!(process.host_memory(0x1000, 1), ledger::HostMemory::Unknown);
    }
}

/// Some millions of damaged rows: fields are swapped between events.
#[test]
fn rows_with_fields_of_others_break_nothing() {
    let mut random = program::Random(99);
    let mut ledger = Ledger::default();
    let events = &EVENTS[..40_000];
    for index in 0..200_000 {
        let mut pick = || &events[usize::try_from(random.below(40_000)).unwrap()];
        let event = Event {
            address: pick().address,
            size: pick().size,
            handle: pick().handle,
            related: pick().related,
            location: pick().location,
            device: pick().device,
            kind: pick().kind,
            ..pick().clone()
        };
        ledger.apply(&event);
        if index % 10_000 == 0 {
            assert_consistent(&ledger);
        }
    }
    assert_consistent(&ledger);
    assert_eq!(state(&resumed(&ledger)), state(&ledger));
}
