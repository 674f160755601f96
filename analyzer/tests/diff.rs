//! Differences: noise gives none, a real shift does.

mod printed;
mod sample;

use analyzer::diff::{Collector, RateChange, Report, Subject, Verdict, write_text};
use analyzer::selection::Selection;
use analyzer::text::Colour;
use printed::{as_json, assert_documented, golden};
use sample::{ENGINE, SECOND, START, Sample, at};
use trace::fact::{Process, Window};
use trace::{Event, Fact, Kind, Reader};

/// Numbers that are the same in every run (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        f64::from(u32::try_from(self.next() >> 32).expect("32 bits")) / f64::from(u32::MAX)
    }
}

/// A program: how long its calls take, how often it makes them, what it holds.
#[derive(Clone, Copy)]
struct Program {
    /// Typical duration of a `cudaMalloc`, ns.
    malloc_ns: f64,
    /// Mean time between two `cudaStreamSynchronize`, ns.
    wait_every: f64,
    /// Blocks of 4 MiB that it holds on average.
    blocks: usize,
}

const PROGRAM: Program = Program {
    malloc_ns: 50_000.0,
    wait_every: 1_000_000.0,
    blocks: 40,
};

/// Five seconds of it. Durations have a long tail, and slow and fast times follow each other, as
/// on a real machine.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "durations are positive and far below 2^53 ns"
)]
fn run(program: Program, seed: u64) -> Sample {
    let mut random = Random(seed);
    let mut sample = Sample::new();
    sample.fact(START, ENGINE, &sample::process(ENGINE, "engine", true));
    let mut live: Vec<u64> = Vec::new();
    let mut next = 0;
    let (mut malloc, mut wait) = (0.0_f64, 0.0_f64);
    let mut weather = 0.0_f64;
    while malloc.min(wait) < 5.0 * SECOND as f64 {
        let event = |now: f64| Event {
            timestamp: START + now as u64,
            ..at(ENGINE, 0)
        };
        weather = 0.99 * weather + 0.02 * (random.share() - 0.5);
        let noise = (weather + 1.5 * (random.share() + random.share() - 1.0)).exp();
        if malloc < wait {
            next += 1;
            let address = next << 24;
            let block = Event {
                address: Some(address),
                size: Some(4 << 20),
                device: Some(0),
                ..event(malloc)
            };
            let duration = program.malloc_ns * noise;
            sample.call("cudaMalloc", 0, duration as u64, block);
            live.push(address);
            while live.len() > program.blocks + (random.next() % 9) as usize {
                let place = (random.next() % live.len() as u64) as usize;
                let block = Event {
                    address: Some(live.swap_remove(place)),
                    ..event(malloc + duration + 100.0)
                };
                sample.call("cudaFree", 0, (20_000.0 * noise) as u64, block);
            }
            malloc += 4_000_000.0 * (random.share() + 0.5);
        } else {
            let duration = (300_000.0 * noise) as u64;
            sample.call("cudaStreamSynchronize", 0, duration, event(wait));
            wait -= program.wait_every * random.share().max(1e-9).ln();
        }
    }
    sample.end(START + 5 * SECOND, |_| {});
    sample
}

fn diff(a: &Sample, b: &Sample) -> Report {
    let [a, b] = [a, b].map(|sample| {
        let file = sample.file();
        let mut reader = Reader::new(&file[..]).expect("a recording");
        let mut collector = Collector::new(Selection::default());
        for batch in &mut reader {
            collector.batch(&batch.expect("memory can be read"));
        }
        collector.finish()
    });
    Report::new(a, b)
}

fn claims(report: &Report) -> Vec<String> {
    let mut claims = Vec::new();
    for change in &report.durations {
        if change.verdict.is_claim() {
            claims.push(format!("{:?} {:?}", change.subject, change.verdict));
        }
    }
    for change in &report.rates {
        if change.verdict.is_claim() {
            claims.push(format!("rate of {} {:?}", change.api, change.verdict));
        }
    }
    for change in &report.memory {
        if change.verdict.is_claim() {
            claims.push(format!("memory {} {:?}", change.what, change.verdict));
        }
    }
    claims
}

fn text(report: &Report) -> String {
    let mut text = Vec::new();
    write_text(report, Colour::Off, &mut text).expect("memory takes all");
    String::from_utf8(text).expect("text")
}

#[test]
fn two_runs_of_one_program_differ_in_nothing() {
    let mut alarms = Vec::new();
    for seed in 0..100 {
        let (a, b) = (run(PROGRAM, 2 * seed), run(PROGRAM, 2 * seed + 1));
        alarms.extend(claims(&diff(&a, &b)));
    }
    // 1 % of the reports may claim something by chance.
    assert!(alarms.len() <= 1, "{alarms:?}");
}

#[test]
fn a_recording_does_not_differ_from_itself() {
    let sample = run(PROGRAM, 1);
    let report = diff(&sample, &sample);
    assert_eq!(claims(&report), Vec::<String>::new());
    assert!(report.tests >= 6, "{}", report.tests);
    for change in &report.durations {
        assert_eq!((change.ratio, change.p_value), (Some(1.0), Some(1.0)));
    }
}

#[test]
fn real_shifts_are_found_in_both_directions() {
    let worse = Program {
        malloc_ns: 60_000.0,
        wait_every: 770_000.0,
        blocks: 60,
    };
    for seed in 0..20 {
        let (a, b) = (run(PROGRAM, 1000 + seed), run(worse, 2000 + seed));
        for (report, up) in [(diff(&a, &b), true), (diff(&b, &a), false)] {
            let expected = if up { Verdict::More } else { Verdict::Less };
            let duration = |api| {
                let of_it = |change: &&analyzer::diff::DurationChange| {
                    change.subject == Subject::Call { api }
                };
                report.durations.iter().find(of_it).expect("a function")
            };
            let malloc = duration("cudaMalloc");
            assert_eq!(malloc.verdict, expected, "{seed}: {malloc:?}");
            let [low, high] = malloc.ratio_range.expect("a range");
            let truth = if up { 1.2 } else { 1.0 / 1.2 };
            assert!(low < truth * 1.1 && truth / 1.1 < high, "{malloc:?}");
            assert_eq!(duration("cudaFree").verdict, Verdict::Same, "{seed}");
            let waits = report
                .rates
                .iter()
                .find(|rate| rate.api == "cudaStreamSynchronize");
            assert_eq!(
                waits.map(|rate| rate.verdict),
                Some(expected),
                "{seed}: {waits:?}"
            );
            for what in ["live", "peak"] {
                let memory = report.memory.iter().find(|change| change.what == what);
                assert_eq!(
                    memory.map(|memory| memory.verdict),
                    Some(expected),
                    "{seed}"
                );
            }
        }
    }
}

#[test]
fn few_calls_tell_nothing_and_many_that_only_one_has_do() {
    let mut few = Sample::new();
    let mut many = Sample::new();
    for n in 0..7 {
        few.call("cudaMemcpy", 0, 1_000, at(ENGINE, 100 * n));
        many.call("cudaMemcpy", 0, 1_000_000, at(ENGINE, 100 * n));
    }
    for n in 0..100 {
        many.call("cudaMallocManaged", 0, 1_000, at(ENGINE, 10 * n));
    }
    few.call("cudaDeviceSynchronize", 0, 10, at(ENGINE, 1000));
    for sample in [&mut few, &mut many] {
        sample.end(START + SECOND, |_| {});
    }
    let report = diff(&few, &many);
    let rate = |api| {
        report
            .rates
            .iter()
            .find(|rate| rate.api == api)
            .expect("calls")
            .verdict
    };
    assert_eq!(rate("cudaMallocManaged"), Verdict::OnlyB);
    assert_eq!(rate("cudaDeviceSynchronize"), Verdict::Unknown);
    assert_eq!(
        report
            .durations
            .iter()
            .filter(|change| change.verdict.is_claim())
            .count(),
        0
    );
    let swapped = diff(&many, &few);
    let managed = swapped
        .rates
        .iter()
        .find(|rate| rate.api == "cudaMallocManaged");
    assert_eq!(managed.map(|rate| rate.verdict), Some(Verdict::OnlyA));
}

#[test]
fn empty_recordings_differ_in_nothing() {
    let report = diff(&Sample::new(), &Sample::new());
    assert_eq!((claims(&report), report.tests), (Vec::new(), 0));
    text(&report);
}

fn pair() -> Report {
    let worse = Program {
        malloc_ns: 90_000.0,
        wait_every: 400_000.0,
        blocks: 80,
    };
    diff(&run(PROGRAM, 7), &run(worse, 8))
}

#[test]
fn as_it_is_shown() {
    golden("diff.txt", &text(&pair()));
    golden("diff.json", &as_json(&pair()));
    for line in text(&pair()).lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(!line.ends_with(' '), "{line:?}");
    }
}

#[test]
fn each_json_key_is_documented() {
    assert_documented(&pair(), &["diff.md"]);
}

const MS: u64 = 1_000_000;

/// `serve` with a budget: windows of 100 ms, each 400 ms.
const PERIOD: u64 = 400 * MS;
const OPEN: u64 = 100 * MS;

/// Tells of the windows that were over `now`, ns after the start, and were not told yet.
fn tell_windows(sample: &mut Sample, told: &mut u64, now: u64) {
    while *told * PERIOD + OPEN <= now {
        let since = START + *told * PERIOD;
        let window = Window {
            since,
            until: since + OPEN,
            families: ["launch", "copy", "sync"].map(str::to_owned).to_vec(),
            weight: 4.0,
        };
        sample.fact(since + OPEN, 0, &Fact::Window(window));
        *told += 1;
    }
}

/// 20 s of a program that copies and waits, `every` ns on average: as `serve` records it with a budget, in windows of
/// 100 ms each 400 ms, or whole. Its memory calls are recorded all the time.
fn copies(is_sampled: bool, every: u64, seed: u64) -> Sample {
    let mut random = Random(seed);
    let mut sample = Sample::new();
    let budget = is_sampled.then_some(0.01);
    sample.fact(START, 0, &Fact::Settings(sample::settings(budget)));
    let (mut now, mut told) = (0, 0);
    while now < 20 * SECOND {
        if is_sampled {
            tell_windows(&mut sample, &mut told, now);
        }
        if now % PERIOD < OPEN || !is_sampled {
            let event = Event {
                timestamp: START + now,
                size: Some(4096),
                ..at(ENGINE, 0)
            };
            let duration = 20_000 + random.next() % 10_000;
            sample.call("cudaMemcpyAsync", 0, duration, event.clone());
            sample.call("cudaStreamSynchronize", 0, duration, event);
        }
        if random.next().is_multiple_of(20) {
            let event = Event {
                timestamp: START + now,
                ..at(ENGINE, 0)
            };
            sample.call("cudaMemGetInfo", 0, 1_000, event);
        }
        now += every / 2 + random.next() % every;
    }
    sample.end(START + 20 * SECOND, |_| {});
    sample
}

fn rate<'a>(report: &'a Report, api: &str) -> &'a RateChange {
    let mut rates = report.rates.iter();
    rates.find(|rate| rate.api == api).expect("calls")
}

#[test]
fn what_is_sampled_is_compared_by_the_time_in_windows() {
    let mut alarms = Vec::new();
    for seed in 0..20 {
        let (whole, part) = (copies(false, MS, 2 * seed), copies(true, MS, 2 * seed + 1));
        let report = diff(&whole, &part);
        let copies = rate(&report, "cudaMemcpyAsync");
        assert!(copies.sampled, "{copies:?}");
        let ratio = copies.ratio.expect("in both");
        // By its length it would be a quarter.
        assert!((0.9..1.1).contains(&ratio), "{copies:?}");
        assert!(!rate(&report, "cudaMemGetInfo").sampled);
        alarms.extend(claims(&report));
        let slower = diff(&whole, &self::copies(true, 2 * MS, 100 + seed));
        let copies = rate(&slower, "cudaMemcpyAsync");
        assert_eq!(copies.verdict, Verdict::Less, "{copies:?}");
    }
    assert_eq!(alarms, Vec::<String>::new());
}

#[test]
fn waits_of_windows_are_not_judged() {
    let report = diff(&copies(false, MS, 1), &copies(true, MS, 2));
    let of = |name| {
        let mut durations = report.durations.iter();
        let found = durations.find(|change| change.subject == Subject::Call { api: name });
        found.expect("calls")
    };
    let waits = of("cudaStreamSynchronize");
    assert_eq!((waits.verdict, waits.p_value), (Verdict::Unknown, None));
    assert_eq!(of("cudaMemcpyAsync").verdict, Verdict::Same);
    assert_eq!(report.b.windows_ns, Some(50 * OPEN));
    assert_eq!(report.a.windows_ns, None);
    let page = text(&report);
    assert!(
        page.contains("B has copy, launch, sync calls of windows alone"),
        "{page}"
    );
    assert_documented(&report, &["diff.md", "report.md"]);
}

/// 80 s of a program that waits 60 ms, copies for as long, and so on: as `serve` records it with a
/// budget, or whole. Most calls are open when their window ends; their rows come when they return.
fn long_calls(is_sampled: bool, seed: u64) -> Sample {
    let mut random = Random(seed);
    let mut sample = Sample::new();
    let budget = is_sampled.then_some(0.01);
    sample.fact(START, 0, &Fact::Settings(sample::settings(budget)));
    let (mut now, mut told) = (0, 0);
    while now < 80 * SECOND {
        for api in ["cudaStreamSynchronize", "cudaMemcpy"] {
            let duration = 60 * MS;
            let call = Event {
                timestamp: START + now,
                ..at(ENGINE, 0)
            };
            let is_open = now % PERIOD < OPEN;
            let is_cut = now % PERIOD + duration >= OPEN;
            if is_sampled {
                tell_windows(&mut sample, &mut told, now + duration);
            }
            if is_sampled && is_open && is_cut {
                let duration = Some(duration);
                sample.row(api, Kind::Abandoned, Event { duration, ..call });
            } else if is_open || !is_sampled {
                sample.call(api, 0, duration, call);
            }
            now += duration + random.next() % (20 * MS);
        }
    }
    if is_sampled {
        tell_windows(&mut sample, &mut told, now + PERIOD);
    }
    sample.end(START + 80 * SECOND, |_| {});
    sample
}

#[test]
fn calls_that_a_window_cuts_are_in_its_rate_and_have_no_duration() {
    let report = diff(&long_calls(false, 1), &long_calls(true, 2));
    for api in ["cudaStreamSynchronize", "cudaMemcpy"] {
        let change = rate(&report, api);
        let ratio = change.ratio.expect("in both");
        // Of those that returned in their window alone it would be 0.4.
        assert!((0.8..1.25).contains(&ratio), "{change:?}");
        assert!(!change.verdict.is_claim(), "{change:?}");
        let mut durations = report.durations.iter();
        let found = durations.find(|change| change.subject == Subject::Call { api });
        let found = found.expect("calls");
        assert!(found.b_count < change.b_calls, "{found:?}");
        assert_eq!((found.verdict, found.p_value), (Verdict::Unknown, None));
    }
    assert_eq!(report.b.outside_windows, 0);
}

/// A worker, of a title, that holds so many blocks of 4 MiB.
fn worker(sample: &mut Sample, pid: u32, title: &str, device: i32, blocks: u64) {
    sample.fact(START, pid, &sample::process(pid, title, true));
    hold(sample, pid, device, blocks);
}

/// A worker that sees one device, which it calls 0.
fn worker_that_sees(sample: &mut Sample, pid: u32, visible: &str, blocks: u64) {
    let Fact::Process(process) = sample::process(pid, "train.py", true) else {
        unreachable!("a process")
    };
    let process = Process {
        visible_devices: Some(visible.to_owned()),
        ..process
    };
    sample.fact(START, pid, &Fact::Process(process));
    hold(sample, pid, 0, blocks);
}

fn hold(sample: &mut Sample, pid: u32, device: i32, blocks: u64) {
    for n in 0..blocks {
        let block = Event {
            address: Some(0x7f00_0000_0000 + (n << 24)),
            size: Some(4 << 20),
            device: Some(device),
            ..at(pid, 1)
        };
        sample.call("cudaMalloc", 0, 1000, block);
    }
}

#[test]
fn the_same_process_is_found_in_both() {
    let (mut before, mut after) = (Sample::new(), Sample::new());
    // Other ids, another order; the ranks are told by their devices.
    worker(&mut before, 5001, "VLLM::Worker_TP0", 0, 10);
    worker(&mut before, 5002, "VLLM::Worker_TP1", 0, 10);
    worker(&mut before, 5003, "train.py", 0, 20);
    worker(&mut before, 5004, "train.py", 1, 30);
    worker(&mut before, 5005, "gone", 0, 5);
    worker(&mut after, 7001, "train.py", 1, 30);
    worker(&mut after, 7002, "train.py", 0, 50);
    worker(&mut after, 7003, "VLLM::Worker_TP1", 0, 10);
    worker(&mut after, 7004, "VLLM::Worker_TP0", 0, 40);
    for sample in [&mut before, &mut after] {
        sample.end(START + SECOND, |_| {});
    }
    let report = diff(&before, &after);
    let live: Vec<_> = report
        .processes
        .iter()
        .map(|process| {
            let mut memory = process.memory.iter();
            let live = memory.find(|change| change.what == "live").expect("always");
            (
                process.a_pid,
                process.b_pid,
                live.a_bytes >> 22,
                live.b_bytes >> 22,
                live.verdict,
            )
        })
        .collect();
    let expected = [
        (Some(5001), Some(7004), 10, 40, Verdict::More),
        (Some(5002), Some(7003), 10, 10, Verdict::Same),
        (Some(5005), None, 5, 0, Verdict::OnlyA),
        (Some(5003), Some(7002), 20, 50, Verdict::More),
        (Some(5004), Some(7001), 30, 30, Verdict::Same),
    ];
    assert_eq!(live, expected);
    let page = text(&report);
    assert!(page.contains("train.py (2)"), "{page}");
    for line in page.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert_documented(&report, &["diff.md", "report.md"]);
}

#[test]
fn ranks_are_in_order_of_the_devices_that_they_see() {
    let (mut before, mut after) = (Sample::new(), Sample::new());
    // As text, 10 would come before 9.
    worker_that_sees(&mut before, 5001, "10", 20);
    worker_that_sees(&mut before, 5002, "9", 10);
    worker_that_sees(&mut after, 7001, "2", 20);
    worker_that_sees(&mut after, 7002, "1", 10);
    for sample in [&mut before, &mut after] {
        sample.end(START + SECOND, |_| {});
    }
    let report = diff(&before, &after);
    let matched: Vec<_> = report
        .processes
        .iter()
        .map(|process| (process.a_pid, process.b_pid))
        .collect();
    let expected = [(Some(5002), Some(7002)), (Some(5001), Some(7001))];
    assert_eq!(matched, expected);
}
