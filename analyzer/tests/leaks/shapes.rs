//! Recordings of known truth, each with its healthy twin: what is told, and what is not.

use analyzer::findings::{Confidence, Family, Severity};
use analyzer::growth::{self, LeakReport, Shape, Source};
use analyzer::report::Report;
use analyzer::text::Colour;
use trace::{Event, Fact, Kind, fact};

use crate::printed::{as_json, assert_documented, golden};
use crate::sample::{self, ENGINE, SECOND, START, Sample, TRAINER};
use crate::world::{Leak, MIB, MINUTE, World};
use crate::{found, is_quiet, report, sample_report};

const LEAK: Leak = Leak {
    size: 2 * MIB,
    every: MINUTE,
    is_random: false,
    is_library: false,
};

/// A steady program: layers at the start, then small blocks that come and go.
fn steady(leak: Option<Leak>) -> World {
    let mut world = World::new(7, leak);
    for _ in 0..32 {
        world.take(64 * MIB);
    }
    world
}

fn run(world: &mut World, until: u64) {
    while world.now() < until {
        world.hold(3 * MIB, 2 * SECOND);
        world.until(world.now() + 5 * SECOND);
    }
}

fn as_text(report: Report) -> String {
    let mut text = Vec::new();
    growth::write(&LeakReport::of(report), Colour::Off, &mut text).expect("memory takes all");
    String::from_utf8(text).expect("text")
}

fn shape_of(report: &Report, source: Source) -> Shape {
    let is_it = |line: &&growth::Growth| line.is_total() && line.source == source;
    report.growth.iter().find(is_it).expect("a line").shape
}

#[test]
fn two_mib_a_minute() {
    let mut world = steady(Some(LEAK));
    run(&mut world, 40 * MINUTE);
    let file = world.finish();
    let found = report(&file);
    let leak = &found.findings[0];
    assert_eq!(
        (leak.id.as_str(), leak.severity),
        ("leak.growth:4242:0", Severity::Warning)
    );
    let number = |key: &str| leak.numbers[key].as_f64().expect("a number");
    let truth = (2 * MIB) as f64 / 60.0;
    assert!(number("growth_low_bytes_per_second") < truth);
    assert!(truth < number("growth_high_bytes_per_second"));
    golden("leak.txt", &as_text(found));
    let mut twin = steady(None);
    run(&mut twin, 40 * MINUTE);
    let twin = report(&twin.finish());
    is_quiet(&twin);
    assert_eq!(shape_of(&twin, Source::Torch), Shape::Steady);
}

#[test]
fn a_device_that_is_full_soon_is_critical() {
    let until_full = |free: u64| {
        let mut world = steady(Some(LEAK));
        world.memory_info(free, 80 << 30);
        run(&mut world, 40 * MINUTE);
        let report = report(&world.finish());
        let leak = report.findings[0].clone();
        (leak.severity, leak.numbers["until_full_ns"].as_u64())
    };
    // 80 MiB are gone by the end, in segments of 20: 100 MiB are left, which are 50 minutes.
    let (severity, left) = until_full(180 * MIB);
    assert_eq!(severity, Severity::Critical);
    let minutes = left.expect("a time") / MINUTE;
    assert!((35..60).contains(&minutes), "{minutes}");
    assert_eq!(until_full(20 << 30).0, Severity::Warning);
}

#[test]
fn a_plateau() {
    let mut world = steady(None);
    while world.now() < 40 * MINUTE {
        if world.now() < 8 * MINUTE {
            world.take(3 * MIB);
        }
        world.until(world.now() + 5 * SECOND);
    }
    let report = report(&world.finish());
    is_quiet(&report);
    assert_eq!(shape_of(&report, Source::Torch), Shape::Steady);
}

#[test]
fn a_step_after_one_big_request() {
    let mut world = steady(None);
    run(&mut world, 25 * MINUTE);
    world.take(700 * MIB);
    run(&mut world, 40 * MINUTE);
    let report = report(&world.finish());
    is_quiet(&report);
    assert_eq!(shape_of(&report, Source::Torch), Shape::Stepped);
}

#[test]
fn a_sawtooth() {
    let mut world = steady(None);
    let mut held = Vec::new();
    let mut next = 7 * MINUTE;
    while world.now() < 40 * MINUTE {
        held.push(world.take(2 * MIB));
        world.until(world.now() + 6 * SECOND);
        if world.now() > next {
            next += 7 * MINUTE;
            held.drain(..).for_each(|block| world.release(block));
        }
    }
    let report = report(&world.finish());
    is_quiet(&report);
    assert_eq!(shape_of(&report, Source::Torch), Shape::Sawtooth);
}

#[test]
fn load_that_rises_is_not_kept() {
    let mut world = steady(None);
    while world.now() < 40 * MINUTE {
        world.hold(2 * MIB, 30 * SECOND);
        let pause = 6000 * SECOND / (1000 + 800 * world.now() / (10 * MINUTE));
        world.until(world.now() + pause);
    }
    is_quiet(&report(&world.finish()));
}

#[test]
fn the_allocator_alone_grows() {
    let grown = |steps: u64| {
        let mut world = steady(None);
        let mut next = 12 * MINUTE;
        while world.now() < 40 * MINUTE {
            world.hold(3 * MIB, 2 * SECOND);
            if world.now() > next && next < (12 + steps) * MINUTE {
                next += MINUTE;
                world.segment(20 * MIB);
            }
            world.until(world.now() + 5 * SECOND);
        }
        report(&world.finish())
    };
    let report = grown(40);
    let urgent = found(&report, Severity::Warning);
    let ids: Vec<&str> = urgent.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids, ["allocator.reserved_growth:4242:0"]);
    is_quiet(&grown(3));
}

#[test]
fn what_is_lost_or_came_before_weakens_the_claim() {
    let with = |from_start: bool, lost: u64| {
        let mut world = steady(Some(LEAK));
        world.sample.events[0].text = Some(sample::process(ENGINE, "a", from_start).to_text());
        run(&mut world, 40 * MINUTE);
        world.sample.end(START + world.now(), |account| {
            account.made += lost;
            account.lost_ring += lost;
        });
        let report = sample_report(&world.sample);
        let leak = report
            .findings
            .iter()
            .find(|finding| finding.family == Family::Leak);
        let leak = leak.expect("a leak");
        (leak.severity, leak.confidence)
    };
    assert_eq!(with(false, 0), (Severity::Warning, Confidence::Medium));
    assert_eq!(with(true, 10), (Severity::Info, Confidence::Low));
}

#[test]
fn the_end_of_a_process_is_no_leak() {
    let mut world = steady(None);
    run(&mut world, 40 * MINUTE);
    world.sample.fact(START + world.now(), ENGINE, &Fact::Exit);
    let report = report(&world.finish());
    is_quiet(&report);
    assert!(
        report.growth.iter().any(|line| line.live_bytes > 0),
        "as it was right before"
    );
}

/// A library that is set up and torn down six times.
fn cycles(left: u64) -> Report {
    let mut world = steady(None);
    for cycle in 0..6 {
        let base = (0x6000 + cycle) << 32;
        let used = world.library_at(base, 544 * MIB);
        if left > 0 || cycle == 0 {
            world.library_at(base + (1 << 31), 50 * MIB);
        }
        run(&mut world, (cycle + 1) * 3 * MINUTE);
        world.give_back(used);
        run(&mut world, (cycle + 1) * 3 * MINUTE + MINUTE);
    }
    report(&world.finish())
}

#[test]
fn a_communicator_that_is_not_destroyed() {
    let leaky = cycles(50 * MIB);
    let leak = &leaky.findings[0];
    assert_eq!(leak.id, "leak.cycle:4242:0:device:libnccl.so.2");
    assert_eq!(leak.numbers["left_bytes"].as_u64(), Some(50 * MIB));
    is_quiet(&cycles(0));
}

/// Five sleeps of 4 GiB; `freed`: whether the handles are released.
fn sleeps(freed: bool) -> Report {
    let mut sample = Sample::new();
    sample.fact(
        START,
        ENGINE,
        &sample::process(ENGINE, "VLLM::EngineCore", true),
    );
    let event = |second: u64| Event {
        timestamp: START + second * SECOND,
        pid: ENGINE,
        device: Some(0),
        ..Event::default()
    };
    let piece = |n: u64, event: Event| Event {
        address: Some(0x7000_0000_0000 + (n << 30)),
        size: Some(1 << 30),
        ..event
    };
    for cycle in 0..5 {
        for n in 0..4 {
            let handle = Some(0x9000 + if freed { cycle * 4 + n } else { n });
            if freed || cycle == 0 {
                let created = Event {
                    address: None,
                    handle,
                    location: Some(1),
                    location_id: Some(0),
                    ..piece(n, event(cycle * 300))
                };
                sample.call("cuMemCreate", 0, 5000, created);
            }
            let mapped = Event {
                handle,
                ..piece(n, event(cycle * 300))
            };
            sample.call("cuMemMap", 0, 5000, mapped);
        }
        for n in 0..4 {
            let unmapped = piece(n, event(cycle * 300 + 200 + n));
            sample.row("cuMemUnmap", Kind::Begin, unmapped.clone());
            sample.call("cuMemUnmap", 0, 5000, unmapped);
            if freed {
                let released = Event {
                    handle: Some(0x9000 + cycle * 4 + n),
                    ..event(cycle * 300 + 200 + n)
                };
                sample.row("cuMemRelease", Kind::Begin, released.clone());
                sample.call("cuMemRelease", 0, 5000, released);
            }
        }
    }
    sample.end(START + 1500 * SECOND, |_| {});
    sample_report(&sample)
}

#[test]
fn a_sleep_that_frees_nothing() {
    let vain = sleeps(false);
    assert_eq!(vain.findings[0].id, "leak.sleep_freed_nothing:4242");
    assert_eq!(vain.findings[0].numbers["in_vain"].as_u64(), Some(5));
    golden("sleep.txt", &as_text(vain));
    let healthy = sleeps(true);
    is_quiet(&healthy);
    assert_eq!(healthy.sleeps.len(), 5);
    assert!(
        healthy
            .sleeps
            .iter()
            .all(|sleep| sleep.freed_bytes == 4 << 30)
    );
}

#[test]
fn a_worker_whose_server_was_killed() {
    let worker = |is_killed: bool| {
        let mut sample = Sample::new();
        sample.fact(
            START,
            TRAINER,
            &sample::process(TRAINER, "api server", true),
        );
        sample.call("cudaDeviceSynchronize", 0, 10, sample::at(TRAINER, 1));
        let Fact::Process(worker) = sample::process(ENGINE, "VLLM::EngineCore", true) else {
            unreachable!("a process")
        };
        let worker = fact::Process {
            parent: TRAINER,
            start_time: 99_999,
            ..worker
        };
        sample.fact(START, ENGINE, &Fact::Process(worker));
        let block = Event {
            address: Some(0x7f00_0000_0000),
            size: Some(1 << 30),
            device: Some(0),
            ..sample::at(ENGINE, 10)
        };
        sample.call("cudaMalloc", 0, 10, block);
        if is_killed {
            sample.fact(START + SECOND, TRAINER, &Fact::Exit);
        }
        sample.end(START + 2 * SECOND, |_| {});
        sample_report(&sample)
    };
    let killed = worker(true);
    assert_eq!(killed.findings[0].id, "leak.orphan:4242");
    is_quiet(&worker(false));
}

#[test]
fn pytorch_runs_out_of_memory() {
    let mut world = steady(None);
    world.memory_info(100 * MIB, 80 << 30);
    world.runs_out(2 << 30);
    let report = report(&world.finish());
    let oom = &report.findings[0];
    assert_eq!(
        (oom.id.as_str(), oom.severity),
        ("oom.torch:4242:0", Severity::Critical)
    );
    assert_eq!(oom.numbers["asked_bytes"].as_u64(), Some(2 << 30));
    assert_eq!(oom.numbers["free_bytes"].as_u64(), Some(100 * MIB));
}

#[test]
fn each_json_key_is_documented() {
    let mut world = steady(Some(LEAK));
    run(&mut world, 40 * MINUTE);
    let leaks = LeakReport::of(report(&world.finish()));
    assert_documented(&leaks, &["leaks.md", "findings.md", "report.md"]);
    assert!(as_json(&leaks).contains("\"growing\""));
    let slept = LeakReport::of(sleeps(false));
    assert_documented(&slept, &["leaks.md", "findings.md", "report.md"]);
    let leaky = LeakReport::of(cycles(50 * MIB));
    assert_documented(&leaky, &["leaks.md", "findings.md", "report.md"]);
}

/// A program that keeps `kept` bytes each `every` ns, and frees `frees` blocks in the same time, for so
/// many seconds.
fn busy(seconds: u64, kept: u64, every: u64, frees: u64) -> Report {
    let mut world = World::new(7, None);
    while world.now() < seconds * SECOND {
        if kept > 0 {
            world.take(kept);
        }
        for _ in 0..frees {
            let block = world.take(3 * MIB);
            world.release(block);
        }
        world.until(world.now() + every);
    }
    report(&world.finish())
}

/// The path of a minute, for programs that free far more than they keep: each of its thresholds
/// from both sides.
#[test]
fn a_minute_is_enough_where_ten_times_as_much_is_freed() {
    let told = |report: &Report| {
        let urgent = found(report, Severity::Warning);
        urgent.iter().any(|finding| finding.family == Family::Leak)
    };
    let half = SECOND / 2;
    // 180 MiB are kept in 180 blocks; the judged window is 67 s.
    let leak = busy(90, MIB, half, 30);
    assert!(told(&leak), "{:#?}", leak.findings);
    assert_eq!(leak.findings[0].id, "leak.growth:4242:0");
    is_quiet(&busy(90, 0, half, 30));
    // Less than ten frees for each block that is left: it may just load.
    let loads = busy(90, MIB, half, 8);
    is_quiet(&loads);
    assert_eq!(shape_of(&loads, Source::Torch), Shape::TooShort);
    // Less than a minute.
    let short = busy(70, MIB, half, 30);
    is_quiet(&short);
    assert_eq!(shape_of(&short, Source::Torch), Shape::TooShort);
    // Fewer than 30 steps.
    let few = busy(90, 8 * MIB, 4 * SECOND, 300);
    is_quiet(&few);
    assert_eq!(shape_of(&few, Source::Torch), Shape::TooShort);
}
