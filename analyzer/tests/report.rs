//! Reports of recordings that are made here: golden files, and what is wrong with a recording.
//!
//! `UPDATE_GOLDEN=1 cargo test -p analyzer` writes the golden files anew.

mod printed;
mod sample;

use agent_common::ApiId;
use agent_common::launch::Dimensions;
use analyzer::report::{Collector, Report};
use analyzer::selection::{Selection, Time};
use analyzer::text::{self, Colour};
use printed::{as_json, assert_documented, golden};
use proptest::array::uniform8;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use sample::{ENGINE, SECOND, START, Sample, TRAINER, at};
use trace::{Cause, End, Event, Fact, Kind, Reader, fact};

fn report(file: &[u8], selection: Selection) -> Report {
    let mut reader = Reader::new(file).expect("a recording");
    let mut collector = Collector::new(selection);
    for batch in &mut reader {
        collector.batch(&batch.expect("memory can be read"));
    }
    collector.finish(reader.end().expect("all was read"))
}

fn whole(sample: &Sample) -> Report {
    report(&sample.file(), Selection::default())
}

fn complete() -> Sample {
    let mut sample = sample::everything();
    sample.end(START + 10 * SECOND, |_| {});
    sample
}

fn as_text(report: &Report) -> String {
    let mut text = Vec::new();
    text::write(report, Colour::Off, &mut text).expect("memory takes all");
    String::from_utf8(text).expect("text")
}

#[test]
fn everything_once() {
    let report = whole(&complete());
    golden("everything.txt", &as_text(&report));
    golden("everything.json", &as_json(&report));
}

#[test]
fn a_recording_that_was_cut_says_so() {
    let mut file = sample::everything().file();
    file.truncate(file.len() - 8); // the end marker
    let report = report(&file, Selection::default());
    assert!(report.recording.truncated && !report.recording.complete);
    assert_eq!(report.recording.lost.any(), None);
    golden("cut.txt", &as_text(&report));
}

#[test]
fn a_segment_that_breaks_off_is_told_while_the_recording_goes_on() {
    let found = |file: &[u8]| -> Vec<String> {
        let mut reader = Reader::new(file).expect("a recording");
        let mut collector = Collector::new(Selection::default());
        for batch in &mut reader {
            collector.batch(&batch.expect("memory can be read"));
        }
        collector.goes_on();
        let report = collector.finish(reader.end().expect("all was read"));
        let ids = report.findings.into_iter().map(|finding| finding.id);
        ids.filter(|id| ["recording.live", "recording.incomplete"].contains(&id.as_str()))
            .collect()
    };
    let mut file = complete().file();
    assert_eq!(found(&file), ["recording.live"]);
    // The beginning of another batch stands where the end marker would.
    file.truncate(file.len() - 8);
    file.extend_from_within(..100);
    assert_eq!(found(&file), ["recording.incomplete", "recording.live"]);
}

#[test]
fn a_call_whose_window_was_over_is_no_dead_thread() {
    let mut sample = Sample::new();
    sample.fact(START, 0, &Fact::Settings(sample::settings(Some(0.01))));
    let cut = Event {
        duration: Some(60_000_000),
        ..at(ENGINE, 1)
    };
    sample.row("cudaStreamSynchronize", Kind::Abandoned, cut.clone());
    let found = |sample: &Sample| {
        let report = whole(sample);
        let title = "or the call's window was over";
        assert!(as_text(&report).contains(title), "{}", as_text(&report));
        let mut findings = report.findings.iter();
        let finding = findings.find(|finding| finding.id == "recording.abandoned");
        let calls = finding.and_then(|finding| finding.numbers["calls"].as_u64());
        (report.abandoned.len(), calls)
    };
    assert_eq!(found(&sample), (1, None));
    // This one is traced all the time.
    sample.row("cudaMalloc", Kind::Abandoned, cut);
    assert_eq!(found(&sample), (2, Some(1)));
}

#[test]
fn kernels_of_a_graph_are_unknown_where_launches_were_not_traced() {
    let kernels = |events: &[&str]| {
        let mut sample = Sample::new();
        let settings = fact::Settings {
            events: events.iter().map(|family| (*family).to_owned()).collect(),
            ..fact::Settings::default()
        };
        sample.fact(START, 0, &Fact::Settings(settings));
        let (graph, exec) = (Some(1), Some(2));
        for (api, handle, related) in [
            ("cudaStreamEndCapture", graph, None),
            ("cudaGraphInstantiate", exec, graph),
            ("cudaGraphLaunch", exec, None),
        ] {
            let call = Event {
                handle,
                related,
                ..at(ENGINE, 1)
            };
            sample.call(api, 0, 1_000, call);
        }
        whole(&sample).graph_launches[0].kernels
    };
    assert_eq!(kernels(&["graph"]), None);
    assert_eq!(kernels(&["graph", "launch"]), Some(0));
}

#[test]
fn a_segment_is_whole_as_a_segment() {
    let mut sample = Sample::new();
    let segment = fact::Segment {
        number: 12,
        events_before: 34_567,
        boot_id: String::new(),
        forgotten_facts: 0,
    };
    sample.fact(START, 0, &Fact::Segment(segment));
    let unwritten = fact::Unwritten {
        events: 890,
        cause: "disk_full".to_owned(),
    };
    sample.fact(START, 0, &Fact::Unwritten(unwritten));
    sample.call("cudaFree", 0, 10, at(ENGINE, 1));
    sample.call("cudaFree", 0, 10, at(ENGINE, 2));
    sample.end(START + SECOND, |account| {
        account.made = 4;
        account.carried_in = 1;
        account.carried_out = 3;
    });
    let report = whole(&sample);
    assert!(report.recording.complete);
    let place = report.recording.segment.expect("a segment");
    assert_eq!((place.number, place.events_before), (12, 34_567));
    assert!(report.accounts[0].balanced);
    assert_eq!(report.recording.lost.unwritten, Some(890));
    golden("segment.txt", &as_text(&report));
}

#[test]
fn losses_and_wrong_accounts_are_loud() {
    let mut sample = sample::everything();
    sample.end(START + 10 * SECOND, |account| match account.api.as_str() {
        "cudaMalloc" => account.made += 3,
        "cudaLaunchKernel" => {
            account.made += 1000;
            account.lost_ring += 1000;
        }
        "cudaFree" => account.lost_extra += 2,
        "cudaMemcpy" => {
            account.made += 1;
            account.reported += 1; // Reported, and yet not in the file.
        }
        _ => {}
    });
    let report = whole(&sample);
    let wrong: Vec<&str> = report
        .accounts
        .iter()
        .filter(|account| !account.balanced)
        .map(|a| a.api.as_str())
        .collect();
    assert_eq!(wrong, ["cudaMalloc", "cudaMemcpy"]);
    assert_eq!(report.recording.lost.ring_full, Some(1000));
    assert_eq!(report.recording.lost.ring_full_extra, Some(2));
    golden("lossy.txt", &as_text(&report));
}

#[test]
fn rows_without_an_account_do_not_balance() {
    let mut sample = Sample::new();
    sample.call("cudaFree", 0, 10, at(ENGINE, 1));
    sample.end(START, |account| account.api = "cudaOfTomorrow".to_owned());
    let report = whole(&sample);
    let account = |api: &str| {
        report
            .accounts
            .iter()
            .find(|account| account.api == api)
            .expect("an account")
    };
    // Of a later version: its rows are those of functions that this one does not know.
    assert_eq!(account("cudaOfTomorrow").rows, None);
    assert!(account("cudaOfTomorrow").balanced);
    assert_eq!(account("cudaFree").rows, Some(1));
    assert!(!account("cudaFree").balanced);
}

#[test]
fn losses_are_unknown_without_accounts_unless_there_were_no_calls() {
    let mut idle = Sample::new();
    idle.fact(START, 0, &Fact::End);
    assert_eq!(whole(&idle).recording.lost.any(), Some(false));
    let mut busy = Sample::new();
    busy.call("cudaFree", 0, 10, at(ENGINE, 1));
    busy.fact(START, 0, &Fact::End);
    assert_eq!(whole(&busy).recording.lost.any(), None);
}

proptest! {
    #[test]
    fn whatever_rows_say_they_break_nothing(rows in vec(row(), 0..60), from in edge(), to in edge()) {
        let mut sample = Sample::new();
        sample.events = rows;
        let window = |moment: Option<u64>| moment.map(Time::Monotonic);
        let selection = Selection { from: window(from), to: window(to), ..Selection::default() };
        let report = report(&sample.file(), selection);
        prop_assert_eq!(report.recording.events, sample.events.len() as u64);
        as_text(&report);
        as_json(&report);
    }
}

fn edge() -> impl Strategy<Value = Option<u64>> {
    select(vec![
        None,
        Some(0),
        Some(1),
        Some(4096),
        Some(1 << 63),
        Some(u64::MAX),
    ])
}

/// A row with any values, of a few processes, threads and addresses.
fn row() -> impl Strategy<Value = Event> {
    let facts = vec![
        Fact::Exit.to_text(),
        Fact::Exec.to_text(),
        Fact::End.to_text(),
        sample::process(ENGINE, "a", true).to_text(),
        Fact::RecursionMisses { count: u64::MAX }.to_text(),
        Fact::Hold { duration: u64::MAX }.to_text(),
        "{}".to_owned(),
    ];
    let numbers = uniform8(edge());
    (
        select(Kind::ALL.to_vec()),
        0..agent_common::APIS.len(),
        numbers,
        0..3u32,
        select(facts),
    )
        .prop_map(|(kind, api, numbers, small, fact)| {
            let [
                timestamp,
                duration,
                result,
                device,
                address,
                size,
                kernel,
                grid,
            ] = numbers;
            let is_fact = kind == Kind::Fact;
            let number = |value: Option<u64>| value.unwrap_or(7);
            let low = |value: Option<u64>| value.map(|value| (value & 0xffff_ffff) as u32);
            let dimensions = low(grid).map(|x| Dimensions {
                grid: [x; 3],
                block: [x; 3],
            });
            Event {
                timestamp: number(timestamp),
                duration,
                pid: ENGINE + small,
                tid: small,
                kind,
                api: (!is_fact).then(|| ApiId(u16::try_from(api).expect("a small table"))),
                result: low(result).map(u32::cast_signed),
                device: low(device).map(u32::cast_signed),
                address,
                size: size.map(u64::cast_signed),
                copy_kind: low(device).map(|kind| (kind & 0xff) as u8),
                dimensions,
                handle: address,
                kernel: low(kernel),
                allocated: size,
                text: is_fact.then_some(fact),
                ..Event::default()
            }
        })
}

#[test]
fn an_empty_recording_is_no_error() {
    let report = whole(&Sample::new());
    assert_eq!(report.recording.events, 0);
    assert!(!report.recording.complete);
    golden("empty.txt", &as_text(&report));
}

#[test]
fn damage_at_the_end_is_truncation() {
    let mut file = complete().file();
    let middle = file.len() / 2;
    file.truncate(middle);
    let mut reader = Reader::new(&file[..]).expect("the header is whole");
    assert_eq!(reader.by_ref().count(), 0);
    assert!(matches!(
        reader.end(),
        Some(End::Truncated {
            cause: Cause::Torn,
            ..
        })
    ));
    let report = report(&file, Selection::default());
    assert!(report.recording.truncated && !report.recording.complete);
}

#[test]
fn a_window_selects_calls_by_entry_and_memory_by_its_end() {
    let file = complete().file();
    let selection = Selection {
        from: Some(Time::SinceStart(SECOND / 4)),
        to: Some(Time::Monotonic(START + SECOND * 9 / 20)),
        pids: vec![ENGINE],
        ..Selection::default()
    };
    let report = report(&file, selection);
    let calls: Vec<(&str, u64)> = report
        .calls
        .iter()
        .map(|calls| (calls.api, calls.calls))
        .collect();
    // At 300 ms the failed allocation, at 400 ms a free.
    assert_eq!(calls, [("cudaMalloc", 1), ("cudaFree", 1)]);
    let [memory] = &report.memory[..] else {
        panic!("one process and device")
    };
    let before = 512 + (2 << 20) + (2 << 20) + (20 << 20) + (1 << 30);
    assert_eq!(
        (memory.peak_bytes, memory.live_bytes),
        (Some(before), Some(before - (20 << 20)))
    );
    assert!(report.processes.iter().all(|process| process.pid == ENGINE));
    assert!(report.in_flight.is_empty(), "entered after the window");
    assert_eq!(report.recording.events, whole(&complete()).recording.events);
    assert!(report.accounts.iter().all(|account| account.balanced));
}

/// Copies of one process from and to memory that is pinned for a while: direction, what the
/// host's side was, how many.
fn copies(
    with_settings: bool,
    from_start: bool,
) -> Vec<(Option<&'static str>, Option<&'static str>, u64)> {
    let mut sample = Sample::new();
    if with_settings {
        let settings = sample::everything().events.swap_remove(0);
        sample.events.push(settings);
    }
    sample.fact(START, ENGINE, &sample::process(ENGINE, "", from_start));
    let copy = |kind, source, destination, ms| Event {
        source: Some(source),
        address: Some(destination),
        size: Some(4096),
        copy_kind: Some(kind),
        ..at(ENGINE, ms)
    };
    let (device, pinned, other) = (0x7f00_0000_0000, 0x1000_0000, 0x2000_0000);
    let block = |ms| Event {
        address: Some(pinned),
        size: Some(1 << 20),
        device: Some(0),
        ..at(ENGINE, ms)
    };
    sample.call("cudaMallocHost", 0, 10, block(1));
    for ms in [2, 3, 5] {
        sample.call("cudaMemcpyAsync", 0, 10, copy(1, pinned, device, ms));
    }
    sample.call("cudaMemcpyAsync", 0, 10, copy(1, other, device, 6));
    sample.row("cudaFreeHost", Kind::Begin, block(7));
    sample.call("cudaFreeHost", 0, 10, block(7));
    sample.call("cudaMemcpyAsync", 0, 10, copy(1, pinned, device, 8));
    sample.call("cudaMemcpy", 0, 10, copy(2, device, other, 9));
    sample.call("cudaMemcpyAsync", 0, 10, copy(3, device, device + 8192, 10));
    let copies = whole(&sample).copies.into_iter();
    copies
        .map(|copies| (copies.direction, copies.host, copies.copies))
        .collect()
}

#[test]
fn copies_are_told_apart_by_what_the_host_memory_is() {
    let to = Some("host_to_device");
    let from = Some("device_to_host");
    let inside = (Some("device_to_device"), None, 1);
    assert_eq!(
        copies(true, true),
        [
            (to, Some("pinned"), 3),
            (to, Some("pageable"), 2),
            (from, Some("pageable"), 1),
            inside
        ]
    );
    // What is known to be pinned is; what is not, may have been pinned before.
    assert_eq!(
        copies(true, false),
        [
            (to, Some("pinned"), 3),
            (to, Some("unknown"), 2),
            (from, Some("unknown"), 1),
            inside
        ]
    );
    // Whether memory was traced is not known.
    assert_eq!(
        copies(false, true),
        [(to, Some("unknown"), 5), (from, Some("unknown"), 1), inside]
    );
}

#[test]
fn calls_in_flight_are_shown_whenever_they_began() {
    let selection = Selection {
        from: Some(Time::SinceStart(5 * SECOND)),
        ..Selection::default()
    };
    let report = report(&complete().file(), selection);
    let [hung] = &report.in_flight[..] else {
        panic!("one call")
    };
    assert_eq!((hung.api, hung.tid), (Some("cudaDeviceSynchronize"), 4299));
    assert_eq!(hung.age_ns, Some(7 * SECOND));
}

#[test]
fn rows_that_make_no_sense_are_reported_and_break_nothing() {
    let mut sample = Sample::new();
    let huge = Event {
        timestamp: u64::MAX,
        pid: u32::MAX,
        tid: u32::MAX,
        ..Event::default()
    };
    let sizes = Event {
        size: Some(i64::MIN),
        address: Some(u64::MAX),
        ..huge.clone()
    };
    sample.call("cudaMalloc", 0, u64::MAX, sizes.clone());
    sample.call(
        "cudaMemcpy",
        0,
        u64::MAX,
        Event {
            copy_kind: Some(255),
            ..sizes.clone()
        },
    );
    sample.row("c10::reportMemoryUsageToProfiler", Kind::Call, sizes);
    let dimensions = Dimensions {
        grid: [u32::MAX; 3],
        block: [u32::MAX; 3],
    };
    let launch = Event {
        dimensions: Some(dimensions),
        kernel: Some(u32::MAX),
        ..huge.clone()
    };
    sample.row("cudaLaunchKernel", Kind::Call, launch);
    sample.row(
        "cudaFree",
        Kind::InFlight,
        Event {
            duration: Some(u64::MAX),
            ..huge.clone()
        },
    );
    sample.events.push(Event {
        kind: Kind::Fact,
        text: Some("{\"fact\":3".to_owned()),
        ..huge
    });
    sample.end(0, |account| account.made = u64::MAX);
    let report = whole(&sample);
    assert_eq!(report.recording.events, 12);
    let shape = &report.kernels[0].shape;
    assert_eq!(
        shape.launch_threads.as_ref().map(|threads| threads.over),
        Some(1)
    );
    assert_eq!(report.copies[0].direction, None);
    as_text(&report);
    as_json(&report);
}

#[test]
fn text_fits_80_columns_and_cannot_drive_the_terminal() {
    let mut sample = sample::everything();
    let title = format!("\u{1b}[2J\r\n{}", "long ".repeat(100));
    sample.fact(START, 7000, &sample::process(7000, &title, true));
    sample.call("cudaStreamSynchronize", 0, u64::MAX / 2, at(TRAINER, 0));
    sample.end(START + 10 * SECOND, |_| {});
    let text = as_text(&whole(&sample));
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(!line.contains('\u{1b}') && !line.ends_with(' '), "{line:?}");
    }
}

#[test]
fn each_json_key_is_documented() {
    assert_documented(&whole(&complete()), &["report.md", "findings.md"]);
}
