//! The memory report, of recordings that are made here: golden files, moments and curves.
//!
//! `UPDATE_GOLDEN=1 cargo test -p analyzer` writes the golden files anew.

mod printed;
mod sample;

use analyzer::memory::{Collector, Report, write_text};
use analyzer::selection::Time;
use analyzer::text::Colour;
use printed::{as_json, assert_documented, golden};
use sample::{ENGINE, SECOND, START, Sample, TRAINER, at, process};
use trace::fact::{Caller, Device};
use trace::{Event, Fact, Kind, Reader};

const MIB: u64 = 1 << 20;
const A: u64 = 0x7f00_0000_0000;
const C10: u32 = 0;
const NCCL: u32 = 1;

fn sized(pid: u32, ms: u64, address: u64, size: u64) -> Event {
    Event {
        device: Some(0),
        address: Some(address),
        size: Some(size.cast_signed()),
        caller: Some(C10),
        ..at(pid, ms)
    }
}

fn back(sample: &mut Sample, api: &'static str, event: &Event) {
    sample.row(api, Kind::Begin, event.clone());
    sample.call(api, 0, 1000, event.clone());
}

/// An engine with memory of all kinds, and a trainer that ran before it was traced and exits.
fn story() -> Sample {
    let mut sample = Sample::new();
    sample.fact(START, ENGINE, &process(ENGINE, "VLLM::EngineCore", true));
    sample.fact(START, TRAINER, &process(TRAINER, "", false));
    for (id, module) in [
        (C10, "/opt/torch/libc10_cuda.so"),
        (NCCL, "/opt/libnccl.so.2"),
    ] {
        let module = Some(module.to_owned());
        sample.fact(START, ENGINE, &Fact::Caller(Caller { id, module }));
    }
    let device = Device {
        pid: ENGINE,
        ordinal: 0,
        uuid: Some("GPU-12345678-9abc-def0-1234-56789abcdef0".to_owned()),
        pci_bus_id: None,
    };
    sample.fact(START, ENGINE, &Fact::Device(device));
    for n in 0..4 {
        let block = sized(ENGINE, 100 + n, A + n * 32 * MIB, 20 * MIB);
        sample.call("cudaMalloc", 0, 90_000, block);
    }
    let workspace = sized(ENGINE, 110, A + (1 << 33), 3 * MIB);
    let by_nccl = |event: Event| Event {
        caller: Some(NCCL),
        ..event
    };
    sample.call("cudaMalloc", 0, 90_000, by_nccl(workspace));
    let handle = |handle, event: Event| Event {
        handle: Some(handle),
        ..event
    };
    for n in 0..8 {
        let create = Event {
            address: None,
            location: Some(1),
            location_id: Some(0),
            ..handle(0x10 + n, by_nccl(sized(ENGINE, 120 + n, 0, 4 * MIB)))
        };
        sample.call("cuMemCreate", 0, 5000, create);
    }
    let failed = Event {
        address: None,
        handle: None,
        ..sized(ENGINE, 130, 0, 1 << 36)
    };
    sample.call("cuMemCreate", 2, 5000, failed);
    let reserved = sized(ENGINE, 131, A + (1 << 36), 90 << 30);
    sample.call("cuMemAddressReserve", 0, 5000, reserved);
    let pool = Event {
        location: Some(1),
        location_id: Some(0),
        address: None,
        size: None,
        ..handle(0x9000, sized(ENGINE, 140, 0, 0))
    };
    sample.call("cudaMemPoolCreate", 0, 5000, pool);
    let from_pool = Event {
        related: Some(0x9000),
        ..sized(ENGINE, 141, A + (1 << 34), 6 * MIB)
    };
    sample.call("cudaMallocFromPoolAsync", 0, 5000, from_pool);
    let host = sized(ENGINE, 142, 0x1000_0000, 64 * MIB);
    sample.call("cudaHostAlloc", 0, 5000, host);
    let managed = sized(ENGINE, 143, 0x6000_0000, 16 * MIB);
    sample.call("cudaMallocManaged", 0, 5000, managed);
    for n in 0..3 {
        let report = Event {
            allocated: Some((n + 1) * 20 * MIB),
            reserved: Some(80 * MIB),
            ..sized(ENGINE, 148 + n, A + n * 32 * MIB, 20 * MIB)
        };
        sample.row("c10::reportMemoryUsageToProfiler", Kind::Call, report);
    }
    let reading = Event {
        device_free: Some(1000 * MIB),
        device_total: Some(2000 * MIB),
        ..sized(ENGINE, 160, 0, 0)
    };
    sample.call("cudaMemGetInfo", 0, 5000, reading);
    back(
        &mut sample,
        "cudaFree",
        &sized(ENGINE, 400, A + 96 * MIB, 0),
    );
    for n in 0..6 {
        let event = handle(0x10 + n, at(ENGINE, 500 + n));
        back(&mut sample, "cuMemRelease", &event);
    }
    back(
        &mut sample,
        "cudaFree",
        &sized(TRAINER, 600, 0x7e00_0000_0000, 0),
    );
    let block = sized(TRAINER, 610, 0x7d00_0000_0000, 6 * MIB);
    sample.call("cudaMalloc", 0, 5000, block.clone());
    sample.call(
        "cudaMalloc",
        0,
        5000,
        Event {
            timestamp: block.timestamp + 10_000,
            ..block
        },
    );
    sample.fact(START + SECOND, TRAINER, &Fact::Exit);
    sample
}

fn complete() -> Sample {
    let mut sample = story();
    sample.end(START + 2 * SECOND, |_| {});
    sample
}

fn report(sample: &Sample, at: Option<Time>, timeline: bool) -> Report {
    let file = sample.file();
    let mut reader = Reader::new(&file[..]).expect("a recording");
    let mut collector = Collector::new(at, timeline);
    for batch in &mut reader {
        collector.batch(&batch.expect("memory can be read"));
    }
    collector.finish()
}

fn text(report: &Report) -> String {
    let mut text = Vec::new();
    write_text(report, Colour::Off, &mut text).expect("memory takes all");
    String::from_utf8(text).expect("text")
}

#[test]
fn everything_once() {
    let report = report(&complete(), None, true);
    golden("memory.txt", &text(&report));
    golden("memory.json", &as_json(&report));
}

#[test]
fn a_moment_shows_what_was_live_then() {
    let at = |ms: u64| Some(Time::SinceStart(ms * 1_000_000));
    let live = |at| {
        let report = report(&complete(), at, false);
        let engine = report
            .processes
            .iter()
            .find(|process| process.pid == ENGINE)
            .expect("the engine");
        assert_eq!(engine.end, None);
        engine.devices[0].live_bytes
    };
    assert_eq!(live(at(105)), Some(80 * MIB));
    assert_eq!(live(at(300)), Some((80 + 3 + 32 + 6) * MIB));
    assert_eq!(live(at(450)), Some((60 + 3 + 32 + 6) * MIB));
    assert_eq!(live(None), Some((60 + 3 + 8 + 6) * MIB));
}

#[test]
fn a_process_is_shown_as_it_was_before_it_ended() {
    let report = report(&complete(), None, false);
    let trainer = report
        .processes
        .iter()
        .find(|process| process.pid == TRAINER)
        .expect("the trainer");
    assert_eq!(trainer.end, Some("exit"));
    assert!(!trainer.from_start);
    assert_eq!(trainer.devices[0].live_bytes, Some(6 * MIB));
    assert_eq!(
        (trainer.unknown_frees, trainer.ended.lost_free.count),
        (1, 1)
    );
    assert_eq!(trainer.ended.implicit.bytes, 6 * MIB);
}

/// A recording that begins with a checkpoint tells what one that has everything does.
#[test]
fn a_checkpoint_stands_for_what_came_before() {
    let whole = complete();
    let cut = whole.events.len() / 2;
    let mut ledger = ledger::Ledger::default();
    for (seq, event) in (0..).zip(&whole.events[..cut]) {
        ledger.apply(&Event {
            seq,
            ..event.clone()
        });
    }
    let mut rest = Sample::new();
    // What the recorder repeats.
    let is_name = |event: &&Event| {
        let fact = event.text.as_deref().and_then(Fact::parse);
        matches!(fact, Some(Fact::Caller(_) | Fact::Device(_)))
    };
    rest.events
        .extend(whole.events[..cut].iter().filter(is_name).cloned());
    for fact in ledger.checkpoint() {
        rest.fact(whole.events[cut].timestamp, 0, &fact);
    }
    rest.events.extend_from_slice(&whole.events[cut..]);
    let strip = |report: &Report| {
        let mut json = serde_json::to_value(report).expect("maps have string keys");
        json["recording"] = serde_json::Value::Null;
        json
    };
    let (whole, rest) = (report(&whole, None, false), report(&rest, None, false));
    assert_eq!(strip(&whole), strip(&rest));
    assert_eq!(rest.recording.damaged_checkpoints, 0);
}

#[test]
fn each_json_key_is_documented() {
    assert_documented(&report(&complete(), None, true), &["memory.md"]);
}

#[test]
fn text_fits_80_columns() {
    for line in text(&report(&complete(), None, true)).lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(!line.ends_with(' '), "{line:?}");
    }
}

#[test]
fn a_library_has_one_row_whatever_its_call_sites() {
    let mut sample = Sample::new();
    sample.fact(START, ENGINE, &process(ENGINE, "VLLM::EngineCore", true));
    for id in [7, 8] {
        let module = Some("/opt/torch/libc10_cuda.so".to_owned());
        sample.fact(START, ENGINE, &Fact::Caller(Caller { id, module }));
        let block = Event {
            caller: Some(id),
            ..sized(ENGINE, id.into(), A + u64::from(id) * 32 * MIB, 20 * MIB)
        };
        sample.call("cudaMalloc", 0, 90_000, block);
    }
    // A call that failed, on a device that is not known: nothing to say of that.
    let failed = Event {
        size: Some(1 << 40),
        device: None,
        ..at(ENGINE, 20)
    };
    sample.call("cudaMalloc", 2, 90_000, failed);
    sample.end(START + SECOND, |_| {});
    let report = report(&sample, None, false);
    let [device] = &report.processes[0].devices[..] else {
        panic!("one device: {:?}", report.processes[0].devices)
    };
    let [holder] = &device.holders[..] else {
        panic!("one holder: {:?}", device.holders)
    };
    assert_eq!((holder.live_count, holder.live_bytes), (2, 40 * MIB));
}
