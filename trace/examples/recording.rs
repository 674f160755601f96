//! Makes a recording of a made-up program, to measure what reads it:
//!
//! ```text
//! cargo run --release -p trace --example recording -- FILE EVENTS [pytorch|copies]
//! ```
mod program;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;

use agent_common::ApiId;
use program::{CALLERS, Mix, Order, PID, Program};
use trace::fact::{Account, Caller, Clock, Kernel, Process, Settings};
use trace::{Event, Fact, Kind, Writer};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("FILE");
    let events: u64 = arguments
        .next()
        .and_then(|events| events.parse().ok())
        .expect("EVENTS, a number");
    let mix = match arguments.next().as_deref() {
        None | Some("pytorch") => Mix::PYTORCH,
        Some("copies") => Mix::COPIES,
        Some(other) => panic!("no mix is named {other}"),
    };
    let output = File::create(file).expect("FILE can be made");
    let mut writer = Writer::new(BufWriter::new(output)).expect("FILE can be written");
    let mut push = |event: &Event| {
        writer.push(event).expect("FILE can be written");
    };
    let mut program = Program::new(Order::Loop, mix);
    for fact in beginning(program.now(), mix.kernels) {
        push(&row(program.now(), &fact));
    }
    let mut accounts: BTreeMap<ApiId, u64> = BTreeMap::new();
    for _ in 0..events {
        let event = program.next_event();
        if let (Some(api), Kind::Call) = (event.api, event.kind) {
            *accounts.entry(api).or_default() += 1;
        }
        push(&event);
    }
    for (api, calls) in accounts {
        let account = Account {
            api: api.api().expect("it was recorded").name.to_owned(),
            made: calls,
            reported: calls,
            ..Account::default()
        };
        push(&row(program.now(), &Fact::Account(account)));
    }
    push(&row(program.now(), &Fact::End));
    writer.finish().expect("FILE can be written");
}

/// What a recorder tells before the first call.
fn beginning(now: u64, kernels: u32) -> Vec<Fact> {
    let settings = Settings {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: "6.18.0".to_owned(),
        host: "made-up".to_owned(),
        attach: "scoped".to_owned(),
        events: ["memory", "launch", "copy", "sync", "torch"]
            .map(str::to_owned)
            .to_vec(),
        ring_bytes: 64 << 20,
        ..Settings::default()
    };
    let clock = Clock {
        monotonic: now,
        boottime: now,
        realtime: 1_700_000_000_000_000_000,
    };
    let process = Process {
        pid: PID,
        namespace_pid: PID,
        start_time: 100,
        parent: 1,
        exe: "/usr/bin/python3".to_owned(),
        title: "python3".to_owned(),
        command: "python3 -m program".to_owned(),
        from_start: true,
        ..Process::default()
    };
    let callers = (0..).zip(CALLERS).map(|(id, module)| {
        Fact::Caller(Caller {
            id,
            module: Some(module.to_owned()),
        })
    });
    let kernels = (0..kernels).map(|id| {
        Fact::Kernel(Kernel {
            id,
            name: Some(format!("_ZN2at6native9kernel{id:03}EPfPKfi")),
            module: Some(CALLERS[0].to_owned()),
            handle: program::handle(id),
        })
    });
    let first = [
        Fact::Settings(settings),
        Fact::Clock(clock),
        Fact::Process(process),
    ];
    first.into_iter().chain(callers).chain(kernels).collect()
}

fn row(timestamp: u64, fact: &Fact) -> Event {
    Event {
        timestamp,
        pid: PID,
        tid: PID,
        kind: Kind::Fact,
        text: Some(fact.to_text()),
        ..Event::default()
    }
}
