//! Launches of recordings that are made here: golden files, captures and graphs.
//!
//! `UPDATE_GOLDEN=1 cargo test -p analyzer` writes the golden files anew.

mod printed;
mod sample;

use agent_common::flags;
use agent_common::launch::Dimensions;
use analyzer::launches::{LaunchReport, write};
use analyzer::report::Collector;
use analyzer::selection::Selection;
use analyzer::text::Colour;
use printed::{as_json, assert_documented, golden};
use sample::{ENGINE, SECOND, START, Sample, at};
use trace::fact::Kernel;
use trace::{Event, Fact, Kind, Reader};

fn report(sample: &Sample) -> LaunchReport {
    let file = sample.file();
    let mut reader = Reader::new(&file[..]).expect("a recording");
    let mut collector = Collector::new(Selection::default());
    for batch in &mut reader {
        collector.batch(&batch.expect("memory can be read"));
    }
    LaunchReport::of(collector.finish(reader.end().expect("all was read")))
}

fn text(report: &LaunchReport) -> String {
    let mut text = Vec::new();
    write(report, Colour::Off, &mut text).expect("memory takes all");
    String::from_utf8(text).expect("text")
}

fn launch(ms: u64, kernel: u32, flags: u32) -> Event {
    Event {
        kernel: Some(kernel),
        stream: Some(0x77),
        dimensions: Some(Dimensions {
            grid: [4, 1, 1],
            block: [128, 1, 1],
        }),
        flags,
        ..at(ENGINE, ms)
    }
}

/// An engine that launches two kernels, captures one of them thrice into a graph of five nodes,
/// and launches that twice; and a graph that was there before.
fn story() -> Sample {
    const GRAPH: u64 = 0x100;
    const EXEC: u64 = 0x200;
    let mut sample = Sample::new();
    sample.fact(
        START,
        ENGINE,
        &sample::process(ENGINE, "VLLM::EngineCore", true),
    );
    for (id, name) in [(0, Some("_Z11gemm_kernelPfPKfS1_iii")), (1, None)] {
        let kernel = Kernel {
            id,
            name: name.map(str::to_owned),
            module: Some("/opt/torch/libtorch_cuda.so".to_owned()),
            handle: 0x5550 + u64::from(id),
        };
        sample.fact(START, ENGINE, &Fact::Kernel(kernel));
    }
    let handle = |ms, handle, related| Event {
        handle,
        related,
        ..at(ENGINE, ms)
    };
    for ms in 1..6 {
        sample.row("cudaLaunchKernel", Kind::Call, launch(ms, 0, 0));
    }
    sample.row("cuLaunchKernel", Kind::Call, launch(6, 1, 0));
    sample.call("cudaStreamBeginCapture", 0, 10, at(ENGINE, 7));
    for ms in 8..11 {
        sample.row(
            "cudaLaunchKernel",
            Kind::Call,
            launch(ms, 0, flags::CAPTURED),
        );
    }
    sample.call("cudaStreamEndCapture", 0, 10, handle(11, Some(GRAPH), None));
    let nodes = Event {
        count: Some(5),
        ..handle(12, Some(GRAPH), None)
    };
    sample.call("cudaGraphGetNodes", 0, 10, nodes);
    let made = handle(13, Some(EXEC), Some(GRAPH));
    sample.call("cudaGraphInstantiateWithFlags", 0, 10, made);
    // The graph may go; what was made of it stays.
    sample.call("cudaGraphDestroy", 0, 10, handle(14, Some(GRAPH), None));
    for ms in 15..17 {
        sample.call("cudaGraphLaunch", 0, 9_000, handle(ms, Some(EXEC), None));
    }
    sample.call("cudaGraphLaunch", 0, 9_000, handle(17, Some(0x300), None));
    sample.end(START + 10 * SECOND, |_| {});
    sample
}

#[test]
fn everything_once() {
    let report = report(&story());
    golden("launches.txt", &text(&report));
    golden("launches.json", &as_json(&report));
}

#[test]
fn captured_launches_are_not_those_that_ran() {
    let report = report(&story());
    assert_eq!(
        (report.launches, report.captured, report.unnamed),
        (9, 3, 1)
    );
    assert_eq!((report.graph_launches, report.in_graphs), (3, 6));
    let [ours, before] = &report.graphs[..] else {
        panic!("two graphs: {:?}", report.graphs)
    };
    assert_eq!(
        (ours.launches, ours.nodes, ours.kernels),
        (2, Some(5), Some(3))
    );
    assert_eq!(
        (before.launches, before.nodes, before.kernels),
        (1, None, None)
    );
    let shares: f64 = report.kernels.iter().map(|kernel| kernel.share).sum();
    assert!((shares - 1.0).abs() < 1e-9);
}

#[test]
fn each_json_key_is_documented() {
    assert_documented(&report(&story()), &["launches.md", "report.md"]);
}

#[test]
fn text_fits_80_columns() {
    for line in text(&report(&story())).lines() {
        assert!(
            line.chars().count() <= 80 && !line.ends_with(' '),
            "{line:?}"
        );
    }
}
