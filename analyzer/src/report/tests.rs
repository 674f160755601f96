//! A recording that is read by several threads tells what it tells to one.

use std::fs;
use std::path::Path;

use agent_common::ApiId;
use agent_common::launch::Dimensions;
use trace::fact::{Caller, Process, Settings};
use trace::{Event, Fact, Kind, Reader, Writer};

use super::{COLUMNS, Collector};
use crate::Error;
use crate::input::Recording;
use crate::selection::{Selection, Time};

const PID: u32 = 7;
const ROUNDS: u64 = 500;

fn row(api: &str, at: u64, event: Event) -> Event {
    Event {
        api: Some(ApiId::by_name(api).expect("a function of the table")),
        timestamp: at,
        pid: PID,
        tid: PID,
        ..event
    }
}

fn returned(api: &str, at: u64, event: Event) -> Event {
    let (duration, result) = (Some(40), Some(0));
    let event = Event {
        duration,
        result,
        ..event
    };
    row(api, at, event)
}

fn fact(fact: &Fact) -> Event {
    Event {
        kind: Kind::Fact,
        pid: PID,
        text: Some(fact.to_text()),
        ..Event::default()
    }
}

/// Host memory is pinned in every other round, and copied to the device in all.
fn round(number: u64) -> [Event; 5] {
    let at = number * 1_000;
    let block = Some(0x1000 + number % 2 * 0x1000);
    let pinned = Event {
        address: Some(0x9000),
        size: Some(256),
        ..Event::default()
    };
    let copy = Event {
        address: block,
        source: Some(0x9000),
        size: Some(64),
        copy_kind: Some(1),
        ..Event::default()
    };
    let launch = Event {
        kernel: Some(1),
        dimensions: Some(Dimensions {
            grid: [2, 1, 1],
            block: [32, 1, 1],
        }),
        ..Event::default()
    };
    let host = if number.is_multiple_of(2) {
        "cudaHostAlloc"
    } else {
        "cudaFreeHost"
    };
    let taken = Event {
        address: block,
        size: Some(4_096),
        ..Event::default()
    };
    [
        returned(host, at, pinned),
        returned("cudaMalloc", at + 100, taken),
        returned("cudaMemcpyAsync", at + 200, copy),
        row("cudaLaunchKernel", at + 300, launch),
        returned("cudaStreamSynchronize", at + 400, Event::default()),
    ]
}

/// Many batches, some of a few rows.
fn file() -> Vec<u8> {
    let settings = Settings {
        events: vec!["memory".to_owned()],
        ..Settings::default()
    };
    let process = Process {
        pid: PID,
        start_time: 1,
        title: "program".to_owned(),
        from_start: true,
        ..Process::default()
    };
    let caller = Caller {
        id: 0,
        module: Some("/lib/library.so".to_owned()),
    };
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    let facts = [
        Fact::Settings(settings),
        Fact::Process(process),
        Fact::Caller(caller),
    ];
    for event in facts.iter().map(fact) {
        writer.push(&event).expect("memory takes all");
    }
    for number in 0..ROUNDS {
        for event in round(number) {
            writer.push(&event).expect("memory takes all");
        }
        if number.is_multiple_of(7) {
            writer.flush().expect("memory takes all");
        }
    }
    writer.push(&fact(&Fact::End)).expect("memory takes all");
    writer.finish().expect("memory takes all")
}

/// What one thread makes of a file; all of it, findings and what JSON leaves out.
fn by_one_thread(file: &[u8], selection: &Selection) -> String {
    let mut reader = Reader::new(file).expect("a recording").select(COLUMNS);
    let mut collector = Collector::new(selection.clone());
    for batch in &mut reader {
        collector.batch(&batch.expect("memory can be read"));
    }
    let end = reader.end().expect("all was read");
    format!("{:?}", collector.finish(end))
}

fn by_several(path: &Path, selection: &Selection) -> Result<String, Error> {
    let recording = Recording::open(&[path.to_owned()], COLUMNS)?;
    let (collector, ended) = Collector::new(selection.clone()).read(recording, |_| {})?;
    Ok(format!("{:?}", collector.finish(&ended.end)))
}

#[test]
fn several_threads_tell_what_one_tells() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.arrows");
    let file = file();
    let part = Selection {
        from: Some(Time::SinceStart(100_000)),
        to: Some(Time::SinceStart(300_000)),
        ..Selection::default()
    };
    // Whole, without its end marker, and torn: in its last batch, its middle, its first quarter.
    let whole = file.len();
    for length in [whole, whole - 8, whole - 9, whole / 2, whole / 4] {
        let file = &file[..length];
        fs::write(&path, file).expect("the file can be written");
        for selection in [&Selection::default(), &part] {
            let told = by_several(&path, selection).expect("a recording");
            let has_both = told.contains("pinned") && told.contains("pageable");
            assert!(has_both || length < whole - 9, "{told}");
            assert_eq!(told, by_one_thread(file, selection), "{length} bytes");
        }
    }
}

#[test]
fn what_is_no_recording_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.arrows");
    fs::write(&path, "no recording").expect("the file can be written");
    let refused = by_several(&path, &Selection::default());
    assert!(matches!(refused, Err(Error::Read { .. })), "{refused:?}");
}
