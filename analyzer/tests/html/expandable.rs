//! Segments of PyTorch's allocator that are mapped piece by piece.

use serde_json::json;
use trace::fact::Caller;
use trace::{Event, Fact, Kind};

use crate::sample::{ENGINE, SECOND, START, Sample, at, process};
use crate::{Recording, page_of, supplement};

const ADDRESS: u64 = 0x7f00_0000_0000;

const PIECE: u64 = 20 << 20;

#[test]
fn they_are_held_by_who_took_their_memory() {
    let module = "/opt/torch/lib/libc10_cuda.so";
    let mut sample = Sample::new();
    sample.fact(START, ENGINE, &process(ENGINE, "VLLM::EngineCore", true));
    let caller = Caller {
        id: 0,
        module: Some(module.to_owned()),
    };
    sample.fact(START, ENGINE, &Fact::Caller(caller));
    let range = |address, size: u64| Event {
        address: Some(address),
        size: Some(size.cast_signed()),
        device: Some(0),
        ..at(ENGINE, 100)
    };
    let reserved = range(ADDRESS, 90 << 30);
    sample.call("cuMemAddressReserve", 0, 100, reserved);
    for n in 0..2 {
        let handle = Some(0x10 + n);
        let physical = Event {
            address: None,
            handle,
            location: Some(1),
            location_id: Some(0),
            caller: Some(0),
            ..range(0, PIECE)
        };
        sample.call("cuMemCreate", 0, 100, physical);
        let mapped = Event {
            handle,
            offset: Some(0),
            ..range(ADDRESS + n * PIECE, PIECE)
        };
        sample.call("cuMemMap", 0, 100, mapped);
    }
    let block = 30 << 20;
    let report = Event {
        allocated: Some(block),
        reserved: Some(2 * PIECE),
        ..range(ADDRESS, block)
    };
    sample.row("c10::reportMemoryUsageToProfiler", Kind::Call, report);
    sample.end(START + SECOND, |_| {});
    let recording = Recording::of(&sample);
    let file = recording.file("page.html");
    page_of("memory", &recording.path, &file, &[]);
    let map = &supplement(&file)["maps"][0];
    assert_eq!(map["holders"], json!([module]));
    let [bar] = &map["bars"].as_array().expect("bars")[..] else {
        panic!("{map}");
    };
    assert_eq!(
        (&bar["size"], &bar["holder"]),
        (&json!(2 * PIECE), &json!(0))
    );
    assert_eq!(
        (&bar["api"], &bar["kind"]),
        (&json!("cuMemCreate"), &json!("vmm"))
    );
    let inside = &bar["segment"];
    assert_eq!(
        (&inside["expandable"], &inside["allocated"]),
        (&json!(true), &json!(block))
    );
}
