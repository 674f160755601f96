//! Several recordings, and rolling ones, against one recording of all.

mod sample;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use ledger::Ledger;
use sample::{ENGINE, SECOND, START, Sample};
use serde_json::Value;
use trace::fact::{Account, Clock, Segment};
use trace::{Event, Fact, Kind};

fn run(command: &str, paths: &[&Path], more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cudasnoop-analyzer"))
        .args([command, "--json"])
        .args(paths)
        .args(more)
        .output()
        .expect("the command runs")
}

/// What it prints, without what is about files rather than about what happened.
fn json(command: &str, paths: &[&Path], more: &[&str]) -> Value {
    let output = run(command, paths, more);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let mut json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    if let Some(recording) = json["recording"].as_object_mut() {
        for key in ["events", "segment"] {
            recording.remove(key);
        }
    }
    json
}

/// Key by key: a difference is easier to see than in one long text.
fn assert_same(found: &Value, expected: &Value, what: &str) {
    let (found, expected) = (found.as_object(), expected.as_object());
    let (found, expected) = (found.expect("an object"), expected.expect("an object"));
    assert!(found.keys().eq(expected.keys()), "{what}");
    for (key, value) in found {
        assert_eq!(*value, expected[key], "{what}: {key}");
    }
}

fn fact_of(event: &Event) -> Option<Fact> {
    event.text.as_deref().and_then(Fact::parse)
}

fn whole() -> Sample {
    let mut sample = sample::everything();
    sample.end(START + 10 * SECOND, |_| {});
    sample
}

/// The accounts of rows, as their recorder would have made them.
fn accounts(events: &[Event]) -> Vec<Fact> {
    let mut accounts: BTreeMap<&str, Account> = BTreeMap::new();
    for event in events {
        let Some(api) = event.api.and_then(agent_common::ApiId::api) else {
            continue;
        };
        if event.kind == Kind::Begin {
            continue;
        }
        let account = accounts.entry(api.name).or_default();
        let counter = match event.kind {
            Kind::Call => &mut account.reported,
            Kind::Abandoned => &mut account.abandoned,
            Kind::InFlight | Kind::Begin | Kind::Fact => &mut account.in_flight,
        };
        *counter += 1;
        account.made += 1;
        api.name.clone_into(&mut account.api);
    }
    accounts.into_values().map(Fact::Account).collect()
}

/// Writes the rows as segments of a rolling recording, each with what its recorder knew.
fn roll(folder: &Path, events: &[Event], cuts: &[usize]) {
    let mut ledger = Ledger::default();
    let mut in_force: Vec<Event> = Vec::new();
    let mut seq = 0;
    let bounds: Vec<usize> = [0]
        .iter()
        .chain(cuts)
        .copied()
        .chain([events.len()])
        .collect();
    for (number, part) in (1..).zip(bounds.windows(2)) {
        let now = events[part[0].min(events.len() - 1)].timestamp;
        let mut segment = Sample::new();
        let place = Segment {
            number,
            events_before: part[0] as u64,
            boot_id: "b".to_owned(),
            forgotten_facts: 0,
        };
        segment.fact(now, 0, &Fact::Segment(place));
        let clock = Clock {
            monotonic: now,
            boottime: now,
            realtime: 1_795_800_000 * SECOND + (now - START),
        };
        segment.fact(now, 0, &Fact::Clock(clock));
        segment.events.extend(in_force.iter().cloned());
        for fact in ledger.checkpoint() {
            segment.fact(now, 0, &fact);
        }
        for event in &events[part[0]..part[1]] {
            ledger.apply(&Event {
                seq,
                ..event.clone()
            });
            seq += 1;
            let is_in_force = matches!(
                fact_of(event),
                Some(
                    Fact::Settings(_)
                        | Fact::Process(_)
                        | Fact::Module(_)
                        | Fact::Caller(_)
                        | Fact::Kernel(_)
                )
            );
            if is_in_force {
                in_force.push(event.clone());
            }
            segment.events.push(event.clone());
        }
        for fact in accounts(&events[part[0]..part[1]]) {
            segment.fact(now, 0, &fact);
        }
        segment.fact(now, 0, &Fact::End);
        let name = format!("cudasnoop-20261128T081724Z-{number:06}.arrows");
        fs::write(folder.join(name), segment.file()).expect("the file can be written");
    }
}

/// Rows but for accounts and the end.
fn rows() -> Vec<Event> {
    let is_row = |event: &Event| !matches!(fact_of(event), Some(Fact::Account(_) | Fact::End));
    whole().events.into_iter().filter(is_row).collect()
}

#[test]
fn a_folder_of_segments_tells_what_one_recording_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = rows();
    let one = folder.path().join("one.arrows");
    let mut sample = Sample::new();
    sample.events.clone_from(&rows);
    for fact in accounts(&rows) {
        sample.fact(START + 10 * SECOND, 0, &fact);
    }
    sample.fact(START + 10 * SECOND, 0, &Fact::End);
    fs::write(&one, sample.file()).expect("the file can be written");
    // In the middle of a free, too: between its two rows.
    let begin = rows.iter().position(|event| event.kind == Kind::Begin);
    let begin = begin.expect("a free") + 1;
    for cuts in [
        vec![begin],
        vec![12, begin, rows.len() - 20],
        vec![rows.len() / 2],
    ] {
        let rolling = folder.path().join(format!("{cuts:?}"));
        fs::create_dir(&rolling).expect("a folder");
        roll(&rolling, &rows, &cuts);
        for command in ["report", "memory", "fragmentation", "launches"] {
            let found = json(command, &[&rolling], &[]);
            assert_same(&found, &json(command, &[&one], &[]), command);
        }
        let window = ["--from", "0.25", "--to", "0.7", "--pid", "4242"];
        let found = json("report", &[&rolling], &window);
        assert_same(&found, &json("report", &[&one], &window), "a window");
    }
}

/// The most that was live is early, and a block is freed later.
#[test]
fn the_peak_is_that_of_what_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = rows();
    let begin = rows.iter().position(|event| event.kind == Kind::Begin);
    // Behind both rows of the free.
    roll(folder.path(), &rows, &[begin.expect("a free") + 2]);
    let last = folder
        .path()
        .join("cudasnoop-20261128T081724Z-000002.arrows");
    let engine = |paths: &[&Path]| {
        let memory = json("report", paths, &[])["memory"][0].clone();
        assert_eq!(memory["pid"], ENGINE);
        (memory["peak_bytes"].clone(), memory["live_bytes"].clone())
    };
    let live = 512 + (2 << 20) + (2 << 20) + (1 << 30);
    let peak = live + (20 << 20);
    assert_eq!(engine(&[&last]), (live.into(), live.into()));
    assert_eq!(engine(&[folder.path()]), (peak.into(), live.into()));
}

/// The part of the rows that is about one process.
fn of_process(rows: &[Event], is_of: impl Fn(u32) -> bool) -> Sample {
    let mut sample = Sample::new();
    for event in rows {
        if event.pid == 0 || is_of(event.pid) {
            sample.events.push(event.clone());
        }
    }
    for fact in accounts(&sample.events) {
        sample.fact(START + 10 * SECOND, 0, &fact);
    }
    sample.fact(START + 10 * SECOND, 0, &Fact::End);
    sample
}

#[test]
fn two_recordings_of_a_process_each_tell_what_one_of_both_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = rows();
    let write = |name: &str, sample: &Sample| {
        let path = folder.path().join(name);
        fs::write(&path, sample.file()).expect("the file can be written");
        path
    };
    let both = write("both", &of_process(&rows, |_| true));
    let engine = write("engine", &of_process(&rows, |pid| pid == ENGINE));
    let others = write("others", &of_process(&rows, |pid| pid != ENGINE));
    for command in ["report", "memory", "fragmentation", "launches"] {
        let found = json(command, &[&others, &engine], &[]);
        assert_same(&found, &json(command, &[&both], &[]), command);
    }
}

/// One recorder rolls, another one does not: the checkpoints of the first say nothing of the
/// processes of the second.
#[test]
fn checkpoints_replace_what_is_known_of_their_own_processes_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = rows();
    let engine = of_process(&rows, |pid| pid == ENGINE);
    let path = folder.path().join("engine");
    fs::write(&path, engine.file()).expect("the file can be written");
    let trainer = of_process(&rows, |pid| pid != ENGINE);
    let is_row = |event: &&Event| !matches!(fact_of(event), Some(Fact::Account(_) | Fact::End));
    let trainer: Vec<Event> = trainer.events.iter().filter(is_row).cloned().collect();
    let rolling = folder.path().join("rolling");
    fs::create_dir(&rolling).expect("a folder");
    roll(&rolling, &trainer, &[trainer.len() / 3, trainer.len() / 2]);
    let both = folder.path().join("both");
    fs::write(&both, of_process(&rows, |_| true).file()).expect("the file can be written");
    let found = json("memory", &[&rolling, &path], &[]);
    assert_eq!(
        found["processes"],
        json("memory", &[&both], &[])["processes"]
    );
}

#[test]
fn a_device_can_be_selected_in_every_analysis() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run");
    fs::write(&path, whole().file()).expect("the file can be written");
    for command in ["report", "memory", "fragmentation", "launches"] {
        let none = json(command, &[&path], &["--device", "7"]);
        let text = none.to_string();
        assert!(!text.contains("\"live_bytes\""), "{command}: {text}");
        assert!(!text.contains("\"calls\":[{"), "{command}: {text}");
    }
    let device = json("memory", &[&path], &["--device", "0"]);
    let all = json("memory", &[&path], &[]);
    let of = |json: &Value, pid: u32| {
        let processes = json["processes"].as_array().expect("a list").clone();
        processes.into_iter().find(|process| process["pid"] == pid)
    };
    assert_eq!(of(&device, ENGINE), of(&all, ENGINE));
    // The trainer's memory is on a device that is not known.
    assert_eq!(of(&device, sample::TRAINER), None);
    assert!(of(&all, sample::TRAINER).is_some());
}

#[test]
fn a_segment_that_is_still_written_leaves_losses_unknown_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = rows();
    roll(folder.path(), &rows, &[rows.len() / 2]);
    let last = folder
        .path()
        .join("cudasnoop-20261128T081724Z-000002.arrows");
    let mut bytes = fs::read(&last).expect("a segment");
    bytes.truncate(bytes.len() - 8);
    fs::remove_file(&last).expect("it can be removed");
    let open = folder
        .path()
        .join("cudasnoop-20261128T081724Z-000002.arrows.part");
    // As it is before its end was written: without accounts.
    let reader = trace::Reader::new(&bytes[..]).expect("a recording");
    let events = reader.flat_map(|batch| batch.expect("rows").iter().collect::<Vec<_>>());
    let is_row = |event: &Event| !matches!(fact_of(event), Some(Fact::Account(_) | Fact::End));
    let mut sample = Sample::new();
    sample.events = events.filter(is_row).collect();
    fs::write(&open, sample.file()).expect("the file can be written");
    let output = run("report", &[folder.path()], &[]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["recording"]["complete"], false);
    assert_eq!(json["recording"]["lost"]["ring_full"], Value::Null);
    let accounts = json["accounts"].as_array().expect("a list");
    assert!(accounts.iter().all(|account| account["balanced"] == true));
    assert_eq!(
        (
            &json["recording"]["segment"]["number"],
            &json["recording"]["segment"]["last"]
        ),
        (&1.into(), &2.into())
    );
}
