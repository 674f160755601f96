//! Recordings that are read as one tell what one recording of all would.

use std::fs;
use std::path::{Path, PathBuf};

use trace::fact::{Caller, Clock, Process, Segment, Settings};
use trace::{Event, Fact, Kind, Writer};

use super::{Batches, Recording};
use crate::Error;

const SECOND: u64 = 1_000_000_000;
const COLUMNS: &[&str] = &["duration", "api", "kernel", "caller", "text"];

/// A machine: its boot, what it calls itself, and when it booted, ns since 1970.
struct Machine {
    boot: &'static str,
    host: &'static str,
    namespace: u64,
    booted: u64,
}

const NODE: Machine = Machine {
    boot: "b1",
    host: "node",
    namespace: 1,
    booted: 1_000 * SECOND,
};

const LATER_NODE: Machine = Machine {
    boot: "b2",
    host: "later",
    namespace: 1,
    booted: 1_500 * SECOND,
};

fn fact(timestamp: u64, pid: u32, fact: &Fact) -> Event {
    Event {
        timestamp,
        pid,
        kind: Kind::Fact,
        text: Some(fact.to_text()),
        ..Event::default()
    }
}

impl Machine {
    fn begin(&self, timestamp: u64) -> Vec<Event> {
        let settings = Settings {
            host: self.host.to_owned(),
            events: vec!["memory".to_owned()],
            boot_id: Some(self.boot.to_owned()),
            pid_namespace: Some(self.namespace),
            ..Settings::default()
        };
        let clock = Clock {
            monotonic: timestamp,
            boottime: timestamp,
            realtime: self.booted + timestamp,
        };
        vec![
            fact(timestamp, 0, &Fact::Settings(settings)),
            fact(timestamp, 0, &Fact::Clock(clock)),
        ]
    }
}

fn process(pid: u32) -> Event {
    let process = Process {
        pid,
        start_time: 5,
        from_start: true,
        ..Process::default()
    };
    fact(0, pid, &Fact::Process(process))
}

fn call(timestamp: u64, pid: u32, caller: u32) -> Event {
    Event {
        timestamp,
        pid,
        caller: Some(caller),
        duration: Some(10),
        api: agent_common::ApiId::by_name("cudaMalloc"),
        ..Event::default()
    }
}

fn write(path: &Path, events: &[Event]) -> PathBuf {
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    for event in events {
        writer.push(event).expect("memory takes all");
    }
    let file = writer.finish().expect("memory takes all");
    fs::write(path, file).expect("the file can be written");
    path.to_owned()
}

fn read(paths: &[PathBuf]) -> (Vec<Event>, Vec<String>) {
    let mut recording = Recording::open(paths, COLUMNS).expect("recordings");
    let batches = recording.by_ref().map(|batch| batch.expect("a batch"));
    let events = batches.flat_map(|batch| batch.iter().collect::<Vec<_>>());
    let events = events.collect();
    (events, recording.ended().notes)
}

/// Calls as time, process and caller.
fn calls(events: &[Event]) -> Vec<(u64, u32, Option<u32>)> {
    let calls = events.iter().filter(|event| event.kind == Kind::Call);
    calls
        .map(|call| (call.timestamp, call.pid, call.caller))
        .collect()
}

fn ends(events: &[Event]) -> usize {
    let end = Fact::End.to_text();
    let is_end = |event: &&Event| event.text.as_ref() == Some(&end);
    events.iter().filter(is_end).count()
}

#[test]
fn recordings_of_one_boot_are_merged_by_its_clock_and_keep_their_ids() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut a = NODE.begin(10);
    a.extend([
        process(7),
        call(100, 7, 0),
        call(300, 7, 1),
        fact(400, 0, &Fact::End),
    ]);
    let mut b = NODE.begin(20);
    b.extend([
        process(8),
        call(200, 8, 0),
        call(250, 8, 0),
        fact(260, 0, &Fact::End),
    ]);
    let paths = [
        write(&folder.path().join("a"), &a),
        write(&folder.path().join("b"), &b),
    ];
    let (events, notes) = read(&paths);
    // Both call theirs 0; no two callers are one.
    assert_eq!(
        calls(&events),
        [
            (100, 7, Some(0)),
            (200, 8, Some(1)),
            (250, 8, Some(1)),
            (300, 7, Some(2))
        ]
    );
    assert_eq!((ends(&events), notes), (2, Vec::new()));
    let last = events.last().and_then(|event| event.text.as_deref());
    assert_eq!(last, Some(Fact::End.to_text().as_str()));
    assert!(
        events
            .iter()
            .map(|event| event.seq)
            .eq(0..events.len() as u64)
    );
}

#[test]
fn recordings_of_two_hosts_are_on_one_clock_and_their_processes_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut a = NODE.begin(600 * SECOND);
    a.extend([
        process(7),
        call(601 * SECOND, 7, 0),
        call(603 * SECOND, 7, 0),
    ]);
    // The same process id at the same time of day, 2 s later.
    let mut b = LATER_NODE.begin(100 * SECOND);
    let caller = Caller {
        id: 0,
        module: Some("/lib/b.so".to_owned()),
    };
    b.extend([
        process(7),
        fact(101 * SECOND, 7, &Fact::Caller(caller)),
        call(102 * SECOND, 7, 0),
        fact(103 * SECOND, 0, &Fact::End),
    ]);
    let paths = [
        write(&folder.path().join("b"), &b),
        write(&folder.path().join("a"), &a),
    ];
    let (events, notes) = read(&paths);
    let ours = 10_000_007;
    let found = calls(&events);
    let times: Vec<_> = found
        .iter()
        .map(|(time, pid, _)| (time / SECOND, *pid))
        .collect();
    assert_eq!(times, [(601, ours), (602, 7), (603, ours)]);
    let told = events
        .iter()
        .find_map(|event| match Fact::parse(event.text.as_deref()?) {
            Some(Fact::Caller(caller)) => Some(caller),
            Some(_) | None => None,
        });
    let told = told.expect("the caller");
    assert_eq!(Some(told.id), found[1].2);
    assert_ne!(found[0].2, found[1].2);
    // One has no end: so the whole has none.
    assert_eq!(ends(&events), 0);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("10,000,000"), "{notes:?}");
}

#[test]
fn two_pods_of_one_node_have_one_clock_and_other_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    let pod = Machine {
        host: "pod",
        namespace: 2,
        ..NODE
    };
    let mut a = NODE.begin(10);
    a.extend([process(7), call(100, 7, 0)]);
    let mut b = pod.begin(10);
    b.extend([process(7), call(50, 7, 0)]);
    let paths = [
        write(&folder.path().join("a"), &a),
        write(&folder.path().join("b"), &b),
    ];
    let (events, _) = read(&paths);
    let times: Vec<_> = calls(&events).iter().map(|call| (call.0, call.1)).collect();
    assert_eq!(times, [(50, 10_000_007), (100, 7)]);
}

#[test]
fn a_process_that_two_recordings_have_at_once_is_told_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut a = NODE.begin(10);
    a.extend([process(7), call(100, 7, 0), call(300, 7, 0)]);
    let mut later = NODE.begin(400);
    later.extend([process(7), call(500, 7, 0)]);
    let a = write(&folder.path().join("a"), &a);
    let later = write(&folder.path().join("later"), &later);
    assert_eq!(read(&[a.clone(), later]).1, Vec::<String>::new());
    let notes = read(&[a.clone(), a]).1;
    assert_eq!(notes.len(), 1);
    assert!(notes[0].contains("counts twice"), "{notes:?}");
}

#[test]
fn a_recording_without_a_clock_has_no_place_among_those_of_other_hosts() {
    let folder = tempfile::tempdir().expect("a folder");
    let a = write(&folder.path().join("a"), &NODE.begin(10));
    let b = write(&folder.path().join("b"), &[call(1, 1, 1)]);
    let error = Recording::open(&[a, b], COLUMNS).expect_err("no clock");
    assert!(matches!(error, Error::NoClock { .. }), "{error}");
}

fn segment(number: u64, boot: &str) -> Event {
    let segment = Segment {
        number,
        events_before: 0,
        boot_id: boot.to_owned(),
        forgotten_facts: 0,
    };
    fact(0, 0, &Fact::Segment(segment))
}

fn segment_file(folder: &Path, number: u64, rest: &[Event]) -> PathBuf {
    let mut events = vec![segment(number, "b1")];
    events.extend_from_slice(rest);
    let name = format!("cudasnoop-20261128T081724Z-{number:06}.arrows");
    write(&folder.join(name), &events)
}

#[test]
fn segments_are_one_recording_however_they_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let files: Vec<PathBuf> = [9, 10, 12]
        .into_iter()
        .map(|number| segment_file(path, number, &[call(number, 1, 0)]))
        .collect();
    fs::write(path.join("notes.txt"), "dear diary").expect("a file");
    let whole = read(&[path.to_owned()]);
    let times: Vec<u64> = calls(&whole.0).iter().map(|call| call.0).collect();
    assert_eq!(times, [9, 10, 12]);
    assert_eq!(whole.1.len(), 1);
    assert!(
        whole.1[0].contains("segments 11 to 11 are missing"),
        "{:?}",
        whole.1
    );
    let shuffled = [files[2].clone(), files[0].clone(), files[1].clone()];
    assert_eq!(read(&shuffled), whole);
}

#[test]
fn segments_of_another_boot_are_another_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let with = |machine: &Machine, number, at: u64| {
        let mut events = vec![segment(number, machine.boot)];
        events.extend(machine.begin(at));
        events.push(call(at + 1, 7, 0));
        let name = format!("cudasnoop-20261128T081724Z-{number:06}.arrows");
        write(&path.join(name), &events);
    };
    with(&NODE, 1, 600 * SECOND);
    with(&LATER_NODE, 2, 200 * SECOND);
    let times: Vec<_> = calls(&read(&[path.to_owned()]).0)
        .iter()
        .map(|call| (call.0 / SECOND, call.1))
        .collect();
    assert_eq!(times, [(600, 7), (700, 10_000_007)]);
}

#[test]
fn a_segment_whose_beginning_was_not_written_is_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    segment_file(path, 1, &[call(5, 1, 0)]);
    fs::write(
        path.join("cudasnoop-20261128T081724Z-000002.arrows.part"),
        "",
    )
    .expect("a file");
    let (events, notes) = read(&[path.to_owned()]);
    assert_eq!((calls(&events).len(), notes.len()), (1, 1));
    assert!(notes[0].contains("it is empty"), "{notes:?}");
}

#[test]
fn a_folder_without_segments_is_no_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = Recording::open(&[folder.path().to_owned()], COLUMNS).expect_err("empty");
    assert!(matches!(error, Error::NoSegments { .. }), "{error}");
}

#[test]
fn a_folder_goes_on_while_its_recorder_holds_the_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    segment_file(path, 1, &[call(5, 1, 0)]);
    let open = segment_file(path, 2, &[call(6, 1, 0)]);
    let part = path.join("cudasnoop-20261128T081724Z-000002.arrows.part");
    // Torn in the middle of a batch, as it may be read at any moment.
    let bytes = fs::read(&open).expect("read");
    fs::write(&part, &bytes[..bytes.len() - 20]).expect("written");
    fs::remove_file(open).expect("removed");
    let ended = |paths: &[PathBuf]| {
        let mut recording = Recording::open(paths, COLUMNS).expect("recordings");
        let batches = recording.by_ref().map(|batch| batch.expect("a batch"));
        let rows: usize = batches.map(|batch| batch.len()).sum();
        (rows, recording.ended())
    };
    // Its recorder died.
    let (rows, dead) = ended(&[path.to_owned()]);
    assert!(!dead.is_live && dead.notes.is_empty(), "{dead:?}");
    assert_eq!(dead.cut.len(), 1);
    let lock = fs::File::open(path).expect("a folder");
    lock.try_lock().expect("nobody has it");
    let (rows_live, live) = ended(&[path.to_owned()]);
    assert_eq!(rows_live, rows);
    assert!(live.is_live && live.cut.is_empty(), "{live:?}");
    assert!(live.notes[0].contains("is being written"), "{live:?}");
    assert!(matches!(live.end, trace::End::Complete));
    // A segment that was whole when it was listed is not written any more.
    let closed = path.join("cudasnoop-20261128T081724Z-000001.arrows");
    assert!(!ended(&[closed]).1.is_live);
}

#[test]
fn a_segment_that_is_removed_while_others_are_read_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let files: Vec<PathBuf> = (1..=3)
        .map(|number| segment_file(path, number, &[call(number, 1, 0)]))
        .collect();
    // Without a thread that reads ahead: it would race with who removes it.
    let mut recording = Batches::open(&[path.to_owned()], COLUMNS).expect("a recording");
    fs::remove_file(&files[1]).expect("removed");
    let batches = recording.by_ref().map(|batch| batch.expect("a batch"));
    let events: Vec<Event> = batches
        .flat_map(|batch| batch.iter().collect::<Vec<_>>())
        .collect();
    let times: Vec<u64> = calls(&events).iter().map(|call| call.0).collect();
    assert_eq!(times, [1, 3]);
    let notes = recording.ended().notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].contains("000002.arrows was removed meanwhile"),
        "{notes:?}"
    );
}
