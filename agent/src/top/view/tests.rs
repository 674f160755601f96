//! Frames on ratatui's test backend, compared with those that were looked at and found right.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::Color,
};

use super::*;
use crate::top::reading::{Budget, Copied, Device, Function, Holder, HolderKey, Process, Torch};

const MIB: u64 = 1 << 20;

fn device(pid: u32, device: i32, mib: u64) -> Device {
    Device {
        pid,
        process: format!("VLLM::Worker_TP{device}"),
        ordinal: Some(device),
        live: Some(mib * MIB),
        held: Some(mib * MIB + 3 * MIB),
        waste: Some(3 * MIB),
        peak: Some(2 * mib * MIB),
        free: (device == 0).then_some(41 << 30),
        torch: (device == 0).then_some(Torch {
            allocated: 700 * MIB,
            reserved: 900 * MIB,
        }),
        ..Device::default()
    }
}

fn holder(caller: Option<&str>, kind: &str, count: u64, bytes: u64) -> Holder {
    Holder {
        key: HolderKey {
            pid: 4242,
            device: Some(0),
            caller: caller.map(str::to_owned),
            kind: kind.to_owned(),
        },
        count,
        bytes,
    }
}

/// After so many seconds.
fn reading(seconds: u64) -> Reading {
    let kernels =
        (0..30).map(|number| (format!("gemm_kernel_{number:02}"), number * 100 * seconds));
    let function = |calls, errors| Function {
        calls,
        errors,
        timed: calls,
        seconds: 0.000_004 * 1_000.0,
    };
    Reading {
        at_ns: seconds * 1_000_000_000,
        calls: 12_345 * seconds,
        errors: 2,
        launches: 43_500 * seconds,
        captured: 12,
        graphs: 3 * seconds,
        copied: Copied {
            to_device: 1288 * MIB * seconds,
            to_host: 12 * MIB * seconds,
            on_device: 0,
            other: 4096,
        },
        waited: 0.123 * f64::from(u32::try_from(seconds).expect("small")),
        lost: BTreeMap::new(),
        ring_fill: 0.015,
        probes: 533,
        libraries: 3,
        processes: 2,
        agent_cpu: 0.012 * f64::from(u32::try_from(seconds).expect("small")),
        agent_memory: 45 * MIB,
        kernels: kernels.collect(),
        functions: BTreeMap::from([
            ("cudaMalloc".to_owned(), function(1_000, 2)),
            ("cudaLaunchKernel".to_owned(), function(12_000 * seconds, 0)),
        ]),
        by_process: BTreeMap::from([(
            "VLLM::Worker_TP0".to_owned(),
            Process {
                calls: 12_345 * seconds,
                copied: 1300 * MIB * seconds,
                waited: 0.0,
            },
        )]),
        devices: vec![device(4242, 0, 1024), device(4243, 1, 2048)],
        holders: vec![
            holder(Some("libc10_cuda.so"), "device", 17, 900 * MIB),
            holder(Some("libnccl.so.2"), "device", 4, (100 + 4 * seconds) * MIB),
            holder(None, "pinned_host", 1, 4096),
        ],
        ..Reading::default()
    }
}

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

struct Frame {
    terminal: Terminal<TestBackend>,
    state: State,
}

impl Frame {
    fn new(width: u16, height: u16) -> Self {
        Self {
            terminal: Terminal::new(TestBackend::new(width, height)).expect("a terminal"),
            state: State::new(Duration::from_secs(1)),
        }
    }

    fn press(&mut self, code: KeyCode) {
        self.state.press(key(code));
    }

    fn draw(&mut self, view: &View<'_>) -> String {
        let state = &mut self.state;
        self.terminal
            .draw(|frame| view.draw(state, frame.area(), frame.buffer_mut()))
            .expect("drawn");
        self.terminal.backend().to_string()
    }
}

fn view<'a>(now: &'a Reading, before: &'a Reading) -> View<'a> {
    View {
        title: "-p 4242",
        now: Some(now),
        before: Some(before),
        note: None,
        colours: Colours::None,
    }
}

/// Compares with a file. `TestBackend` puts each line in quotes.
fn assert_frame(frame: &str, file: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/top/view/golden");
    let golden = fs::read_to_string(folder.join(file)).expect("a golden frame");
    let lines = frame.lines().map(|line| line.trim_matches('"').trim_end());
    let found: Vec<&str> = lines.collect();
    let expected: Vec<&str> = golden.lines().collect();
    assert!(found == expected, "the frame is now:\n{}", found.join("\n"));
}

#[test]
fn eighty_columns_are_enough() {
    let (now, before) = (reading(10), reading(9));
    let mut frame = Frame::new(80, 24);
    let drawn = frame.draw(&view(&now, &before));
    assert_frame(&drawn, "memory-80x24.txt");
    frame.press(KeyCode::Tab);
    let drawn = frame.draw(&view(&now, &before));
    assert_frame(&drawn, "kernels-80x24.txt");
    frame.press(KeyCode::Char('h'));
    let drawn = frame.draw(&view(&now, &before));
    assert_frame(&drawn, "help-80x24.txt");
}

#[test]
fn a_budget_is_shown() {
    let (mut now, before) = (reading(10), reading(9));
    now.budget = Some(Budget {
        allowed: 0.01,
        overhead: 0.0123,
        window: 1.0,
    });
    let drawn = Frame::new(80, 24).draw(&view(&now, &before));
    let line = drawn
        .lines()
        .find(|line| line.contains("Agent"))
        .expect("a line");
    assert!(
        line.contains("45.0 MiB  probes 1.2 % of 1.0 %, windows 100.0 %"),
        "{line}"
    );
}

#[test]
fn text_is_the_same_without_a_terminal() {
    let (now, before) = (reading(10), reading(9));
    let lines = view(&now, &before).lines(&State::new(Duration::from_secs(1)));
    assert_frame(&lines.join("\n"), "text.txt");
}

#[test]
fn a_list_ends_where_its_rows_end() {
    let (now, before) = (reading(10), reading(9));
    let mut frame = Frame::new(80, 24);
    frame.press(KeyCode::Char('k'));
    frame.press(KeyCode::End);
    let drawn = frame.draw(&view(&now, &before));
    assert!(drawn.contains("gemm_kernel_00"), "{drawn}");
    // What is out of reach was not counted: one up is one up.
    frame.press(KeyCode::Up);
    let drawn = frame.draw(&view(&now, &before));
    assert!(!drawn.contains("gemm_kernel_00"), "{drawn}");
    frame.press(KeyCode::Home);
    let drawn = frame.draw(&view(&now, &before));
    assert!(drawn.contains("gemm_kernel_29"), "{drawn}");
}

#[test]
fn any_size_will_do() {
    let (mut now, before) = (reading(10), reading(9));
    now.devices = (0..40).map(|number| device(4000, number, 1)).collect();
    now.lost.insert("ring_full".to_owned(), 7);
    now.untraced = Some("cap_bpf".to_owned());
    for (width, height) in [(1, 1), (10, 3), (40, 10), (80, 24), (300, 100)] {
        let mut frame = Frame::new(width, height);
        for code in [
            KeyCode::Tab,
            KeyCode::End,
            KeyCode::Char('/'),
            KeyCode::Char('x'),
        ] {
            frame.press(code);
            frame.draw(&view(&now, &before));
        }
        frame.terminal.backend_mut().resize(height, width);
        frame.draw(&view(&now, &before));
    }
}

#[test]
fn what_is_not_known_is_not_nothing() {
    let now = reading(10);
    let mut frame = Frame::new(80, 24);
    let mut view = view(&now, &now);
    view.before = None;
    let drawn = frame.draw(&view);
    let calls = drawn
        .lines()
        .find(|line| line.contains("Calls"))
        .expect("a line");
    assert!(calls.contains(" - ") && !calls.contains("0/s"), "{calls}");
    // Two readings of one moment make no rates, and neither do counters that went down.
    view.before = Some(&now);
    assert!(frame.draw(&view).contains(" - "));
    let later = Reading {
        at_ns: now.at_ns + 1,
        calls: now.calls + 1,
        ..now.clone()
    };
    let earlier = Since::new(&now, Some(&later));
    assert_eq!(earlier.rate(1, |_| 0), None);
    view.now = None;
    assert!(frame.draw(&view).contains("waiting for the first figures"));
}

#[test]
fn losses_stand_out_and_without_colours_there_are_none() {
    let (mut now, before) = (reading(10), reading(9));
    now.lost.insert("ring_full".to_owned(), 1234);
    let mut frame = Frame::new(80, 24);
    let mut view = view(&now, &before);
    let drawn = frame.draw(&view);
    assert!(drawn.contains("lost 1,234 ring_full"), "{drawn}");
    let colours = |frame: &Frame| {
        let cells = frame.terminal.backend().buffer().content().iter();
        let colours = cells.flat_map(|cell| [cell.fg, cell.bg]);
        colours.filter(|colour| *colour != Color::Reset).count()
    };
    assert_eq!(colours(&frame), 0);
    view.colours = Colours::Some;
    frame.draw(&view);
    assert!(colours(&frame) > 0);
}

#[test]
fn hostile_text_stays_in_its_place() {
    let (mut now, before) = (reading(10), reading(9));
    now.devices[0].process = "a\nb\u{1b}[2Jc".repeat(50);
    now.kernels
        .insert("\u{1b}]0;x\u{7}\n\t".repeat(50), 1 << 60);
    let mut frame = Frame::new(80, 24);
    frame.press(KeyCode::Char('k'));
    let mut view = view(&now, &before);
    view.note = Some("one\ntwo\u{1b}[31m");
    let drawn = frame.draw(&view);
    assert_eq!(drawn.lines().count(), 24);
    assert!(!drawn.contains('\u{1b}'), "{drawn:?}");
}
