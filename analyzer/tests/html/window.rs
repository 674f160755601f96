//! A page of a part of a recording.

use serde_json::Value;
use trace::{Event, Kind};

use crate::sample::{ENGINE, SECOND, START, Sample, at, process};
use crate::{Recording, page_of, supplement};

const SIZE: u64 = 4 << 20;

/// A block from 0.1 s to 5 s, launches at 2 s, and a wait at 3.5 s.
fn recording() -> Recording {
    let mut sample = Sample::new();
    sample.fact(START, ENGINE, &process(ENGINE, "VLLM::EngineCore", true));
    let block = |ms| Event {
        address: Some(0x7f00_0000_0000),
        device: Some(0),
        ..at(ENGINE, ms)
    };
    let size = Some(SIZE.cast_signed());
    sample.call("cudaMalloc", 0, 1000, Event { size, ..block(100) });
    for ms in 2000..2010 {
        sample.row("cudaLaunchKernel", Kind::Call, at(ENGINE, ms));
    }
    sample.call("cudaStreamSynchronize", 0, 1000, at(ENGINE, 3500));
    sample.row("cudaFree", Kind::Begin, block(5000));
    sample.call("cudaFree", 0, 1000, block(5000));
    sample.end(START + 6 * SECOND, |_| {});
    Recording::of(&sample)
}

/// The only curve of a page.
struct Seen {
    /// Where it begins, ns of the recording.
    from: u64,
    /// Least and most bytes live along it, of each bin; `None`: before there was any.
    live: Vec<Option<(u64, u64)>>,
    /// Where the page ends, ns of the recording.
    to: u64,
    /// Bytes in its map.
    mapped: u64,
}

fn looked_at(part: &[&str]) -> Seen {
    let recording = recording();
    let file = recording.file("page.html");
    page_of("report", &recording.path, &file, part);
    let page = supplement(&file);
    let [curve] = &page["curves"].as_array().expect("curves")[..] else {
        panic!("{page}");
    };
    let bound = |name: &str| {
        let values = curve["live"][name].as_array().expect("values").iter();
        values.map(Value::as_u64).collect::<Vec<_>>()
    };
    let bounds = bound("least").into_iter().zip(bound("most"));
    let maps = page["maps"].as_array().expect("maps").iter();
    let bars = maps.flat_map(|map| map["bars"].as_array().expect("bars"));
    Seen {
        from: curve["from"].as_u64().expect("a moment") - START,
        live: bounds.map(|(least, most)| least.zip(most)).collect(),
        to: page["end_ns"].as_u64().expect("a moment") - START,
        mapped: bars.filter_map(|bar| bar["size"].as_u64()).sum(),
    }
}

#[test]
fn memory_of_before_is_there_from_its_beginning() {
    let parts: [(&[&str], _, _); 4] = [
        // Launches alone.
        (&["--from", "1", "--to", "3"], SECOND, 3 * SECOND),
        // No row at all.
        (&["--from", "2.5", "--to", "3"], 5 * SECOND / 2, 3 * SECOND),
        // No row, and nothing in it that ends it either.
        (&["--from", "4", "--to", "4.5"], 4 * SECOND, 9 * SECOND / 2),
        // A wait alone.
        (&["--from", "3", "--to", "4"], 3 * SECOND, 4 * SECOND),
    ];
    for (part, from, to) in parts {
        let seen = looked_at(part);
        let bounds = (seen.from, seen.to, seen.mapped);
        assert_eq!(bounds, (from, to, SIZE), "{part:?}");
        let is_live = |live: &Option<(u64, u64)>| *live == Some((SIZE, SIZE));
        assert!(seen.live.len() > 1, "{part:?}: {:?}", seen.live);
        assert!(seen.live.iter().all(is_live), "{part:?}: {:?}", seen.live);
    }
}

#[test]
fn what_changes_in_it_is_seen_to() {
    let seen = looked_at(&["--from", "4.5"]);
    assert_eq!((seen.from, seen.mapped), (9 * SECOND / 2, 0));
    assert_eq!(seen.live.first(), Some(&Some((SIZE, SIZE))));
    assert_eq!(seen.live.last(), Some(&Some((0, SIZE))));
}

#[test]
fn a_beginning_before_the_recording_is_its_own() {
    let moment = format!("@{}", START - SECOND);
    let seen = looked_at(&["--from", &moment, "--to", "3"]);
    assert_eq!(seen.from, 0);
    assert_eq!(seen.live.first(), Some(&None));
    assert_eq!(seen.live.last(), Some(&Some((SIZE, SIZE))));
}

#[test]
fn marks_of_another_part_are_not_there() {
    let mut sample = crate::sample::everything();
    sample.end(START + 10 * SECOND, |_| {});
    let recording = Recording::of(&sample);
    let file = recording.file("page.html");
    page_of("report", &recording.path, &file, &["--from", "5"]);
    let page = supplement(&file);
    let marks = page["marks"].as_array().expect("marks");
    let what: Vec<&Value> = marks.iter().map(|mark| &mark["what"]).collect();
    // The gap was at 0.1 s, and the allocation that failed at 0.3 s.
    assert_eq!(what, ["ended"]);
    assert_eq!(page["gaps"], 0);
}
