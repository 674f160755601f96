//! From what the drain says to what is shown.

use std::sync::Arc;

use agent_common::ApiId;
use trace::{Event, Fact, Kind, fact};

use super::*;
use crate::{serve::Figures, session::fact_event, sink::Sink};

fn call(name: &str) -> Event {
    Event {
        api: Some(ApiId::by_name(name).expect("in the table")),
        kind: Kind::Call,
        pid: 7,
        tid: 7,
        result: Some(0),
        duration: Some(500_000_000),
        device: Some(0),
        ..Event::default()
    }
}

fn feed(sink: &mut dyn Sink, events: &[Event]) {
    for event in events {
        sink.event(event).expect("it takes all");
    }
}

/// What is shown, from what the drain says: should a metric get another name, this fails.
#[test]
fn every_figure_is_found() {
    let figures = Figures::new(Arc::default(), Arc::default());
    let mut sink = figures.sink();
    let kernel = fact::Kernel {
        id: 3,
        name: Some("gemm".to_owned()),
        module: None,
        handle: 0,
    };
    let copy = |kind: u8, bytes: i64| Event {
        copy_kind: Some(kind),
        size: Some(bytes),
        ..call("cudaMemcpy")
    };
    let launch = Event {
        kernel: Some(3),
        ..call("cudaLaunchKernel")
    };
    feed(
        sink.as_mut(),
        &[
            fact_event(7, 7, 0, &Fact::Kernel(kernel)),
            Event {
                address: Some(0x1000_0000),
                size: Some(3 << 20),
                ..call("cudaMalloc")
            },
            Event {
                result: Some(2),
                size: Some(1),
                ..call("cudaMalloc")
            },
            launch.clone(),
            launch,
            call("cudaGraphLaunch"),
            copy(1, 10),
            copy(2, 200),
            copy(3, 3000),
            copy(0, 40_000),
            call("cudaDeviceSynchronize"),
        ],
    );
    let memory = serde_json::to_value(figures.memory()).expect("JSON");
    let memory: Memory = serde_json::from_value(memory).expect("what is read of it is there");
    assert_eq!(memory.schema, MEMORY_SCHEMA);
    // As if it came from a server.
    let page = serde_json::to_string(&figures.metrics()).expect("JSON");
    let page: Page = serde_json::from_str(&page).expect("the same");
    let reading = Reading::new(&page, memory);
    assert_eq!((reading.calls, reading.errors), (10, 1));
    assert_eq!((reading.launches, reading.graphs), (2, 1));
    assert_eq!(reading.kernels, BTreeMap::from([("gemm".to_owned(), 2)]));
    let copied = Copied {
        to_device: 10,
        to_host: 200,
        on_device: 3000,
        other: 40_000,
    };
    assert_eq!(reading.copied, copied);
    assert!((reading.waited - 0.5).abs() < 1e-9, "{}", reading.waited);
    assert_eq!(reading.untraced, None);
    assert_eq!(reading.processes, 1);
    assert!(reading.agent_cpu > 0.0 && reading.agent_memory > 0);
    let malloc = reading.functions["cudaMalloc"];
    assert_eq!((malloc.calls, malloc.errors, malloc.timed), (2, 1, 2));
    assert!((malloc.seconds - 1.0).abs() < 1e-9);
    assert_eq!(reading.by_process["unknown"].calls, 10);
    assert_eq!(reading.devices.len(), 1);
    assert_eq!(reading.devices[0].live, Some(3 << 20));
    let held: Vec<(&str, u64, u64)> = reading
        .holders
        .iter()
        .map(|holder| (holder.key.kind.as_str(), holder.count, holder.bytes))
        .collect();
    assert_eq!(held, [("device", 1, 3 << 20)]);
}
