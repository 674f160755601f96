//! The fragmentation report against models of PyTorch's allocator and of the driver.
#![expect(
    clippy::unwrap_used,
    reason = "a test panics where its ground gives way"
)]

#[path = "../../ledger/tests/oracle/mod.rs"]
mod oracle;

use std::path::Path;

use agent_common::ApiId;
use analyzer::findings::{Finding, Severity};
use analyzer::fragmentation::{Collector, Report, SCHEMA, Torch, write_text};
use analyzer::selection::{Selection, Time};
use analyzer::text::Colour;
use oracle::{Gpu, MIB, Op, PID, Program, Recorder, introduction};
use trace::{Event, Fact, fact};

const C10: u32 = 1;
const NCCL: u32 = 2;

fn report(events: &[Event], at: Option<Time>, fit: Option<u64>) -> Report {
    let mut collector = Collector::new(at, fit);
    for event in events {
        collector.push(event);
    }
    collector.finish()
}

fn torch(report: &Report) -> &Torch {
    report.processes[0].devices[0].torch.as_ref().unwrap()
}

fn text(report: &Report, colour: Colour) -> String {
    let mut output = Vec::new();
    write_text(report, colour, &mut output).unwrap();
    String::from_utf8(output).unwrap()
}

/// The text as one line: where it breaks is no matter.
fn flat(report: &Report) -> String {
    text(report, Colour::Off)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

fn callers(recorder: &mut Recorder) {
    for (id, module) in [
        (C10, "/opt/venv/torch/lib/libc10_cuda.so"),
        (NCCL, "/opt/libnccl.so.2"),
    ] {
        recorder.fact(&Fact::Caller(fact::Caller {
            id,
            module: Some(module.to_owned()),
        }));
    }
}

/// A short story: communication buffers, weights, activations whose large segments stay pinned
/// by small leftovers, and requests that then fail.
fn story() -> Vec<Event> {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    callers(&mut recorder);
    let (mut gpu, mut torch) = (Gpu::new(0, 320 * MIB), oracle::Torch::default());
    for size in [100 << 10, 100 << 10, 700 << 10, 3 * MIB] {
        let address = gpu.malloc(size);
        recorder.alloc(11, 0, size, address);
    }
    let mut nccl = recorder.events.len();
    for size in [64 * MIB, 48 * MIB, 512, 70_000, MIB] {
        torch.malloc(&mut gpu, &mut recorder, 7, size).unwrap();
    }
    for _ in 0..4 {
        let activation = torch.malloc(&mut gpu, &mut recorder, 7, 30 * MIB).unwrap();
        torch.free(&gpu, &mut recorder, 7, activation);
        torch
            .malloc(&mut gpu, &mut recorder, 7, 5 * MIB / 4)
            .unwrap();
        // Keeps the next activation from taking what is left of this segment.
        torch
            .malloc(&mut gpu, &mut recorder, 7, 29 * MIB - MIB / 2)
            .unwrap();
    }
    let fillers: Vec<u64> = torch
        .active()
        .into_iter()
        .filter(|&(_, size)| size > 25 * MIB && size < 30 * MIB)
        .map(|(address, _)| address)
        .collect();
    for filler in fillers {
        torch.free(&gpu, &mut recorder, 7, filler);
    }
    assert_eq!(torch.malloc(&mut gpu, &mut recorder, 7, 90 * MIB), None);
    assert_eq!(torch.malloc(&mut gpu, &mut recorder, 7, 900 * MIB), None);
    // A free that was pending: the same request works at once.
    recorder.out_of_memory(8, 0, 20 * MIB, torch.totals());
    torch.malloc(&mut gpu, &mut recorder, 8, 20 * MIB).unwrap();
    for event in &mut recorder.events {
        if event.api == ApiId::by_name("cudaMalloc") {
            event.caller = Some(if nccl > 0 { NCCL } else { C10 });
        }
        nccl = nccl.saturating_sub(1);
    }
    recorder.fact(&Fact::Account(fact::Account {
        api: "cudaMalloc".to_owned(),
        ..fact::Account::default()
    }));
    recorder.fact(&Fact::End);
    recorder.events
}

/// Compares with a file of tests/golden. `UPDATE_GOLDEN=1` writes it instead: read the change.
fn assert_golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        actual,
        golden,
        "{} differs; UPDATE_GOLDEN=1 rewrites it",
        path.display()
    );
}

#[test]
fn the_story_as_text() {
    let text = text(&report(&story(), None, Some(40 * MIB)), Colour::Off);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "too long: {line}");
    }
    assert_golden("fragmentation.txt", &text);
}

#[test]
fn the_story_as_json() {
    let report = report(&story(), None, Some(40 * MIB));
    let json = serde_json::to_string_pretty(&report).unwrap() + "\n";
    assert_golden("fragmentation.json", &json);
}

/// What the golden files say, worked out by hand from the story.
#[test]
fn the_story_is_told_right() {
    let report = report(&story(), None, Some(40 * MIB));
    assert_eq!(report.schema, SCHEMA);
    let torch = torch(&report);
    // 64 + 48 MiB of weights; 4 leftovers; 512 B, 70,144 B and 1 MiB of small blocks; 20 MiB.
    let small = 512 + 70_144 + MIB;
    assert_eq!(torch.allocated, 112 * MIB + 5 * MIB + small + 20 * MIB);
    // One small segment, two of weights, four of 30 MiB.
    assert_eq!(torch.reserved, (2 + 64 + 48 + 4 * 30) * MIB);
    assert!(torch.map.complete);
    assert_eq!(torch.free_external, torch.unused);
    assert_eq!(torch.largest_free, 115 * MIB / 4);
    // The 20 MiB went into one of the four: three stay pinned.
    assert_eq!(
        (torch.pinned.segments, torch.pinned.free),
        (3, 3 * 115 * MIB / 4)
    );
    let [fragmented, too_much, retried] = &torch.out_of_memory[..] else {
        panic!("three")
    };
    assert_eq!(
        (fragmented.asked, fragmented.fragmented),
        (90 * MIB, Some(true))
    );
    assert_eq!(fragmented.free_in_pool, 115 * MIB);
    assert_eq!(fragmented.device_had_room, Some(false));
    assert_eq!(
        (too_much.asked, too_much.fragmented),
        (900 * MIB, Some(false))
    );
    assert!(retried.retry.unwrap().pending_free);
    let driver = report.processes[0].devices[0].driver.as_ref().unwrap();
    // 900 KiB of small blocks in one page, 3 MiB in two.
    assert_eq!(driver.waste_bytes, 2 * MIB - (900 << 10) + MIB);
    assert_eq!(
        driver
            .held_by
            .iter()
            .map(|held| held.waste_bytes)
            .sum::<u64>(),
        driver.waste_bytes
    );
    for held in driver.held_by.iter().filter(|held| held.waste_bytes > 0) {
        assert_eq!(held.caller.as_deref(), Some("/opt/libnccl.so.2"));
    }
}

#[test]
fn colour_changes_no_text() {
    let report = report(&story(), None, Some(40 * MIB));
    let coloured = text(&report, Colour::On);
    assert!(coloured.contains("\x1b["));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    assert_eq!(plain, text(&report, Colour::Off));
}

/// xorshift64*: the same numbers everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound
    }

    fn index(&mut self) -> usize {
        usize::try_from(self.below(1 << 31)).unwrap()
    }

    fn size(&mut self) -> u64 {
        match self.below(4) {
            0 => 1 + self.below(MIB),
            1 => MIB + self.below(9 * MIB),
            2 => 9 * MIB + self.below(3 * MIB),
            _ => 1 + self.below(100 * MIB),
        }
    }
}

/// A program on device 0 alone, from a number.
fn random_op(numbers: &mut Numbers) -> Op {
    let tid = 1;
    match numbers.below(20) {
        0..10 => Op::Malloc {
            device: 0,
            size: numbers.size(),
            tid,
        },
        10..17 => Op::Free {
            nth: numbers.index(),
            tid,
        },
        17 => Op::EmptyCache { device: 0, tid },
        18 => Op::RawMalloc {
            device: 0,
            size: numbers.size(),
            tid,
        },
        _ => Op::RawFree {
            nth: numbers.index(),
            tid,
        },
    }
}

/// Each answer to "would it fit" against what the model then does.
#[test]
fn what_is_said_to_fit_fits_and_nothing_else() {
    let mut numbers = Numbers(0x1234_5678_9abc_def1);
    let (mut cached, mut new, mut neither) = (0, 0, 0);
    for _ in 0..40 {
        let mut program = Program::new(512 * MIB);
        for step in 0..60 {
            program.run(random_op(&mut numbers));
            if step % 4 != 0 {
                continue;
            }
            let gpu = &program.gpus[0];
            program
                .recorder
                .memory_info(1, 0, gpu.free_bytes(), gpu.capacity);
            let size = numbers.size();
            let before = report(&program.recorder.events, None, Some(size));
            let Some(fit) = before.processes[0].devices[0]
                .torch
                .as_ref()
                .and_then(|torch| torch.fit.clone())
            else {
                continue;
            };
            let seen = program.recorder.events.len();
            program.run(Op::Malloc {
                device: 0,
                size,
                tid: 1,
            });
            let after = &program.recorder.events[seen..];
            let made = |name| after.iter().any(|event| event.api == ApiId::by_name(name));
            let needed_segment = made("cudaMalloc");
            let failed = made("c10::reportOutOfMemoryToProfiler");
            assert_eq!(
                fit.cached.fits,
                Some(!needed_segment),
                "{}",
                fit.cached.reason
            );
            if let Some(block) = fit.cached.free_block {
                assert_eq!(after[0].address, Some(block.address));
            }
            if needed_segment {
                assert_eq!(
                    fit.new_segment.fits,
                    Some(!failed),
                    "{}",
                    fit.new_segment.reason
                );
                let asked = after
                    .iter()
                    .find(|event| event.api == ApiId::by_name("cudaMalloc"));
                assert_eq!(
                    fit.new_segment.segment.map(u64::cast_signed),
                    asked.unwrap().size
                );
            }
            match (needed_segment, failed) {
                (false, _) => cached += 1,
                (true, false) => new += 1,
                (true, true) => neither += 1,
            }
        }
    }
    // The programs must have met all three outcomes for this to mean something.
    assert!(
        cached > 50 && new > 50 && neither > 20,
        "{cached} {new} {neither}"
    );
}

#[test]
fn a_moment_in_the_middle_is_what_it_was() {
    let mut numbers = Numbers(77);
    let mut program = Program::new(512 * MIB);
    let mut moments = Vec::new();
    for _ in 0..120 {
        program.run(random_op(&mut numbers));
        let last = program.recorder.events.last().unwrap();
        let returned = last.timestamp + last.duration.unwrap_or(0);
        let torch = &program.torch[0];
        moments.push((
            returned,
            torch.totals(),
            torch.segments.len(),
            torch.active().len(),
        ));
    }
    let start = program.recorder.events[0].timestamp;
    for (moment, totals, segments, blocks) in moments {
        for at in [Time::Monotonic(moment), Time::SinceStart(moment - start)] {
            let report = report(&program.recorder.events, Some(at), None);
            assert_eq!(report.at_ns, Some(moment));
            let Some(process) = report.processes.first() else {
                continue;
            };
            let Some(torch) = &process.devices[0].torch else {
                continue;
            };
            assert_eq!((torch.allocated, torch.reserved), totals);
            assert_eq!(torch.segments.len(), segments);
            assert_eq!(
                torch.segments.iter().map(|s| s.blocks.len()).sum::<usize>(),
                blocks
            );
        }
    }
}

#[test]
fn a_process_that_ended_is_shown_as_it_was_before() {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    let (mut gpu, mut allocator) = (Gpu::new(0, 1 << 30), oracle::Torch::default());
    for size in [14 * MIB, 2 * MIB] {
        allocator.malloc(&mut gpu, &mut recorder, 1, size).unwrap();
    }
    recorder.fact(&Fact::Exit);
    recorder.fact(&Fact::End);
    let report = report(&recorder.events, None, None);
    assert_eq!(report.processes[0].ended, Some("exit"));
    assert_eq!(
        (torch(&report).allocated, torch(&report).reserved),
        (16 * MIB, 34 * MIB)
    );
    assert!(report.recording.complete);
    assert!(flat(&report).contains("What it held when it exited"));
}

#[test]
fn holes_between_device_allocations_are_no_fragmentation() {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    let mut gpu = Gpu::new(0, 1 << 40);
    let blocks: Vec<u64> = (0..64).map(|_| gpu.malloc(8 * MIB).unwrap()).collect();
    for &block in &blocks {
        recorder.alloc(1, 0, 8 * MIB, Some(block));
    }
    for &block in blocks.iter().step_by(2) {
        recorder.free(1, block);
    }
    let report = report(&recorder.events, None, Some(100 * MIB));
    let driver = report.processes[0].devices[0].driver.as_ref().unwrap();
    assert_eq!((driver.live_bytes, driver.waste_bytes), (256 * MIB, 0));
    assert!(report.processes[0].devices[0].torch.is_none());
    let text = flat(&report);
    assert!(text.contains("cannot be seen. A snapshot"), "{text}");
    assert!(!text.to_lowercase().contains("fragmented"), "{text}");
}

#[test]
fn half_freed_small_blocks_are_page_waste_of_their_caller() {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    callers(&mut recorder);
    let mut gpu = Gpu::new(0, 1 << 40);
    let blocks: Vec<u64> = (0..1024).map(|_| gpu.malloc(MIB).unwrap()).collect();
    for &block in &blocks {
        recorder.alloc(1, 0, MIB, Some(block));
        recorder.events.last_mut().unwrap().caller = Some(NCCL);
    }
    for &block in blocks.iter().step_by(2) {
        recorder.free(1, block);
    }
    let report = report(&recorder.events, None, None);
    let driver = report.processes[0].devices[0].driver.as_ref().unwrap();
    assert_eq!(
        (driver.live_bytes, driver.held_bytes),
        (512 * MIB, 1024 * MIB)
    );
    let [held] = &driver.held_by[..] else {
        panic!("one group")
    };
    assert_eq!(
        (held.blocks, held.size_class_bytes, held.waste_bytes),
        (512, MIB, 512 * MIB)
    );
    assert_eq!(held.caller.as_deref(), Some("/opt/libnccl.so.2"));
}

#[test]
fn a_shared_page_is_charged_by_bytes() {
    let mut recorder = Recorder::default();
    callers(&mut recorder);
    let base = 0x7f00_0000_0000;
    // Three quarters of the used bytes are one caller's; 1 MiB of the page is unused.
    for (offset, size, caller) in [(0, 3 * MIB / 4, C10), (MIB, MIB / 4, NCCL)] {
        recorder.alloc(1, 0, size, Some(base + offset));
        recorder.events.last_mut().unwrap().caller = Some(caller);
    }
    let report = report(&recorder.events, None, None);
    let driver = report.processes[0].devices[0].driver.as_ref().unwrap();
    let waste: Vec<u64> = driver.held_by.iter().map(|held| held.waste_bytes).collect();
    assert_eq!(waste, [3 * MIB / 4, MIB / 4]);
}

#[test]
fn a_late_start_leaves_answers_open() {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(false));
    recorder.alloc(1, 0, 20 * MIB, Some(0x7f00_0000_0000));
    recorder.report(1, 0, 0x7f00_0000_0000, 4 << 20, (104 * MIB, 220 * MIB));
    let small = report(&recorder.events, None, Some(8 * MIB));
    let fit = torch(&small).fit.as_ref().unwrap();
    // A known free block is there whatever else is; that there is none elsewhere is not known.
    assert_eq!(fit.cached.fits, Some(true));
    assert_eq!(fit.new_segment.fits, None);
    let large = report(&recorder.events, None, Some(50 * MIB));
    let fit = torch(&large).fit.as_ref().unwrap();
    assert_eq!(fit.cached.fits, None);
    assert!(
        fit.cached.reason.contains("not known"),
        "{}",
        fit.cached.reason
    );
    let text = flat(&large);
    assert!(text.contains("Traced from after its start"), "{text}");
    assert!(
        text.contains("The map below is partial: 100 MiB allocated in no known block"),
        "{text}"
    );
}

#[test]
fn lost_reports_leave_answers_open() {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    let (mut gpu, mut allocator) = (Gpu::new(0, 1 << 30), oracle::Torch::default());
    for _ in 0..3 {
        allocator
            .malloc(&mut gpu, &mut recorder, 1, 4 * MIB)
            .unwrap();
    }
    // The second report is lost: its block looks free.
    recorder.events.remove(3);
    let report = report(&recorder.events, None, Some(4 * MIB));
    let torch = torch(&report);
    assert_eq!(torch.map.discontinuities, 1);
    assert_eq!(torch.fit.as_ref().unwrap().cached.fits, None);
    assert!(flat(&report).contains("Reports were lost once"));
}

#[test]
fn an_absurd_request_fits_nowhere() {
    let report = report(&story(), None, Some(u64::MAX));
    let fit = torch(&report).fit.as_ref().unwrap();
    assert_eq!(
        (fit.rounded, fit.cached.fits, fit.new_segment.fits),
        (None, Some(false), Some(false))
    );
}

#[test]
fn an_empty_recording_is_said_to_be_empty() {
    let report = report(&[], None, None);
    assert!(report.processes.is_empty());
    assert_eq!(
        text(&report, Colour::Off),
        "No process had device memory.\n"
    );
}

/// Names that a traced process chose cannot steer the reader's terminal.
#[test]
fn names_are_made_harmless() {
    let mut recorder = Recorder::default();
    let Fact::Process(info) = introduction(true) else {
        unreachable!()
    };
    recorder.fact(&Fact::Process(fact::Process {
        title: "a\x1b[2Jb\n".to_owned(),
        ..info
    }));
    recorder.alloc(1, 0, MIB, Some(0x7f00_0000_0000));
    let text = text(&report(&recorder.events, None, None), Colour::Off);
    assert!(text.contains(&format!("Process {PID} a?[2Jb?")), "{text}");
}

#[test]
fn losses_are_said() {
    let mut recorder = Recorder::default();
    recorder.fact(&introduction(true));
    recorder.alloc(1, 0, MIB, Some(0x7f00_0000_0000));
    recorder.fact(&Fact::Account(fact::Account {
        api: "c10::reportMemoryUsageToProfiler".to_owned(),
        lost_ring: 12,
        ..fact::Account::default()
    }));
    // Also when the moment asked for lies before the account of the losses.
    let at = Some(Time::Monotonic(recorder.events[1].timestamp + 500));
    let report = report(&recorder.events, at, None);
    assert_eq!(report.recording.lost_torch_reports, Some(12));
    assert_eq!(report.recording.lost_memory_records, Some(0));
    assert!(flat(&report).contains("lost 12 reports of PyTorch"));
}

/// The story as a file, with launches between its rows, which the command skips.
fn story_file() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = trace::Writer::new(&mut file).unwrap();
    for event in story() {
        writer.push(&event).unwrap();
        if event.api.is_some() {
            let launch = ApiId::by_name("cuLaunchKernel");
            writer
                .push(&Event {
                    api: launch,
                    text: None,
                    ..event
                })
                .unwrap();
        }
    }
    writer.finish().unwrap();
    file
}

fn command(arguments: &[&str], file: &Path) -> std::process::Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_cudasnoop-analyzer"))
        .arg("fragmentation")
        .args(arguments)
        .arg(file)
        .output()
        .unwrap()
}

#[test]
fn the_command_says_what_the_library_says() {
    let file = story_file();
    let output = command(&["--fit", "40MiB"], file.path());
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/fragmentation.txt");
    let golden = std::fs::read_to_string(golden).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), golden);
}

#[test]
fn the_command_prints_json_of_the_moment_asked_for() {
    let file = story_file();
    let output = command(&["--json", "--at", "0.000043"], file.path());
    assert!(output.status.success());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], SCHEMA);
    let torch = &json["processes"][0]["devices"][0]["torch"];
    assert_eq!(torch["out_of_memory_count"], 1);
    assert_eq!(torch["fit"], serde_json::Value::Null);
    assert_eq!(torch["reserved"], 234 * MIB);
}

#[test]
fn the_command_refuses_what_it_cannot_read() {
    let file = story_file();
    let output = command(&["--fit", "12 parsecs"], file.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("expected bytes, or a number")
    );
    let output = command(&[], Path::new("/nowhere/at-all"));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("/nowhere/at-all")
    );
}

/// A process that is traced from its start, its device of 16 GiB, and its allocator.
struct Story {
    recorder: Recorder,
    gpu: Gpu,
    torch: oracle::Torch,
}

impl Story {
    fn new() -> Self {
        let mut recorder = Recorder::default();
        recorder.fact(&introduction(true));
        callers(&mut recorder);
        Self {
            recorder,
            gpu: Gpu::new(0, 16 << 30),
            torch: oracle::Torch::default(),
        }
    }

    fn take(&mut self, mib: u64) -> u64 {
        let size = mib * MIB;
        let (gpu, recorder) = (&mut self.gpu, &mut self.recorder);
        self.torch.malloc(gpu, recorder, 7, size).unwrap()
    }

    fn give(&mut self, address: u64) {
        self.torch.free(&self.gpu, &mut self.recorder, 7, address);
    }

    fn report(mut self) -> Report {
        self.recorder.fact(&Fact::End);
        report(&self.recorder.events, None, None)
    }
}

/// What kinds of findings there are, notes left out.
fn alarms(report: &Report) -> Vec<&str> {
    let alarms = report.findings.iter();
    alarms
        .filter(|finding| finding.severity != Severity::Info)
        .map(|finding| finding.id.split(':').next().unwrap())
        .collect()
}

fn numbers(report: &Report, keys: &[&str]) -> Vec<u64> {
    let numbers = &report.findings[0].numbers;
    keys.iter()
        .map(|key| numbers[key].as_u64().unwrap())
        .collect()
}

/// Large short-lived tensors, each of which leaves a small one behind in its segment.
#[test]
fn pinned_segments_are_found() {
    let mut story = Story::new();
    let mut fillers = Vec::new();
    for _ in 0..4 {
        let large = story.take(300);
        story.give(large);
        story.take(2);
        fillers.push(story.take(298));
    }
    for filler in fillers {
        story.give(filler);
    }
    let report = story.report();
    assert_eq!(alarms(&report), ["fragmentation.pinned_segments"]);
    let keys = [
        "pinned_segments",
        "pinned_live_bytes",
        "pinned_free_bytes",
        "reserved_bytes",
        // All but the piece of 20 MiB that the small one lies in.
        "expandable_would_free_bytes",
    ];
    assert_eq!(
        numbers(&report, &keys),
        [4, 8 * MIB, 4 * 298 * MIB, 1200 * MIB, 4 * 280 * MIB]
    );
    assert_golden("pinned-segments.txt", &text(&report, Colour::Off));
}

#[test]
fn small_tensors_before_large_ones_pin_nothing() {
    let mut story = Story::new();
    for _ in 0..4 {
        story.take(2);
    }
    for _ in 0..4 {
        let large = story.take(300);
        story.give(large);
    }
    assert_eq!(alarms(&story.report()), Vec::<&str>::new());
}

/// 530 MiB that are free again serve a request of 270 MiB, and nothing ever needs 260 MiB or less.
#[test]
fn split_remainders_that_no_request_fits_are_found() {
    let mut story = Story::new();
    for _ in 0..6 {
        let staging = story.take(530);
        story.give(staging);
        story.take(270);
    }
    let report = story.report();
    assert_eq!(alarms(&report), ["fragmentation.stranded"]);
    let keys = [
        "remainder_bytes",
        "remainders",
        "stranded_bytes",
        "fitting_requests",
        "requests",
        "max_split_size_would_free_bytes",
    ];
    let (rest, all) = (260 * MIB, 6 * 260 * MIB);
    assert_eq!(numbers(&report, &keys), [rest, 6, all, 0, 12, all]);
    assert!(flat(&report).contains("Split remainders of 260 MiB x 6 = 1.52 GiB"));
    assert!(flat(&report).contains("PYTORCH_ALLOC_CONF=max_split_size_mb:20"));
    assert_golden("stranded.txt", &text(&report, Colour::Off));
}

/// The same remainders, but requests fit them all the time.
#[test]
fn remainders_that_are_used_are_not_stranded() {
    let mut story = Story::new();
    for _ in 0..6 {
        let staging = story.take(530);
        story.give(staging);
        story.take(270);
        let activation = story.take(260);
        story.give(activation);
    }
    assert_eq!(alarms(&story.report()), Vec::<&str>::new());
}

#[test]
fn the_order_that_strands_nothing_is_healthy() {
    let mut story = Story::new();
    for _ in 0..6 {
        story.take(270);
    }
    for _ in 0..6 {
        let staging = story.take(530);
        story.give(staging);
    }
    assert_eq!(alarms(&story.report()), Vec::<&str>::new());
}

/// 256 blocks of 1 MiB, of which a part is freed.
fn shared_pages(freed: impl Fn(usize) -> bool) -> Report {
    let mut story = Story::new();
    let blocks: Vec<u64> = (0..256)
        .map(|_| {
            let address = story.gpu.malloc(MIB).unwrap();
            story.recorder.alloc(11, 0, MIB, Some(address));
            address
        })
        .collect();
    for (_, block) in blocks.into_iter().enumerate().filter(|(n, _)| freed(*n)) {
        story.gpu.free(block);
        story.recorder.free(11, block);
    }
    for event in &mut story.recorder.events {
        event.caller = event.api.map(|_| NCCL);
    }
    story.report()
}

#[test]
fn page_waste_is_found() {
    let report = shared_pages(|block| block % 2 == 1);
    assert_eq!(alarms(&report), ["fragmentation.page_waste"]);
    let keys = ["waste_bytes", "held_bytes", "packing_would_free_bytes"];
    let [half, all] = [128 * MIB, 256 * MIB];
    assert_eq!(numbers(&report, &keys), [half, all, half]);
    let caller = report.findings[0].evidence[0].caller.as_deref();
    assert_eq!(caller, Some("/opt/libnccl.so.2"));
    assert_golden("page-waste.txt", &text(&report, Colour::Off));
}

#[test]
fn whole_pages_that_are_freed_leave_no_waste() {
    assert_eq!(
        alarms(&shared_pages(|block| block >= 128)),
        Vec::<&str>::new()
    );
    assert_eq!(alarms(&shared_pages(|_| false)), Vec::<&str>::new());
}

#[test]
fn pools_have_pages_of_their_own() {
    let mut story = Story::new();
    let address = story.gpu.malloc(4 * MIB).unwrap();
    story.recorder.alloc(11, 0, 4 * MIB, Some(address));
    for event in &mut story.recorder.events {
        if event.api.is_some() {
            event.api = ApiId::by_name("cudaMallocAsync");
        }
    }
    let report = story.report();
    let driver = report.processes[0].devices[0].driver.as_ref().unwrap();
    assert_eq!(
        (driver.pool_live_bytes, driver.held_bytes),
        (4 * MIB, 32 * MIB)
    );
    let text = flat(&report);
    assert!(
        text.contains("memory pools, 4.00 MiB live, in pieces of 32.0 MiB"),
        "{text}"
    );
    assert_eq!(alarms(&report), Vec::<&str>::new());
}

/// The report of the same recording says the same, with one ledger for both.
#[test]
fn the_report_has_these_findings_too() {
    let mut story = Story::new();
    for _ in 0..6 {
        let staging = story.take(530);
        story.give(staging);
        story.take(270);
    }
    story.recorder.fact(&Fact::End);
    let mut writer = trace::Writer::new(Vec::new()).unwrap();
    for event in &story.recorder.events {
        writer.push(event).unwrap();
    }
    let file = writer.finish().unwrap();
    let mut reader = trace::Reader::new(&file[..]).unwrap();
    let mut collector = analyzer::report::Collector::new(Selection::default());
    for batch in &mut reader {
        collector.batch(&batch.unwrap());
    }
    let whole = collector.finish(reader.end().unwrap());
    let ours = report(&story.recorder.events, None, None);
    let stranded = |finding: &&Finding| finding.id.starts_with("fragmentation.stranded");
    assert_eq!(
        whole.findings.iter().find(stranded).map(|f| &f.numbers),
        ours.findings.iter().find(stranded).map(|f| &f.numbers)
    );
    assert_eq!(whole.findings.iter().filter(stranded).count(), 1);
}
