//! Histograms: against values that are counted by hand, and read by `HdrHistogram`'s own tools.

mod printed;
mod sample;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use agent_common::flags;
use agent_common::launch::Dimensions;
use analyzer::hist::{By, Collector, Group, Measured, Quantity, Report, write_log, write_text};
use analyzer::selection::{Selection, Time};
use analyzer::text::Colour;
use printed::{as_json, assert_documented, golden};
use sample::{ENGINE, SECOND, START, Sample, TRAINER, at};
use trace::fact::{Settings, Window};
use trace::{Event, Fact, Kind, Reader};

fn report(sample: &Sample, selection: Selection, by: Option<By>, of: &[Quantity]) -> Report {
    let file = sample.file();
    let mut reader = Reader::new(&file[..]).expect("a recording");
    let mut collector = Collector::new(selection, by, of);
    for batch in &mut reader {
        collector.batch(&batch.expect("memory can be read"));
    }
    collector.finish()
}

fn all(sample: &Sample, by: Option<By>) -> Report {
    report(sample, Selection::default(), by, &[])
}

/// Counts by group, as its name in the JSON.
fn counts(report: &Report, quantity: Quantity) -> BTreeMap<String, u64> {
    let of_it = report.histograms.iter();
    let of_it = of_it.filter(|measured| measured.quantity == quantity);
    let named = |measured: &Measured| {
        let group = match &measured.group {
            None => "all".to_owned(),
            Some(Group::Api { api }) => api.unwrap_or("?").to_owned(),
            Some(Group::Process { pid, .. }) => pid.to_string(),
            Some(Group::Device { uuid, pid, device }) => match uuid {
                Some(uuid) => uuid.clone(),
                None => format!("{device:?} of {pid:?}"),
            },
            Some(Group::Caller { caller }) => caller.clone().unwrap_or_default(),
            Some(Group::Kernel { kernel, .. }) => kernel.clone().unwrap_or_default(),
            Some(Group::Others { .. }) => "others".to_owned(),
        };
        (group, measured.distribution.count)
    };
    of_it.map(named).collect()
}

/// Count, total and maximum of a quantity that is in one histogram.
fn sums(report: &Report, quantity: Quantity) -> Option<(u64, u64, u64)> {
    let mut of_it = report.histograms.iter();
    let found = of_it.find(|measured| measured.quantity == quantity)?;
    assert_eq!(found.group, None);
    let distribution = &found.distribution;
    Some((
        distribution.count,
        distribution.total,
        distribution.percentiles.max,
    ))
}

fn complete() -> Sample {
    let mut sample = sample::everything();
    sample.end(START + 10 * SECOND, |_| {});
    sample
}

fn text(report: &Report) -> String {
    let mut text = Vec::new();
    write_text(report, Colour::Off, &mut text).expect("memory takes all");
    String::from_utf8(text).expect("text")
}

#[test]
fn everything_once() {
    let report = all(&complete(), None);
    golden("hist.txt", &text(&report));
    golden("hist.json", &as_json(&report));
    golden(
        "hist-kernel.txt",
        &text(&all(&complete(), Some(By::Kernel))),
    );
}

#[test]
fn each_json_key_is_documented() {
    for by in [
        None,
        Some(By::Api),
        Some(By::Process),
        Some(By::Device),
        Some(By::Caller),
        Some(By::Kernel),
    ] {
        assert_documented(&all(&complete(), by), &["hist.md", "report.md"]);
    }
}

#[test]
fn text_fits_80_columns() {
    for by in [None, Some(By::Api), Some(By::Process), Some(By::Kernel)] {
        for line in text(&all(&complete(), by)).lines() {
            assert!(line.chars().count() <= 80, "{line}");
            assert!(!line.ends_with(' '), "{line:?}");
        }
    }
}

fn block(ms: u64, address: u64, size: u64) -> Event {
    Event {
        address: Some(address),
        size: Some(size.cast_signed()),
        device: Some(0),
        ..at(ENGINE, ms)
    }
}

/// Begins at `ms` and takes 1 ms; returns `result`.
fn free(sample: &mut Sample, result: i32, ms: u64, address: u64) {
    let event = Event {
        address: Some(address),
        ..at(ENGINE, ms)
    };
    sample.row("cudaFree", Kind::Begin, event.clone());
    sample.call("cudaFree", result, 1_000_000, event);
}

#[test]
fn every_size_is_counted_and_none_panics() {
    let mut sample = Sample::new();
    let sizes = [0, 1, 512, 2 << 20, 180 << 30, u64::MAX];
    for (place, size) in (0..).zip(sizes) {
        sample.call("cudaMalloc", 0, 1000, block(place, 1 << (40 + place), size));
    }
    sample.end(START + SECOND, |_| {});
    let report = report(
        &sample,
        Selection::default(),
        None,
        &[Quantity::AllocationBytes],
    );
    let [measured] = &report.histograms[..] else {
        panic!("one histogram: {report:?}")
    };
    let distribution = &measured.distribution;
    assert_eq!(
        (distribution.count, distribution.zero, distribution.over),
        (6, 1, 1)
    );
    assert_eq!(distribution.percentiles.max, u64::MAX);
    let froms: Vec<u64> = distribution
        .buckets
        .iter()
        .map(|bucket| bucket.from)
        .collect();
    assert_eq!(froms, [0, 1, 512, 2 << 20, 128 << 30]);
    assert!(text(&report).contains("1 value of 2^63 and more"));
}

#[test]
fn a_lifetime_is_from_return_to_entry_and_ends_with_a_free_that_succeeds() {
    let mut sample = Sample::new();
    sample.fact(START, ENGINE, &sample::process(ENGINE, "engine", true));
    let ms = 1_000_000;
    for n in 0..4 {
        // Returns at 11 ms, 21 ms...
        sample.call("cudaMalloc", 0, ms, block(10 + 10 * n, (n + 1) << 40, 4096));
    }
    free(&mut sample, 0, 111, 1 << 40);
    free(&mut sample, 1, 112, 2 << 40);
    free(&mut sample, 0, 221, 2 << 40);
    // A block that was never seen.
    free(&mut sample, 0, 230, 9 << 40);
    sample.end(START + SECOND, |_| {});
    let report = all(&sample, None);
    assert_eq!(
        sums(&report, Quantity::LifetimeNs),
        Some((2, (100 + 200) * ms, 200 * ms))
    );
    // The last call returned at 231 ms; two blocks have been live since 31 and 41 ms.
    assert_eq!(
        sums(&report, Quantity::LiveAgeNs),
        Some((2, (200 + 190) * ms, 200 * ms))
    );
    let window = Selection {
        from: Some(Time::SinceStart(200 * ms)),
        to: Some(Time::SinceStart(225 * ms)),
        ..Selection::default()
    };
    let report = self::report(&sample, window, None, &[]);
    assert_eq!(
        sums(&report, Quantity::LifetimeNs),
        Some((1, 200 * ms, 200 * ms))
    );
    assert_eq!(
        sums(&report, Quantity::LiveAgeNs),
        Some((2, (225 - 31 + 225 - 41) * ms, 194 * ms))
    );
}

#[test]
fn what_is_live_when_its_process_ends_has_its_age_then() {
    let mut sample = Sample::new();
    sample.fact(START, ENGINE, &sample::process(ENGINE, "engine", true));
    sample.call("cudaMalloc", 0, 0, block(10, 1 << 40, 4096));
    sample.fact(START + SECOND, ENGINE, &Fact::Exit);
    sample.call("cudaDeviceSynchronize", 0, 10, at(TRAINER, 5000));
    sample.end(START + 6 * SECOND, |_| {});
    let age = SECOND - 10_000_000;
    assert_eq!(
        sums(&all(&sample, None), Quantity::LiveAgeNs),
        Some((1, age, age))
    );
}

#[test]
fn a_gap_is_between_launches_of_one_thread() {
    let mut sample = Sample::new();
    let launch = |ms: u64, tid: u32, flags: u32| Event {
        tid,
        flags,
        dimensions: Some(Dimensions {
            grid: [2, 3, 4],
            block: [32, 2, 1],
        }),
        ..at(ENGINE, ms)
    };
    for (ms, tid, flags) in [
        (0, 1, 0),
        (1, 2, 0),
        (10, 1, 0),
        (31, 2, 0),
        // This one runs nothing.
        (12, 1, flags::CAPTURED),
    ] {
        sample.row("cudaLaunchKernel", Kind::Call, launch(ms, tid, flags));
    }
    sample.call("cudaGraphLaunch", 0, 5000, launch(40, 1, 0));
    sample.end(START + SECOND, |_| {});
    let report = all(&sample, None);
    let ms = 1_000_000;
    assert_eq!(
        sums(&report, Quantity::LaunchGapNs),
        Some((3, (10 + 30 + 30) * ms, 30 * ms))
    );
    assert_eq!(sums(&report, Quantity::GridBlocks), Some((5, 5 * 24, 24)));
    assert_eq!(sums(&report, Quantity::BlockThreads), Some((5, 5 * 64, 64)));
    assert_eq!(
        sums(&report, Quantity::LaunchThreads),
        Some((5, 5 * 24 * 64, 24 * 64))
    );
    assert_eq!(
        sums(&report, Quantity::GraphLaunchNs),
        Some((1, 5000, 5000))
    );
}

#[test]
fn a_rate_is_that_of_a_copy_that_was_waited_for() {
    let mut sample = Sample::new();
    let copy = |size| Event {
        size: Some(size),
        copy_kind: Some(1),
        ..at(ENGINE, 1)
    };
    sample.call("cudaMemcpy", 0, 1_000_000, copy(1 << 20));
    sample.call("cudaMemcpyAsync", 0, 1_000, copy(1 << 20));
    sample.call("cudaMemcpy", 1, 1_000, copy(1 << 30));
    sample.end(START + SECOND, |_| {});
    let report = all(&sample, None);
    assert_eq!(
        sums(&report, Quantity::CopyBytes),
        Some((2, 2 << 20, 1 << 20))
    );
    let rate = (1 << 20) * 1000;
    assert_eq!(sums(&report, Quantity::CopyRate), Some((1, rate, rate)));
}

#[test]
fn groups_are_those_of_the_rows() {
    let sample = complete();
    let group = |by, quantity| counts(&all(&sample, Some(by)), quantity);
    let of = |pairs: &[(&str, u64)]| -> BTreeMap<String, u64> {
        pairs
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    };
    let sizes = Quantity::AllocationBytes;
    assert_eq!(
        group(By::Api, sizes),
        of(&[("cudaMalloc", 5), ("cuMemAlloc_v2", 1)])
    );
    assert_eq!(group(By::Process, sizes), of(&[("4242", 5), ("5151", 1)]));
    assert_eq!(
        group(By::Device, sizes),
        of(&[("Some(0) of Some(4242)", 5), ("None of Some(5151)", 1)])
    );
    let kernels = group(By::Kernel, Quantity::LaunchThreads);
    assert_eq!(kernels.values().sum::<u64>(), 7);
    assert_eq!(kernels["triton_red_fused_add_0"], 1);
    assert!(group(By::Kernel, sizes).is_empty());
    // Memory that was freed is of the function that took it.
    assert_eq!(
        group(By::Api, Quantity::LifetimeNs),
        of(&[("cudaMalloc", 1)])
    );
    let calls = counts(&all(&sample, None), Quantity::CallNs);
    assert_eq!((calls["cudaMalloc"], calls["cudaFree"]), (6, 2));
}

/// What `HdrHistogram`'s own reader, from `PyPI`, says of the log.
#[test]
fn the_log_is_read_by_hdr_histogram() {
    let python = std::env::var("CUDASNOOP_PYTHON").expect("cargo xtask test sets it");
    let mut sample = complete();
    sample
        .events
        .retain(|event| event.kind != Kind::Fact || event.pid != 0);
    for (place, size) in (0..).zip([0, 1, 512, 2 << 20, 180 << 30, 1 << 62, u64::MAX]) {
        sample.call(
            "cudaMalloc",
            0,
            1000,
            block(3000 + place, 1 << (40 + place), size),
        );
    }
    let report = all(&sample, Some(By::Api));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("hist.hlog");
    let mut log = Vec::new();
    write_log(&report, &mut log).expect("memory takes all");
    fs::write(&path, &log).expect("the file can be written");
    let found = read_log(&python, &path);
    let mut expected = BTreeMap::new();
    for measured in &report.histograms {
        let Some(Group::Api { api: Some(api) }) = measured.group else {
            panic!("by function: {measured:?}")
        };
        let distribution = &measured.distribution;
        let in_log = distribution.count - distribution.over;
        if in_log > 0 {
            let tag = format!("{}/{api}", measured.quantity);
            let p50 = distribution.percentiles.p50;
            expected.insert(tag, (in_log, p50));
        }
    }
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>()
    );
    for (tag, (count, p50)) in &found {
        let (expected_count, expected_p50) = expected[tag];
        assert_eq!(*count, expected_count, "{tag}");
        // It shows the highest value that a bucket stands for, we the lowest.
        assert!(
            *p50 >= expected_p50 && p50 - expected_p50 <= expected_p50 / 1000 + 1,
            "{tag}"
        );
    }
    assert_eq!(found["allocation_bytes/cudaMalloc"].0, 5 + 6);
}

/// By tag: how many values, and their median.
fn read_log(python: &str, path: &Path) -> BTreeMap<String, (u64, u64)> {
    let script = r"
import sys
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
reader = HistogramLogReader(sys.argv[1], HdrHistogram(1, 2**62, 3))
while True:
    histogram = reader.get_next_interval_histogram()
    if histogram is None:
        break
    print(histogram.get_tag(), histogram.get_total_count(), histogram.get_value_at_percentile(50))
";
    let output = Command::new(python)
        .args(["-c", script])
        .arg(path)
        .output()
        .expect("Python runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let stdout = String::from_utf8(output.stdout).expect("text");
    let line = |line: &str| {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("three words").to_owned();
        let (tag, count, p50) = (word(), word(), word());
        let number = |text: String| text.parse().expect("a number");
        (tag, (number(count), number(p50)))
    };
    stdout.lines().map(line).collect()
}

/// Counts, sums and maxima of a real recording, as pyarrow and a dozen lines of Python have them.
#[test]
fn a_recording_of_a_gpu_has_the_numbers_that_pyarrow_has() {
    let python = std::env::var("CUDASNOOP_PYTHON").expect("cargo xtask test sets it");
    let script = r#"
import sys, pyarrow.ipc
found, live = {}, {}
for row in pyarrow.ipc.open_stream(sys.argv[1]).read_all().to_pylist():
    def count(quantity, value): found.setdefault(quantity, []).append(value)
    if row["kind"] != "call":
        continue
    if row["duration"] is not None:
        count("call_ns/" + row["api"], row["duration"])
    if row["grid_x"] is not None:
        count("grid_blocks", row["grid_x"] * row["grid_y"] * row["grid_z"])
        count("block_threads", row["block_x"] * row["block_y"] * row["block_z"])
    if row["api"] == "cudaMalloc":
        failed = "" if row["result"] == 0 else "failed_"
        count(failed + "allocation_bytes", row["size"])
    if row["api"] == "c10::reportMemoryUsageToProfiler":
        block = row["pid"], row["device"], row["address"]
        if row["size"] > 0:
            count("torch_block_bytes", row["size"])
            live[block] = row["ts"]
        elif block in live:
            count("torch_lifetime_ns", row["ts"] - live.pop(block))
for quantity, values in found.items():
    print(quantity, len(values), sum(values), max(values))
"#;
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/h100");
    for name in ["snapshot.arrows", "oom.arrows"] {
        let path = fixtures.join(name);
        let mut collector = Collector::new(Selection::default(), None, &[]);
        let file = fs::File::open(&path).expect("a fixture");
        for batch in Reader::new(file).expect("a recording") {
            collector.batch(&batch.expect("a batch"));
        }
        let mut found = BTreeMap::new();
        for measured in collector.finish().histograms {
            let quantity = measured.quantity;
            let key = match &measured.group {
                Some(Group::Api { api: Some(api) }) => format!("{quantity}/{api}"),
                Some(_) | None => quantity.to_string(),
            };
            let distribution = measured.distribution;
            let max = distribution.percentiles.max;
            found.insert(key, [distribution.count, distribution.total, max]);
        }
        let output = Command::new(&python)
            .args(["-c", script])
            .arg(&path)
            .output()
            .expect("Python runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let stdout = String::from_utf8(output.stdout).expect("text");
        assert!(stdout.lines().count() > 10, "{stdout}");
        for line in stdout.lines() {
            let mut words = line.split(' ');
            let quantity = words.next().expect("a quantity");
            let numbers: Vec<u64> = words.map(|word| word.parse().expect("a number")).collect();
            assert_eq!(found[quantity][..], numbers[..], "{name}: {quantity}");
        }
    }
}

/// A recording with an overhead budget, which begins with its settings.
fn sampled() -> Sample {
    let mut sample = Sample::new();
    sample.fact(START, 0, &Fact::Settings(sample::settings(Some(0.01))));
    sample
}

fn window(sample: &mut Sample, since: u64, until: u64) {
    let moment = |ms: u64| START + ms * 1_000_000;
    let window = Window {
        since: moment(since),
        until: moment(until),
        families: ["launch", "copy", "sync"].map(str::to_owned).to_vec(),
        weight: 1.0,
    };
    sample.fact(moment(until), 0, &Fact::Window(window));
}

#[test]
fn no_gap_spans_the_edge_of_a_window() {
    let mut sample = sampled();
    let launch = |sample: &mut Sample, ms| {
        sample.row("cudaLaunchKernel", Kind::Call, at(ENGINE, ms));
    };
    for ms in [1000, 1001, 1002] {
        launch(&mut sample, ms);
    }
    window(&mut sample, 900, 1100);
    // A graph launch is seen always; what came between it and the launches is not.
    let graph = |sample: &mut Sample, ms| sample.call("cudaGraphLaunch", 0, 1000, at(ENGINE, ms));
    graph(&mut sample, 3000);
    graph(&mut sample, 3500);
    for ms in [5000, 5004] {
        launch(&mut sample, ms);
    }
    window(&mut sample, 4900, 5100);
    // The window stays open: no edge.
    launch(&mut sample, 5150);
    window(&mut sample, 5100, 5200);
    sample.call("cudaMalloc", 0, 1000, block(5160, 1 << 40, 2 << 20));
    sample.end(START + 10 * SECOND, |_| {});
    let report = all(&sample, None);
    let ms = 1_000_000;
    let gaps = sums(&report, Quantity::LaunchGapNs);
    assert_eq!(gaps, Some((4, (1 + 1 + 4 + 146) * ms, 146 * ms)));
    assert_eq!(report.recording.launch_gaps_left_out, 3);
    let windows = report.recording.sampled.as_ref().expect("sampled");
    assert_eq!((windows.windows, windows.open_ns), (2, 500 * ms));
    let marked = |quantity| {
        let mut of_it = report.histograms.iter();
        let found = of_it.find(|measured| measured.quantity == quantity);
        found.map(|measured| measured.sampled)
    };
    assert_eq!(marked(Quantity::LaunchGapNs), Some(true));
    assert_eq!(marked(Quantity::AllocationBytes), Some(false));
    assert_eq!(marked(Quantity::GraphLaunchNs), Some(false));
    let page = text(&report);
    assert!(
        page.contains("From one launch of a thread to its next (in windows)"),
        "{page}"
    );
    assert!(
        page.contains("3 gaps between launches that are not of one window"),
        "{page}"
    );
    assert_documented(&report, &["hist.md", "report.md"]);
}

#[test]
fn no_gap_counts_where_windows_of_two_recordings_overlap() {
    let mut sample = sampled();
    let launch = |sample: &mut Sample, pid, ms| {
        sample.row("cudaLaunchKernel", Kind::Call, at(pid, ms));
    };
    for ms in [1000, 1001] {
        launch(&mut sample, ENGINE, ms);
    }
    window(&mut sample, 900, 1100);
    // One recorder's windows end and begin in one of the other's.
    launch(&mut sample, TRAINER, 1200);
    launch(&mut sample, ENGINE, 1310);
    window(&mut sample, 1000, 1350);
    window(&mut sample, 1300, 1400);
    sample.end(START + 10 * SECOND, |_| {});
    let report = all(&sample, None);
    let gaps = sums(&report, Quantity::LaunchGapNs);
    assert_eq!(gaps, Some((1, 1_000_000, 1_000_000)));
    assert_eq!(report.recording.launch_gaps_left_out, 1);
}

#[test]
fn calls_of_windows_are_marked_by_their_family() {
    let mut sample = sampled();
    sample.call("cudaMemcpy", 0, 1000, at(ENGINE, 1000));
    sample.call("cudaMalloc", 0, 1000, block(1001, 1 << 40, 2 << 20));
    window(&mut sample, 900, 1100);
    sample.end(START + 10 * SECOND, |_| {});
    let report = all(&sample, None);
    let of_calls = report.histograms.iter();
    let of_calls = of_calls.filter(|measured| measured.quantity == Quantity::CallNs);
    let marked: BTreeMap<_, _> = of_calls
        .map(|measured| match measured.group {
            Some(Group::Api { api }) => (api, measured.sampled),
            _ => panic!("by function"),
        })
        .collect();
    let expected = [(Some("cudaMalloc"), false), (Some("cudaMemcpy"), true)];
    assert_eq!(marked, BTreeMap::from(expected));
}

/// A graph of so many kernels is captured, made ready and launched so many times.
fn graph(sample: &mut Sample, handle: u64, kernels: u64, launches: u64) {
    for _ in 0..kernels {
        let launch = Event {
            flags: flags::CAPTURED,
            ..at(ENGINE, 100 * handle)
        };
        sample.row("cudaLaunchKernel", Kind::Call, launch);
    }
    let ended = Event {
        handle: Some(handle),
        ..at(ENGINE, 100 * handle + 1)
    };
    sample.call("cudaStreamEndCapture", 0, 1000, ended);
    let ready = Event {
        handle: Some(0x9000 + handle),
        related: Some(handle),
        ..at(ENGINE, 100 * handle + 2)
    };
    sample.call("cudaGraphInstantiate", 0, 1000, ready);
    for n in 0..launches {
        let launch = Event {
            handle: Some(0x9000 + handle),
            ..at(ENGINE, 100 * handle + 3 + n)
        };
        sample.call("cudaGraphLaunch", 0, 1000, launch);
    }
}

#[test]
fn kernels_of_each_launched_graph_are_counted() {
    let mut sample = Sample::new();
    graph(&mut sample, 1, 300, 4);
    graph(&mut sample, 2, 7, 1);
    // One that was not captured: its kernels are not known, which is not 0.
    sample.call(
        "cudaGraphLaunch",
        0,
        1000,
        Event {
            handle: Some(5),
            ..at(ENGINE, 900)
        },
    );
    let report = all(&sample, None);
    let kernels = sums(&report, Quantity::GraphLaunchKernels);
    assert_eq!(kernels, Some((5, 4 * 300 + 7, 300)));
    // What was captured before the window is known in it.
    let from = Selection {
        from: Some(Time::SinceStart(4_000_000)),
        ..Selection::default()
    };
    let late = self::report(&sample, from, None, &[]);
    assert_eq!(
        sums(&late, Quantity::GraphLaunchKernels).map(|sums| sums.0),
        Some(4)
    );
    // Where graphs alone are traced, no launch is seen.
    let mut blind = Sample::new();
    let settings = Settings {
        events: vec!["graph".to_owned()],
        ..Settings::default()
    };
    blind.fact(START, 0, &Fact::Settings(settings));
    graph(&mut blind, 1, 0, 4);
    assert_eq!(sums(&all(&blind, None), Quantity::GraphLaunchKernels), None);
    // In windows some of its launches may have been missed.
    let mut unknown = sampled();
    graph(&mut unknown, 1, 300, 4);
    assert_eq!(
        sums(&all(&unknown, None), Quantity::GraphLaunchKernels),
        None
    );
}
