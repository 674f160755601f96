//! Differences: noise gives none, a real shift does.

mod printed;
mod sample;

use analyzer::diff::{Collector, Report, Subject, Verdict, write_text};
use analyzer::selection::Selection;
use analyzer::text::Colour;
use printed::{as_json, assert_documented, golden};
use sample::{ENGINE, SECOND, START, Sample, at};
use trace::{Event, Reader};

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
